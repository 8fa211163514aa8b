"""One review: what changed, both sides over the same inputs, and what is to be said of them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters import drafts
from headwaters.declared.nodes import Node, setting, table_name
from headwaters.errors import CodedError, UserError, first_line
from headwaters.incremental.strategies import strategy_of
from headwaters.manifest import compiled, copied, parse, selected
from headwaters.project import Project
from headwaters.review import changes as changing
from headwaters.review import difference as differing
from headwaters.review import markdown, page
from headwaters.review.build import (
    BUILD,
    KEPT,
    Outcome,
    Pinned,
    Schemas,
    Spark,
    clean,
    clone_inputs,
    explained,
    name_of,
    pin,
    redirected,
    run,
)
from headwaters.review.changes import Changes, Side
from headwaters.review.checkout import checked_out, revisions, slug
from headwaters.review.facts import Cost, Difference, Finding, ModelReview, Review, Stays
from headwaters.review.lint import Linted, new_findings
from headwaters.review.verdict import verdict

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sides:
    """Both parsed projects with their compiled nodes; manifests are as dbt parsed them."""

    base: Side
    head: Side
    base_manifest: Manifest
    head_manifest: Manifest
    base_project: Project
    head_project: Project


@dataclass
class Found:
    """What is known so far, by ids of nodes; `notes` are lines; `problem`: why no rows are."""

    before: dict[str, Outcome] = field(default_factory=dict)
    after: dict[str, Outcome] = field(default_factory=dict)
    tests: dict[str, list[Finding]] = field(default_factory=dict)
    stays: dict[str, Stays] = field(default_factory=dict)
    explained: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None


def review(
    project: Project, base: str, out: Path, select: Sequence[str], is_clean: bool, say: Say
) -> int:
    """Review what is on disk against the merge base of `base` and HEAD; the exit code.

    Writes the facts and the pages into `out`. 0 also where rows differ, 1 where a test, a contract
    or the proof fails, or no rows could be compared. Raises UserError where there is no base, or
    one of the two does not parse.
    """
    began = time.monotonic()
    before, after = revisions(project, base)
    schemas = Schemas(slug(after.branch, after.commit))
    with checked_out(project, before.commit) as base_project:
        sides = _read(project, base_project)
        found = changing.changes(sides.base, sides.head)
        if select:
            found = _selected(found, project, sides, select)
        said = Found()
        if after.is_dirty:
            said.notes.append("the worktree has changes that are not committed: they are reviewed")
        linted = new_findings(base_project.root, project.root, _files(found, sides))
        if linted.problem:
            said.notes.append(linted.problem)
        if found.built or found.built_before:
            say(f"reviewing {len(found.order)} of {_count(sides.head)} tables")
            try:
                models = _compared(sides, found, schemas, said, linted, is_clean)
            except (DbtRuntimeError, CodedError) as error:
                said.problem = first_line(error)
                said.notes.append(f"rows were not compared: {said.problem}")
                models = [_model(key, sides, found, said, linted, None) for key in found.order]
        else:
            models = [_model(key, sides, found, said, linted, None) for key in found.order]
    made = Review(
        before,
        after,
        tuple(models),
        found.edges,
        found.exposures,
        tuple(said.notes),
        round(time.monotonic() - began, 1),
    )
    write(made, out)
    for line in (verdict(made).text, *summary(made), *made.notes):
        say(line)
    say(f"written to {out}: review.md, {markdown.PAGE}, review.json")
    return 1 if said.problem or verdict(made).fails else 0


def write(made: Review, out: Path) -> None:
    """The facts as `review.json`, the comment as `review.md` and the page as `review.html`."""
    out.mkdir(parents=True, exist_ok=True)
    facts = json.dumps(asdict(made), indent=1, ensure_ascii=False)
    drafts.write(out / "review.json", facts + "\n")
    drafts.write(out / "review.md", markdown.render(made))
    drafts.write(out / markdown.PAGE, page.render(made))


def summary(made: Review) -> list[str]:
    """One line for each model."""
    lines = []
    for model in made.models:
        if model.difference is not None:
            one = model.difference
            said = f"{one.added:,} added, {one.removed:,} removed, {one.changed:,} changed"
            said = f"{said}, of {one.rows_before:,} rows" if one.rows else "no row differs"
        else:
            said = model.why_not or "not compared"
        lines.append(f"{model.relation} ({', '.join(model.causes)}): {said}")
        lines += [f"  {one.kind}: {one.text}" for one in model.findings if one.fails]
    return lines


def _read(project: Project, base_project: Project) -> Sides:
    head, head_manifest = _side(project)
    try:
        base, base_manifest = _side(base_project)
    except UserError as error:
        raise UserError(
            "HW_REVIEW_BASE",
            f"the base does not parse, so there is nothing to compare: {error.text}",
        ) from None
    return Sides(base, head, base_manifest, head_manifest, base_project, project)


def _side(project: Project) -> tuple[Side, Manifest]:
    with contextlib.chdir(project.root):  # dbt works from there, and stays
        manifest = parse(project)
        as_parsed = copied(manifest)
        found = compiled(project, manifest)
    macros = {key: macro.macro_sql for key, macro in manifest.macros.items()}
    return Side(found.nodes, found.exposures, macros), as_parsed


def _selected(found: Changes, project: Project, sides: Sides, select: Sequence[str]) -> Changes:
    """What changed, without what dbt's selection leaves out; what is left is read as it is."""
    keys = selected(project, copied(sides.head_manifest), select)
    removed = {key for key in found.changed if key not in sides.head.nodes}
    kept = {key for key in found.order if key in keys} | removed
    return replace(
        found,
        changed={key: one for key, one in found.changed.items() if key in kept},
        order=tuple(key for key in found.order if key in kept),
        built=tuple(key for key in found.built if key in kept or _is_view(sides.head, key)),
        built_before=tuple(
            key for key in found.built_before if key in kept or _is_view(sides.base, key)
        ),
    )


def _is_view(side: Side, key: str) -> bool:
    return bool(side.nodes[key]["config"].get("materialized") == "view")


def _count(side: Side) -> int:
    return sum(node["resource_type"] in changing.BUILT for node in side.nodes.values())


def _files(found: Changes, sides: Sides) -> list[str]:
    files = {
        str(side.nodes[key]["original_file_path"])
        for key in found.changed
        for side in (sides.base, sides.head)
        if key in side.nodes and side.nodes[key]["resource_type"] == "model"
    }
    return sorted(files)


def _compared(
    sides: Sides,
    found: Changes,
    schemas: Schemas,
    said: Found,
    linted: Linted,
    is_clean: bool,
) -> list[ModelReview]:
    spark = Spark(sides.head_project)
    clean(spark, schemas.prefix, KEPT)
    try:
        pinned = _build(spark, sides, found, schemas, said)
        _prove(spark, sides, found, schemas, said, pinned)
        _explain(spark, sides, found, said)
        compared = Compared(spark, schemas, pinned, changing.masked(sides.base, sides.head))
        return [_model(key, sides, found, said, linted, compared) for key in found.order]
    finally:
        if is_clean:
            clean(spark, schemas.prefix)


@dataclass(frozen=True)
class Compared:
    """Where both sides were built, and from what."""

    spark: Spark
    schemas: Schemas
    pinned: Pinned
    masked: frozenset[str]


def _build(spark: Spark, sides: Sides, found: Changes, schemas: Schemas, said: Found) -> Pinned:
    """Builds both sides from clones of the same versions, and tests the branch's."""
    sides_of = (
        ("base", sides.base, sides.base_manifest, sides.base_project, found.built_before),
        ("head", sides.head, sides.head_manifest, sides.head_project, found.built),
    )
    read = {
        name: {
            key: manifest.nodes.get(key) or manifest.sources[key]
            for key in changing.inputs(keys, side)
        }
        for name, side, manifest, _, keys in sides_of
    }
    pinned = pin(spark, [name_of(node) for nodes in read.values() for node in nodes.values()])
    for table, problem in pinned.problems.items():
        said.notes.append(f"{table} is read as it is, not at one version: {problem}")
    cloned: dict[str, bool] = {}
    for name, side, manifest, project, keys in sides_of:
        # the past of `history` is in the feed of its inputs, which a clone does not have
        followed = {
            parent
            for key in keys
            if side.nodes[key]["config"].get("incremental_strategy") == "history"
            for parent in changing.inputs([key], side)
        }
        nodes = {key: node for key, node in read[name].items() if key not in followed}
        places = clone_inputs(spark, schemas, nodes, pinned, cloned)
        for key in keys:
            places[key] = schemas.name(name, side.nodes[key]["schema"])
            schemas.make(spark, places[key])
        made = redirected(manifest, places)
        outcomes = run(project, made, BUILD, keys, pinned.versions)
        if name == "base":
            said.before |= outcomes
        else:
            said.after |= outcomes
            _tested(made, run(project, made, ["test"], keys, pinned.versions), said)
    for table in (table for table, is_cloned in cloned.items() if not is_cloned):
        said.notes.append(f"{table} cannot be cloned, and is read as it is")
    return pinned


def _tested(manifest: Manifest, outcomes: Mapping[str, Outcome], said: Found) -> None:
    for key, outcome in outcomes.items():
        if outcome.status in ("pass", "skipped", "success"):
            continue
        node: Any = manifest.nodes.get(key) or manifest.unit_tests.get(key)
        text = f"{node.name}: {outcome.message or outcome.status}"
        finding = Finding(
            "test", text, fails=outcome.status != "warn", place=node.original_file_path
        )
        for parent in node.depends_on.nodes:
            said.tests.setdefault(parent, []).append(finding)


def _prove(
    spark: Spark,
    sides: Sides,
    found: Changes,
    schemas: Schemas,
    said: Found,
    pinned: Pinned,
) -> None:
    """Runs the branch's models from earlier versions of their inputs up to the pinned ones."""
    earlier: dict[str, Mapping[str, int]] = {}
    chosen: list[str] = []
    for key in found.built:
        own = found.changed.get(key)
        if own is None or not own.rows or sides.head.nodes[key]["resource_type"] != "model":
            continue
        why = _earlier(key, spark, sides, found, said, pinned, earlier)
        if why:
            said.stays[key] = Stays(f"not tried: {why}", None)
        else:
            chosen.append(key)
    if not chosen:
        return
    places = {key: schemas.name("past", sides.head.nodes[key]["schema"]) for key in chosen}
    for schema in sorted(set(places.values())):
        schemas.make(spark, schema)
    made = redirected(sides.head_manifest, places)
    past = run(sides.head_project, made, BUILD, chosen, {**pinned.versions, **earlier})
    last = run(sides.head_project, made, BUILD, chosen, pinned.versions)
    for key in chosen:
        said.stays[key] = _stays(key, spark, sides, schemas, past.get(key), last.get(key))


def _earlier(
    key: str,
    spark: Spark,
    sides: Sides,
    found: Changes,
    said: Found,
    pinned: Pinned,
    earlier: dict[str, Mapping[str, int]],
) -> str | None:
    """Fills in the version of each input before its last change; or says why there is none."""
    node = sides.head.nodes[key]
    if not strategy_of(node["config"]):
        return f"a {node['config'].get('materialized')} model has no incremental runs of ours"
    if not said.after.get(key) or not said.after[key].is_built:
        return "the model was not built"
    parents = changing.inputs([key], sides.head)
    if built := [parent for parent in parents if parent in found.built]:
        return f"its input {built[0].split('.')[-1]} changes in this branch as well"
    moved = False
    for parent in parents:
        table = table_name_of(sides, parent)
        if (version := pinned.of(table)) is None:
            return f"{table} has no versions"
        name = table.lower()
        if name not in earlier and (before := _before_last_change(spark, table, version)):
            earlier[name] = before
        moved = moved or name in earlier
    return None if moved else "no input has changed since it was made, as far as its log says"


def table_name_of(sides: Sides, key: str) -> str:
    """The table of an input, as SQL names it."""
    node: Any = sides.head_manifest.nodes.get(key) or sides.head_manifest.sources.get(key)
    return name_of(node)


def _before_last_change(
    spark: Spark, table: str, pinned: Mapping[str, int]
) -> Mapping[str, int] | None:
    commits = [one for one in spark.history(table, 100) if one.version <= pinned["version"]]
    for last, before in pairwise(commits):
        if last.effect.rows > 0:
            if spark.tried(f"select 1 from {table} version as of {before.version} limit 1"):
                return None
            return {"version": before.version, "at": before.at}
    return None


def _stays(
    key: str,
    spark: Spark,
    sides: Sides,
    schemas: Schemas,
    past: Outcome | None,
    last: Outcome | None,
) -> Stays:
    node = sides.head.nodes[key]
    for outcome in (past, last):
        if outcome is None or not outcome.is_built:
            said = outcome.message if outcome else "dbt did not run it"
            return Stays(f"not tried: {said}", None)
    assert last is not None
    head, run_up = schemas.table("head", node), schemas.table("past", node)
    changed = int(last.response.get("input_rows") or 0)
    try:
        columns = spark.columns(head), spark.columns(run_up)
        pair = differing.Pair(head, run_up, *columns, ())
        row = spark.rows(differing.counts_of_multisets_sql(pair))[0]
    except DbtRuntimeError as error:
        return Stays(f"not compared: {first_line(error)}", None, changed)
    return Stays(last.message, int(row["added"]) + int(row["removed"]), changed)


def _explain(spark: Spark, sides: Sides, found: Changes, said: Found) -> None:
    """What the next run of each changed model would do in production."""
    manifest = redirected(sides.head_manifest, {})
    for key, own in found.changed.items():
        node = sides.head.nodes.get(key)
        if node is None or not own.rows or key not in sides.base.nodes:
            continue
        if node["resource_type"] == "model" and strategy_of(node["config"]):
            text = explained(sides.head_project, manifest, node["name"])
            if text and (line := text.rpartition("next run: ")[2].strip()):
                said.explained[key] = line


def _model(
    key: str,
    sides: Sides,
    found: Changes,
    said: Found,
    linted: Linted,
    compared: Compared | None,
) -> ModelReview:
    before, after = sides.base.nodes.get(key), sides.head.nodes.get(key)
    node: Node = after or before or {}
    own = found.changed.get(key)
    made = ModelReview(
        unique_id=key,
        name=node["name"],
        layer=node["fqn"][1] if len(node["fqn"]) > 2 else node["schema"],
        relation=table_name(node),
        causes=found.causes(key),
        what_changed=(
            *(own.what if own else ()),
            *changing.retention_and_owners(before, after),
        ),
        stays=said.stays.get(key),
        findings=(*_findings(key, said), *linted.of(node["original_file_path"])),
        diff_of_sql=changing.diff_of_sql(before, after) if own else "",
    )
    if compared is None or key not in {*found.built, *found.built_before}:
        why_not = "what changed says nothing about rows"
        if said.problem and key in {*found.built, *found.built_before}:
            why_not = f"not compared: {said.problem}"
        return replace(made, why_not=why_not)
    made = replace(made, cost=_cost(key, sides, found, said), pinned=_pins(key, sides, compared))
    if before is None or after is None:
        return _one_sided(made, key, before, after, compared, said)
    made = _with_difference(made, key, before, after, compared, said)
    if made.cost and made.difference and "upstream" in made.causes and not made.difference.rows:
        nothing = replace(made.cost, one_off="nothing", one_off_reason="no row differs")
        made = replace(made, cost=nothing)
    return made


def _findings(key: str, said: Found) -> list[Finding]:
    found = list(said.tests.get(key, ()))
    outcome = said.after.get(key)
    if outcome is not None and outcome.status in ("error", "fail", "runtime error"):
        before = said.before.get(key)
        is_contract = "contract" in outcome.message.lower()
        was_so = before is not None and not before.is_built and before.message == outcome.message
        text = (
            f"{'the base does not build either' if was_so else 'does not build'}: {outcome.message}"
        )
        found.insert(0, Finding("contract" if is_contract else "test", text, fails=not was_so))
    return found


def _pins(key: str, sides: Sides, compared: Compared) -> dict[str, int] | None:
    side = sides.head if key in sides.head.nodes else sides.base
    manifest = sides.head_manifest if key in sides.head.nodes else sides.base_manifest
    tables = [
        name_of(manifest.nodes.get(parent) or manifest.sources[parent])
        for parent in changing.inputs([key], side)
    ]
    return {table: version["version"] for table in tables if (version := compared.pinned.of(table))}


def _cost(key: str, sides: Sides, found: Changes, said: Found) -> Cost | None:
    node, outcome = sides.head.nodes.get(key), said.after.get(key)
    if node is None or outcome is None:
        return None
    seconds = round(outcome.seconds, 1) if outcome.is_built else None
    written = outcome.response.get("bytes_written")
    measured = (seconds, None if written is None else int(written))
    if node["resource_type"] != "model" or not strategy_of(node["config"]):
        kind = node["config"].get("materialized") or node["resource_type"]
        return Cost("rebuild", f"a {kind} is built by every run", "rebuild", *measured)
    if key in found.changed and not found.changed[key].rows:
        return Cost("nothing", "neither its SQL nor a setting of its rows differs", "incremental")
    if key not in found.changed:
        reason = "its SQL is the same: it follows what changes upstream"
        return Cost("patch", reason, "incremental", *measured)
    line = said.explained.get(key)
    if line is None:
        return Cost("rebuild", "first run, or not known", "incremental", *measured)
    choice, _, reason = line.partition(", ")
    one_off = {"skip": "nothing", "incremental": "patch"}.get(choice, "rebuild")
    return Cost(one_off, reason, "incremental", *measured)  # type: ignore[arg-type]  # one of three


def _one_sided(
    made: ModelReview,
    key: str,
    before: Node | None,
    after: Node | None,
    compared: Compared,
    said: Found,
) -> ModelReview:
    """A table that only one side has: all of its rows are added, or removed."""
    node: Node = after or before or {}
    outcome = (said.after if after else said.before).get(key)
    if outcome is None or not outcome.is_built:
        return replace(made, why_not=f"not built: {outcome.message if outcome else 'not run'}")
    place = compared.schemas.table("head" if after else "base", node)
    columns = compared.spark.columns(place)
    rows = int(compared.spark.rows(f"select count(*) as n from {place}")[0]["n"])
    hidden = compared.masked
    difference = Difference(
        rows_before=0 if after else rows,
        rows_after=rows if after else 0,
        added=rows if after else 0,
        removed=0 if after else rows,
        changed=0,
        by_key=False,
        why_no_examples="the whole table is " + ("added" if after else "removed"),
    )
    own = changing.columns({} if after else columns, columns if after else {}, {}, hidden)
    return replace(made, columns=own, difference=difference)


def _with_difference(
    made: ModelReview,
    key: str,
    before: Node,
    after: Node,
    compared: Compared,
    said: Found,
) -> ModelReview:
    for side, outcomes in (("base", said.before), ("branch", said.after)):
        outcome = outcomes.get(key)
        if outcome is None or not outcome.is_built:
            said_of_it = outcome.message if outcome else "dbt did not run it"
            return replace(made, why_not=f"the {side} does not build it: {said_of_it}")
    spark, schemas = compared.spark, compared.schemas
    one, other = schemas.table("base", before), schemas.table("head", after)
    try:
        pair = differing.Pair(
            one,
            other,
            spark.columns(one),
            spark.columns(other),
            _key(spark, other, after),
            compared.masked,
        )
        why: str | None = None
        if setting(after["config"], "review_examples", True) is False:
            why = "the project shows no rows of it (review_examples: false)"
        found, counts = compare(spark, pair, why)
    except DbtRuntimeError as error:
        return replace(made, why_not=f"not compared: {first_line(error)}")
    columns = changing.columns(pair.columns_before, pair.columns_after, counts, pair.masked)
    return replace(made, columns=columns, difference=found)


def compare(
    spark: Spark, pair: differing.Pair, why_no_examples: str | None
) -> tuple[Difference, dict[str, int]]:
    """The difference of two tables, and in how many rows each column differs."""
    by_key = pair.has_key
    if by_key:
        repeated = spark.rows(differing.repeated_keys_sql(pair))[0]
        by_key = not repeated["before"] and not repeated["after"]
    counted = differing.counts_by_key_sql if by_key else differing.counts_of_multisets_sql
    row = spark.rows(counted(pair))[0].asDict()
    found, counts = differing.of_counts(pair, row, by_key, why_no_examples)
    if found.rows and why_no_examples is None:
        shown = differing.examples_by_key_sql if by_key else differing.examples_of_multisets_sql
        rows = [one.asDict() for one in spark.rows(shown(pair))]
        found = replace(found, examples=differing.of_examples(pair, rows, by_key))
    return found, counts


def _key(spark: Spark, table: str, node: Node) -> tuple[str, ...]:
    """The key of a table's rows: declared, or as it was derived from the SQL."""
    strategy = strategy_of(node["config"])
    declared = changing.key_of(node)
    if declared:
        return (*declared, *(strategy.further_keys if strategy else ()))
    try:
        noted = json.loads(spark.properties(table).get("headwaters.proof") or "null")
    except (DbtRuntimeError, ValueError):
        return ()
    return tuple(noted.get("unique_key") or ()) if isinstance(noted, dict) else ()
