"""Incremental models whose query differs by run: they append all of it again, or mix two queries.

dbt-spark appends the rows of a model without an `incremental_strategy`. Without a condition on
`is_incremental()`, each run appends all rows of the query again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import TemplateError, nodes

from headwaters.platform.nodes import Node
from headwaters.platform.problems import Problem
from headwaters.tables.setting_types import FOLLOWING, is_empty

# Names in queries that depend on the run: dbt's function, and the model's own table.
_MARKS = frozenset({"is_incremental", "this"})
# Names that tell whether a run is a full refresh.
_OF_REFRESH = frozenset({"FULL_REFRESH", "should_full_refresh"})
# Names that run a statement while dbt compiles a query.
_QUERIES = frozenset({"run_query", "statement", "get_column_values"})
# Macros of dbt and of this adapter, whose text reveals nothing about a model.
_BUILT_IN = ("macro.dbt.", "macro.dbt_spark.", "macro.dbt_headwaters.")

# Returns the text of a macro and the ids of those that it calls; None if the text is unknown.
MacroOf = Callable[[str], "tuple[str, list[str]] | None"]


def appending_problems(node: Node, project: str, macro_of: MacroOf) -> Iterator[Problem]:
    """Yield the problem of a model that appends its whole query without saying so.

    It has no declared strategy, or says itself that it merges, and has no key: dbt inserts every
    row then. A strategy of `dbt_project.yml` is that of several models.

    `project` is the root project: models of a package cannot be edited, but configured in its
    `dbt_project.yml`.
    """
    config = node["config"]
    strategy, has_key = config.get("incremental_strategy"), not is_empty(config.get("unique_key"))
    is_own = "incremental_strategy" in node.get("written", ())
    merges_all = is_own and strategy == "merge" and not has_key
    if (
        node["resource_type"] != "model"
        or config.get("materialized") != "incremental"
        or not (is_empty(strategy) or merges_all)
        or config.get("full_refresh") is True
        or _gives_no_rows(node)
        or _tells_runs_apart(node, macro_of)
    ):
        return
    where = f"{_setting(node, project, 'auto')}, "
    merges = "incremental_strategy: merge, or " if has_key else ""
    lacks = "has no incremental_strategy, and"
    if merges_all:
        merges, lacks = "add a unique_key, or ", "merges without a unique_key, and has"
    yield Problem(
        "HW_WHOLE_APPEND",
        f"every run would append all rows of its query once more: it is incremental, {lacks} no "
        f"condition on is_incremental(). {where}"
        f"which keeps the table equal to the query, or {merges}incremental_strategy: append",
    )


def _setting(node: Node, project: str, strategy: str) -> str:
    """Return how to give a model a strategy: a package's model is configured in the project."""
    package = node.get("package_name")
    if package in (None, project):
        return f"Write incremental_strategy: {strategy}"
    return f"Write models: {{{package}: {{+incremental_strategy: {strategy}}}}} in dbt_project.yml"


def refresh_problems(node: Node, project: str = "") -> Iterator[Problem]:
    """Yield the problem of a maintained model whose query does not determine its rows.

    Its query differs in a full refresh, or has no rows, since a hook writes them.
    """
    config = node["config"]
    if (
        node["resource_type"] != "model"
        or config.get("materialized") != "incremental"
        or config.get("incremental_strategy") not in FOLLOWING
        or node.get("language") == "python"
    ):
        return
    if _gives_no_rows(node):
        yield Problem(
            "HW_EMPTY_QUERY",
            f"its query gives no rows, so a hook or another program writes them, and "
            f"{config['incremental_strategy']} would remove them. "
            f"{_setting(node, project or node.get('package_name') or '', 'append')}",
        )
    template = _template(node.get("raw_code") or "", of_each_run=True)
    names = _names_of(template)
    if names & _QUERIES and _hands_on_this(template):
        yield Problem(
            "HW_OTHER_QUERY",
            "its SQL queries its own table while dbt compiles it, so each run would have another "
            f"query: {config['incremental_strategy']} applies what changed to one query. Remove "
            "the condition, or set incremental_strategy: append or merge",
        )
    if found := sorted(names & _OF_REFRESH):
        yield Problem(
            "HW_OTHER_QUERY",
            f"its SQL asks for {found[0]}, so a full refresh would have other rows than the runs "
            f"before it: {config['incremental_strategy']} applies what changed to one query. "
            "Remove the condition",
        )


_COMMENT = re.compile(r"\{#.*?#\}|/\*.*?\*/|--[^\n]*", re.DOTALL)
_WITHOUT_ROWS = re.compile(
    r"\b(where\s+(1\s*=\s*[02]|0\s*=\s*1|1\s*(<>|!=)\s*1|false)|limit\s+0)[\s;]*$", re.IGNORECASE
)
# Further rows: of another query, or of an aggregate, which has one row of no rows.
_WITH_ROWS = re.compile(
    r"\b(union|except|minus|intersect)\b|\b(count|sum|avg|mean|min|max|any|every|some|first|last"
    r"|collect|array_agg|approx|bool|std|var)\w*\s*\(",
    re.IGNORECASE,
)


def _gives_no_rows(node: Node) -> bool:
    """Return true if a query ends with a condition that no row meets, as `where 1 = 0`."""
    text = _COMMENT.sub("", node.get("raw_code") or "")
    return bool(_WITHOUT_ROWS.search(text)) and not _WITH_ROWS.search(text)


def _tells_runs_apart(node: Node, macro_of: MacroOf) -> bool:
    """Return true if a model, or a macro that it calls, depends on its table or on the run."""
    if node.get("language") == "python":
        return re.search(r"\bdbt\.(is_incremental|this)\b", node.get("raw_code") or "") is not None
    names = _names(node.get("raw_code") or "")
    if names & _MARKS:
        return True
    called, seen = list((node.get("depends_on") or {}).get("macros") or ()), set()
    if "dispatch" not in names:  # the other macros are those of its hooks
        called = [name for name in called if name.rpartition(".")[2] in names]
    while called:
        name = called.pop()
        if name.rpartition(".")[2] in _MARKS:
            return True
        if name in seen or name.startswith(_BUILT_IN):
            continue
        seen.add(name)
        macro = macro_of(name)
        if macro is None:
            return True
        text, further = macro
        if _names(text) & _MARKS:
            return True
        called += further
    return False


def _names(text: str) -> set[str]:
    """Return the names and the attributes in a query's template."""
    return _names_of(_template(text))


def _names_of(template: nodes.Template | None) -> set[str]:
    if template is None:
        return set(_MARKS)
    names = {name.name for name in template.find_all(nodes.Name)}
    return names | {attribute.attr for attribute in template.find_all(nodes.Getattr)}


# Their text may become a statement, instead of a part of the query.
_OTHER_TEXTS = (nodes.AssignBlock, nodes.CallBlock, nodes.FilterBlock, nodes.Macro)


def _hands_on_this(template: nodes.Template | None) -> bool:
    """Return true unless `this` is only text of the query: a macro or a variable may query it."""
    if template is None:
        return True

    def count(within: Iterable[nodes.Node]) -> int:
        return sum(_is_this(name) for node in within for name in node.find_all(nodes.Name))

    printed = [one for output in template.find_all(nodes.Output) for one in output.nodes]
    as_text = sum(map(_is_this, printed))
    return count(template.find_all(_OTHER_TEXTS)) > 0 or count([template]) > as_text


def _is_this(node: nodes.Node) -> bool:
    """Return true for `this` and its attributes, such as `this.schema`."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name) and node.name == "this"


def _template(text: str, of_each_run: bool = False) -> nodes.Template | None:
    """Return the parsed template of a query, or None if dbt will report an error.

    Names in comments and in the call of `config`, such as hooks, do not decide the query.
    `of_each_run`: omit what a maintained model skips, because its `is_incremental()` is false.
    """
    from headwaters.platform.dbt_compat import jinja_environment  # it imports dbt

    try:
        tree = jinja_environment().parse(text)
    except TemplateError:
        return None
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "config":
            call.args, call.kwargs = [], []
    for branch in tree.find_all(nodes.If) if of_each_run else ():
        if isinstance(branch.test, nodes.Call | nodes.And) and _calls(branch.test):
            branch.test, branch.body = nodes.Const(False), []
    return tree


def _calls(test: nodes.Node) -> bool:
    """Return true if a condition is `is_incremental()`, or that and others."""
    if isinstance(test, nodes.And):
        return _calls(test.left) or _calls(test.right)
    called = test.node if isinstance(test, nodes.Call) else None
    return isinstance(called, nodes.Name) and called.name == "is_incremental"


def macros_of(macros: Mapping[str, Any]) -> MacroOf:
    """Return a lookup in the macros of a manifest."""

    def macro_of(name: str) -> tuple[str, list[str]] | None:
        macro = macros.get(name)
        return None if macro is None else (macro.macro_sql, list(macro.depends_on.macros))

    return macro_of
