"""The proof that the branch's incremental runs equal a full refresh, and the next run's cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.errors import first_line
from headwaters.review import changes as changing
from headwaters.review import difference as differing
from headwaters.review.build import BUILD, COMMITS, BuildOutcome, explained, moved, redirected, run
from headwaters.review.build_sides import Both
from headwaters.review.costs import Past
from headwaters.review.facts import Stays
from headwaters.review.maintenance import maintenance_finding
from headwaters.tables.commits import Commit

# This prefix marks a run that patches the table to changed SQL, with the reason.
_PATCH = "patch: "


def prove(both: Both) -> None:
    """Run the branch's models from earlier versions of their inputs up to the pinned ones."""
    head, known = both.head, both.known
    earlier: dict[str, Mapping[str, int]] = {}
    chosen: list[str] = []
    for key in head.keys:
        own = both.found.changed.get(key)
        node = head.side.nodes[key]
        if own is None or not own.rows or node["resource_type"] != "model":
            continue
        if not strategy_of(node["config"]):
            continue  # it is always a full run
        why = _earlier(key, both, earlier)
        if why:
            known.stays[key] = Stays(f"not tried: {why}", None)
        else:
            chosen.append(key)
    if not chosen:
        return
    places = {key: both.schemas.name("past", head.side.nodes[key]["schema"]) for key in chosen}
    for schema in sorted(set(places.values())):
        both.schemas.make(both.spark, schema)
    project = head.side.project
    made = redirected(head.side.manifest, places, both.schemas.records)
    pins = known.pinned.versions
    past = run(project, made, BUILD, chosen, {**pins, **earlier})
    last = run(project, made, BUILD, chosen, pins)
    for key in chosen:
        run_up = moved(head.side.table(key), places[key])
        known.stays[key] = _stays(both, key, run_up, past.get(key), last.get(key))
        if known.stays[key].differing is not None:
            known.next_measured[key] = last[key].effort


def _earlier(key: str, both: Both, earlier: dict[str, Mapping[str, int]]) -> str | None:
    """Add each input's version before its last change to `earlier`, or return why there is none."""
    head, known = both.head, both.known
    if key not in known.after or not known.after[key].is_built:
        return "the model was not built"
    parents = changing.inputs([key], head.side)
    if built := [parent for parent in parents if parent in head.keys]:
        return f"its input {built[0].split('.')[-1]} changes in this branch as well"
    why = "no input has changed since it was made, as far as its log says"
    for parent in parents:
        table = head.side.table(parent)
        version = known.pinned.of(table)
        if version is None:
            return f"{table} has no versions"
        if table.lower() in earlier:
            continue
        commits = both.spark.history(table, COMMITS)
        if before := _before_last_change(commits, version):
            noted = {"version": before.version, "at": before.at}
            if both.spark.reads(table, noted, commits):
                earlier[table.lower()] = noted
            else:
                why = f"{table} does not retain version {before.version}, before its last change"
    is_earlier = any(head.side.table(parent).lower() in earlier for parent in parents)
    return None if is_earlier else why


def _before_last_change(commits: Sequence[Commit], pinned: Mapping[str, int]) -> Commit | None:
    known = [one for one in commits if one.version <= pinned["version"]]
    return next((before for last, before in pairwise(known) if last.effect.rows > 0), None)


def _stays(
    both: Both, key: str, run_up: str, past: BuildOutcome | None, last: BuildOutcome | None
) -> Stays:
    for outcome in (past, last):
        if outcome is None or not outcome.is_built:
            return Stays(f"not tried: {outcome.message if outcome else 'dbt did not run it'}", None)
    assert last is not None
    table = both.head.table(key)
    changed = int(last.response.get("input_rows") or 0)
    try:
        columns = both.spark.columns(table), both.spark.columns(run_up)
        one_of = both.sample(table, run_up)
        pair = differing.Pair(table, run_up, *columns, (), one_of=one_of)
        differ = _differing(both, pair)
    except DbtRuntimeError as error:
        return Stays(f"not compared: {first_line(error)}", None, changed)
    how = re.sub(r", of \d+ changed input rows", "", last.message)  # shown by the proof
    return Stays(how, differ, changed, "all" if one_of == 1 else "sample")


def _differing(both: Both, pair: differing.Pair) -> int:
    """Count the differing rows of two tables as multisets, usually none."""
    one, other = both.spark.rows(differing.digests_sql(pair))
    if one == other:
        return 0
    rows = f"select coalesce(sum(hw_n), 0) from ({differing.differing_multisets_sql(pair)})"
    return int(both.spark.rows(rows)[0][0])


def maintenance(both: Both) -> None:
    """Find the models that leave incremental maintenance."""
    head, known = both.head, both.known
    for key in head.keys:
        node = head.side.nodes[key]
        if node["resource_type"] != "model" or not strategy_of(node["config"]):
            continue
        if key not in both.found.changed or not known.after[key].is_built:
            continue
        production = both.base.side.nodes.get(key) and both.spark.derivation(
            both.base.side.table(key)
        )
        derived = both.spark.derivation(head.table(key))
        refresh = node["config"].get("refresh") or "auto"
        finding = maintenance_finding(production or None, derived, refresh)
        if finding:
            known.maintenance[key] = finding


def past_runs(both: Both) -> None:
    """Read the past runs of the tables that the branch builds from production's logs."""
    sizes: dict[str, int | None] = {}

    def size(table: str) -> int | None:
        if table not in sizes:
            sizes[table] = both.size(table)
        return sizes[table]

    side = both.base.side
    for key in both.head.keys:
        rows = both.known.rows.get(key)
        if key not in side.nodes or rows is None or rows.difference is None:
            continue
        name, known = side.table(key), both.tables.get(key)
        try:
            commits = known.commits if known else both.spark.history(name, COMMITS)
        except DbtRuntimeError:
            continue  # not a Delta table, or never built
        read = [size(side.table(parent)) for parent in changing.inputs([key], side)]
        whole = None if None in read else sum(filter(None, read))
        before = rows.difference.rows_before
        both.known.past[key] = Past(commits, before, size(name), whole)


def next_runs(both: Both) -> None:
    """Predict the next run in production of each changed model.

    If the branch's run continued from a clone of production's table, its line has the answer.
    """
    head, manifest = both.head, None
    for key, own in both.found.changed.items():
        node = head.side.nodes.get(key)
        if node is None or not own.rows or key not in both.base.side.nodes:
            continue
        if node["resource_type"] != "model" or not strategy_of(node["config"]):
            continue
        outcome = head.outcomes.get(key)
        if key in head.continued and outcome and outcome.is_built:
            both.known.next_runs[key] = _told(outcome)
            continue
        manifest = manifest or redirected(head.side.manifest, {})
        text: Any = explained(head.side.project, manifest, node["name"])
        if text and (line := text.rpartition("next run: ")[2].strip()):
            both.known.next_runs[key] = _announced(line)


def _announced(line: str) -> tuple[str, str]:
    """Parse a line of `explain_refresh` into the next run's action and its reason."""
    if line.startswith(_PATCH):
        return "patch", line.removeprefix(_PATCH)
    choice, _, reason = line.partition(", ")
    return choice, reason


def _told(outcome: BuildOutcome) -> tuple[str, str]:
    """Parse a run's message into its action and its reason."""
    replaced = re.fullmatch(r"replace: \d+ rows, [^,]+, (.*)", outcome.message)
    if replaced:
        return "replace", replaced[1]
    if outcome.message.startswith(_PATCH):
        return "patch", outcome.message.removeprefix(_PATCH)
    return ("skip" if outcome.did == "skip" else "incremental"), outcome.message
