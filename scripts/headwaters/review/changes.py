"""The changes of a branch: nodes of the project that differ, and all nodes downstream. Pure.

Nodes are those of `load_compiled`. A change of formatting, comments or the case of keywords does
not count. Any other change of a text is built and compared.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headwaters.analysis import strategy_of, tokens, without_format
from headwaters.platform.nodes import Node, as_tuple, has_table, table_name
from headwaters.platform.spark_version import BARE_FUNCTIONS, CHANGING_FUNCTIONS
from headwaters.platform.sql import renamed
from headwaters.review.contracts import broken
from headwaters.review.facts import SQL_DIFFERS, Cause, ComparedColumn, Edge, Finding
from headwaters.review.sides import (
    BUILT,
    TESTS,
    Side,
    built_nodes,
    in_order,
    parents_of,
    reached,
    to_build,
)
from headwaters.review.traced_columns import is_masked
from headwaters.tables.settings import ModelSettings

if TYPE_CHECKING:
    pass

# Settings that have no effect on rows.
_WITHOUT_ROWS = frozenset(
    {
        *("tblproperties", "meta", "tags", "docs", "persist_docs", "grants", "maintenance"),
        *("group", "access", "contract", "packages", "on_schema_change", "cluster_by", "schema"),
        *("static_analysis", "freshness", "alias", "database", "on_configuration_change"),
    }
)


@dataclass(frozen=True)
class Changed:
    """A node that the branch changed itself, or whose contract or policy it breaks.

    `what` are lines for a reader. `rows` is true if its rows may differ. `tested` is true if the
    review builds it for its tests, `enforced` if for its contract, which only a build of the whole
    table checks. `not_compared` has a sentence for each change that no comparison covers. `broken`
    lists the promises that no longer hold.
    """

    unique_id: str
    causes: tuple[Cause, ...]
    what: tuple[str, ...]
    rows: bool
    tested: bool = False
    enforced: bool = False
    not_compared: tuple[str, ...] = ()
    broken: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Changes:
    """The nodes that a branch changed, and those downstream of nodes that may have other rows.

    `order` has the ids of both, upstream first. `exposures` are the names of their readers.
    `not_compared` has a sentence for each exposure that differs. `built` are the models computed
    with the branch's SQL, `built_before` the same with the base's. `tested` are the sources whose
    tests the review runs.
    """

    changed: Mapping[str, Changed]
    order: tuple[str, ...]
    exposures: tuple[str, ...]
    edges: tuple[Edge, ...]
    built: tuple[str, ...]
    built_before: tuple[str, ...]
    not_compared: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()

    @property
    def needs_spark(self) -> bool:
        """Return true if a model is built, or a source is tested."""
        return bool(self.built or self.built_before or self.tested)

    def causes(self, unique_id: str) -> tuple[Cause, ...]:
        """Return the reasons to review a node."""
        own = self.changed.get(unique_id)
        return own.causes if own else ("upstream",)


def changes(base: Side, head: Side) -> Changes:
    """Return the differences between two states of a project."""
    changed: dict[str, Changed] = {}
    moved = _moved(base, head)
    for key in sorted({*_reviewed(base), *_reviewed(head)}):
        found = _changed(key, base, head, moved)
        if lost := broken(key, base.nodes, head.nodes):
            found = replace(found or Changed(key, ("upstream",), (), rows=False), broken=lost)
        if found:
            changed[key] = found
    _tell_renamed(changed, base, head)
    roots = {key for key, one in changed.items() if one.rows}
    below = _downstream(roots, (base, head))
    both = {*changed, *below}
    order = tuple(key for key in in_order({**base.nodes, **head.nodes}) if key in both)
    rows = {*roots, *below}
    tested = tuple(key for key in order if _is_tested_source(key, changed, head))
    checked = {key for key, one in changed.items() if one.tested or one.enforced}
    built = rows | checked.difference(tested)
    return Changes(
        changed,
        order,
        tuple(sorted(_readers(rows, (base, head)))),
        tuple(_edges(both, head)),
        to_build(built, head),
        to_build(built, base),
        tuple(_exposures_changed(base, head)),
        tested,
    )


def _reviewed(side: Side) -> Iterator[str]:
    """Yield the nodes that are built, and the sources, which also have owners and readers."""
    return (key for key, node in side.nodes.items() if node["resource_type"] in (*BUILT, "source"))


def _changed(key: str, base: Side, head: Side, moved: Mapping[str, str]) -> Changed | None:
    before, after = base.nodes.get(key), head.nodes.get(key)
    if "source" in {(node or {}).get("resource_type") for node in (before, after)}:
        return _source_changed(key, base, head)
    if before is None:
        return Changed(key, ("added",), ("added",), rows=True)
    if after is None:
        return Changed(key, ("removed",), ("removed",), rows=True)
    if has_table(before) != has_table(after):
        return _table_changed(key, is_there=has_table(after))
    causes: list[Cause] = []
    what: list[str] = []
    rows = False
    if after["resource_type"] == "seed":
        if before["checksum"] != after["checksum"]:
            causes.append("seed")
            what.append("its file differs")
            rows = True
    elif _differs(before["raw_code"], after["raw_code"], before, after):
        causes.append("text")
        what.append(SQL_DIFFERS)
        rows = True
    if not rows and (names := _macros_changed(before, after, base, head)):
        causes.append("macro")
        what.append(f"macro {', '.join(names)}")
        rows = True
    elif not rows and _compiled_differs(before, after, moved):
        causes.append("macro")
        what.append("what its SQL compiles to differs: a var, an ephemeral model, a source's table")
        rows = True
    settings, of_rows = _settings(before, after)
    tests = _tests_changed(key, base, head)
    settings += _columns_changed(before, after)
    settings += [f"test {name}: {how}" for name, how in tests]
    if settings:
        causes.append("properties")
        what += settings
    if not causes:
        return None
    return Changed(
        key,
        tuple(causes),
        tuple(what),
        rows or of_rows,
        tested=any(how != "removed" for _, how in tests),
        enforced=_contract(before) != _contract(after),
    )


def _table_changed(key: str, *, is_there: bool) -> Changed:
    """Return the change of a model that is ephemeral on one side: a table is added or removed."""
    if is_there:
        return Changed(key, ("added",), ("added: it was ephemeral, and had no table",), rows=True)
    return Changed(key, ("removed",), ("removed: it is ephemeral, and has no table",), rows=True)


def _source_changed(key: str, base: Side, head: Side) -> Changed | None:
    """Return the differences of a source's declaration. Ingestion writes its rows, not the review.

    A change of a stream affects only records ingested from now on, which no review has.
    """
    before, after = base.nodes.get(key), head.nodes.get(key)
    if before is None or after is None:
        if not (_stream(before) or _stream(after)):
            return None
        how: Cause = "added" if before is None else "removed"
        kept = "its table keeps its rows" if before else "no row of it was ingested"
        sentence = f"the stream of {table_name(after or before or {})} is {how}: {kept}"
        return Changed(key, (how,), (how,), rows=False, not_compared=(sentence,))
    table = table_name(after)
    tests = _tests_changed(key, base, head)
    told = [f"test {name}: {how}" for name, how in tests]
    what = (*_settings(before, after)[0], *_columns_changed(before, after), *told)
    sentences = []
    if _reading(before) != _reading(after):
        sentences.append(f"{table} is read in another way: this reaches rows ingested from now on")
    if not what:
        return None
    is_tested = any(how != "removed" for _, how in tests)
    not_compared = tuple(sentences)
    return Changed(key, ("properties",), what, False, is_tested, not_compared=not_compared)


def _is_tested_source(key: str, changed: Mapping[str, Changed], head: Side) -> bool:
    is_source = head.nodes.get(key, {}).get("resource_type") == "source"
    return is_source and key in changed and changed[key].tested


def _stream(node: Node | None) -> Any:
    return ((node or {}).get("config") or {}).get("meta", {}).get("stream")


def _reading(node: Node) -> list[Any]:
    """Return the parts of a source's declaration that determine how its records become rows."""
    silent = {"description", "tags", "docs"}
    columns = [
        {name: value for name, value in column.items() if name not in silent and value}
        for column in node["columns"].values()
    ]
    return [_stream(node), *(columns if _stream(node) else ())]


def _readers(keys: set[str], sides: Iterable[Side]) -> set[str]:
    """Return the names of the exposures that read any of these nodes, on either side."""
    exposures = (one for side in sides for one in side.exposures.values())
    return {str(one["name"]) for one in exposures if keys & set(parents_of(one))}


def _exposures_changed(base: Side, head: Side) -> Iterator[str]:
    """Yield a sentence for each exposure that differs in its publication or its inputs."""
    for key in sorted({*base.exposures, *head.exposures}):
        before, after = base.exposures.get(key), head.exposures.get(key)
        name = (after or before or {})["name"]
        if before is None or after is None:
            yield f"exposure {name} is {'added' if before is None else 'removed'}"
            continue
        one, other = ({"meta": _meta(side), "reads": parents_of(side)} for side in (before, after))
        for line in _differences("", one, other):
            yield f"exposure {name} changes: {line}"


def _meta(node: Node) -> Mapping[str, Any]:
    return (node.get("config") or {}).get("meta") or node.get("meta") or {}


def files_not_reviewed(files: Iterable[str], project: str, *sides: Side) -> list[str]:
    """Return the changed files that no node of the project was parsed from, pages left out.

    The adapter's own macros are such files: both sides are built with the installed ones.
    """
    parsed = {"dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml"}
    for side in sides:
        for node in (*side.nodes.values(), *side.exposures.values()):
            if node.get("package_name", project) == project:
                patch = str(node.get("patch_path") or "").partition("://")[2]
                parsed |= {str(node.get("original_file_path")), patch}
        parsed |= side.files
    silent = (".md", ".txt", ".png", ".gitignore", "LICENSE")
    return sorted(file for file in files if file not in parsed and not file.endswith(silent))


def _tell_renamed(changed: dict[str, Changed], base: Side, head: Side) -> None:
    """Note on each added model that a removed one has the same SQL: it may have been renamed."""
    removed = {
        _bare(str(base.nodes[key]["raw_code"])): base.nodes[key]["name"]
        for key, one in changed.items()
        if "removed" in one.causes and base.nodes[key].get("raw_code")
    }
    for key, one in changed.items():
        if "added" in one.causes and head.nodes[key].get("raw_code"):
            former = removed.get(_bare(str(head.nodes[key]["raw_code"])))
            if former:
                what = (*one.what, f"the SQL of {former}, which is removed: renamed?")
                changed[key] = replace(one, what=what)


def _contract(node: Node) -> tuple[Any, ...]:
    """Return the parts of a contract that a build checks: nothing unless it is enforced."""
    contract = node["config"].get("contract")
    is_enforced = bool((contract or {}).get("enforced"))
    columns = {
        name: (column.get("data_type"), column.get("constraints"))
        for name, column in node["columns"].items()
        if is_enforced
    }
    return contract, node.get("constraints"), columns


def _differs(one: str, other: str, before: Node, after: Node) -> bool:
    """Return true if more than comments and formatting differs."""
    if _bare(one) == _bare(other):
        return False
    first, second = before.get("compiled_code"), after.get("compiled_code")
    # the template may be formatted differently, and settings have their own comparison
    return not first or not second or _bare(first) != _bare(second)


def _compiled_differs(before: Node, after: Node, names: Mapping[str, str]) -> bool:
    """Return true if two compiled texts differ. `names` maps renamed tables to their new names."""
    one, other = before.get("compiled_code"), after.get("compiled_code")
    return bool(one and other) and _bare(renamed(str(one), names)) != _bare(str(other))


def _moved(base: Side, head: Side) -> dict[str, str]:
    """Return the tables whose schema or name changed, with the new name. Their rows are equal."""
    both = ((base.nodes[key], head.nodes[key]) for key in built_nodes(base) if key in head.nodes)
    names = ((one.get("relation_name"), other.get("relation_name")) for one, other in both)
    return {one.lower(): other for one, other in names if one and other and one != other}


def _bare(sql: str) -> str:
    return without_format(
        "".join(" " if token.kind == "comment" else token.text for token in tokens(sql))
    )


def _macros_changed(before: Node, after: Node, base: Side, head: Side) -> list[str]:
    """Return the changed macros among a model's calls and its materialization."""
    called = {*_macros(before, base), *_macros(after, head)}
    return sorted(
        key.split(".")[-1] for key in called if base.macros.get(key) != head.macros.get(key)
    )


def _macros(node: Node, side: Side) -> Iterator[str]:
    """Yield the macros that a model calls directly. Its compiled SQL shows changes of others."""
    yield from (node.get("depends_on") or {}).get("macros") or ()
    kind = re.escape(str((node.get("config") or {}).get("materialized")))
    of_kind = re.compile(rf"macro\..+\.materialization_{kind}_[a-z]+")
    yield from (key for key in side.macros if of_kind.fullmatch(key))


def _settings(before: Node, after: Node) -> tuple[list[str], bool]:
    """Return lines about the settings that differ, and whether one of them may change rows."""
    lines: list[str] = []
    of_rows = False
    one, other = before["config"], after["config"]
    for name in sorted({*one, *other}):
        first, second = one.get(name), other.get(name)
        if first == second:
            continue
        of_rows = of_rows or name not in _WITHOUT_ROWS
        lines += _differences(name, first, second)
    if table_name(before) != table_name(after):
        lines.append(f"table: {table_name(before)} → {table_name(after)}")
        of_rows = True
    if before.get("constraints") != after.get("constraints"):
        lines.append("constraints differ")
    if (before.get("description") or "") != (after.get("description") or ""):
        lines.append("description differs")
    return lines, of_rows


def _differences(name: str, before: Any, after: Any) -> Iterator[str]:
    """Yield a line for each value of a setting that differs, by its path: `meta.stream.path`."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            path = f"{name}.{key}" if name else str(key)
            yield from _differences(path, before.get(key), after.get(key))
    elif before != after:
        yield f"{name}: {_shown(before)} → {_shown(after)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _columns_changed(before: Node, after: Node) -> list[str]:
    one, other = before["columns"], after["columns"]
    lines = [f"column {name}: no longer declared" for name in one if name not in other]
    for name, column in other.items():
        if name not in one:
            lines.append(f"column {name}: declared")
        elif one[name].get("data_type") != column.get("data_type"):
            types = one[name].get("data_type"), column.get("data_type")
            lines.append(f"column {name}: {_shown(types[0])} → {_shown(types[1])}")
        else:
            former, declared = _declared(one[name]), _declared(column)
            lines += [f"column {name}: {line}" for line in _differences("", former, declared)]
    return lines


def _declared(column: Mapping[str, Any]) -> dict[str, Any]:
    names = ("description", "meta", "constraints", "tags")
    return {name: column.get(name) or None for name in names}


def _tests_changed(key: str, base: Side, head: Side) -> list[tuple[str, str]]:
    """Return the names of tests that changed, each with its change."""
    one, other = _tests(key, base), _tests(key, head)
    return [
        *((one[test]["name"], "removed") for test in sorted(one) if test not in other),
        *((other[test]["name"], "added") for test in sorted(other) if test not in one),
        *(
            (other[test]["name"], "differs")
            for test in sorted(other)
            if test in one
            and (
                _tested(one[test]) != _tested(other[test])
                or _macros_changed(one[test], other[test], base, head)
            )
        ),
    ]


def _tests(key: str, side: Side) -> dict[str, Node]:
    return {
        test: node
        for test, node in side.nodes.items()
        if node["resource_type"] in TESTS and key in parents_of(node)
    }


def _tested(test: Node) -> list[Any]:
    """Return the parts of a test that determine its condition and its severity."""
    settings = test.get("config") or {}
    names = ("severity", "where", "warn_if", "error_if", "limit", "fail_calc")
    parts = ("raw_code", "test_metadata", "given", "expect", "overrides")
    return [*(settings.get(name) for name in names), *(test.get(name) for name in parts)]


def of_the_moment(node: Node) -> list[str]:
    """Return the nondeterministic functions that a node without a strategy of headwaters calls."""
    if strategy_of(node["config"]):
        return []  # its strategy refuses them
    words = [one.word for one in tokens(str(node.get("compiled_code") or "")) if one.word.strip()]
    called = {one for one, following in pairwise([*words, ""]) if following == "("}
    bare = (BARE_FUNCTIONS - {"user"}).intersection(words)
    return sorted((called & CHANGING_FUNCTIONS) | bare)


def of_a_run(node: Node) -> frozenset[str]:
    """Return the lower-case columns of a `check` snapshot that contain the time of its run."""
    config = node["config"]
    if node["resource_type"] != "snapshot" or config.get("strategy") != "check":
        return frozenset()
    names = config.get("snapshot_meta_column_names") or {}
    times = ("dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to")
    return frozenset(str(names.get(name) or name).lower() for name in times)


def operations(side: Side) -> list[str]:
    """Return the SQL of the project's hooks on run start and run end."""
    found = (one for one in side.nodes.values() if one["resource_type"] == "operation")
    return sorted(str(one["raw_code"]) for one in found)


def hooks_of(node: Node) -> list[Any]:
    """Return the SQL of a node's hooks."""
    hooks = [node["config"].get(f"{when}-hook") or [] for when in ("pre", "post")]
    return [[hook.get("sql") for hook in some] for some in hooks]


def _downstream(roots: Iterable[str], sides: Iterable[Side]) -> set[str]:
    """Return the models, seeds and snapshots downstream of `roots`, on either side."""
    children: dict[str, set[str]] = {}
    for side in sides:
        for key in built_nodes(side):
            for parent in parents_of(side.nodes[key]):
                children.setdefault(parent, set()).add(key)
    return reached(roots, lambda key: children.get(key, ()))


def _edges(keys: set[str], side: Side) -> Iterator[Edge]:
    for key in sorted(keys):
        for parent in parents_of(side.nodes.get(key, {})):
            if parent in side.nodes:
                yield Edge(parent, key)


def key_of(node: Node) -> tuple[str, ...]:
    """Return the declared key of a node's rows."""
    return as_tuple(node["config"].get("unique_key"))


def why_no_examples(before: Node, after: Node) -> str | None:
    """Return why a table's rows must not be shown, or None if both sides permit it.

    Both must permit it, because otherwise a pull request could permit itself.
    """
    if all(ModelSettings.of(node["config"]).review_examples for node in (before, after)):
        return None
    return "the project does not permit them: review_examples is not true in base and branch"


def columns(
    before: Mapping[str, str],
    after: Mapping[str, str],
    changed: Mapping[str, int],
    hidden: frozenset[str],
) -> tuple[ComparedColumn, ...]:
    """Return the columns of both sides in the branch's order, with removed columns last."""
    types, kept = ({name.lower(): kind for name, kind in one.items()} for one in (before, after))
    names = [*after, *(name for name in before if name.lower() not in kept)]
    return tuple(
        ComparedColumn(
            name,
            types.get(name.lower()),
            after.get(name),
            changed.get(name, 0),
            is_masked(name, hidden),
        )
        for name in names
    )


def diff_of_sql(before: Node | None, after: Node | None) -> str:
    """Return the unified diff of the two texts."""
    one, other = ((node or {}).get("raw_code") or "" for node in (before, after))
    place = (after or before or {}).get("original_file_path", "")
    lines = difflib.unified_diff(
        one.splitlines(), other.splitlines(), f"a/{place}", f"b/{place}", lineterm=""
    )
    return "\n".join(lines)
