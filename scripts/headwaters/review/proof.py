"""The proof that the branch's incremental runs equal a full refresh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.errors import first_line
from headwaters.review import difference as differing
from headwaters.review.build_sides import BothSides
from headwaters.review.compare_sides import Comparison
from headwaters.review.dbt_runs import BUILD, BuildOutcome, moved, redirected, run
from headwaters.review.facts import Effort, Stays
from headwaters.review.sides import inputs
from headwaters.review.spark import COMMITS, Spark
from headwaters.tables.commits import Commit


@dataclass(frozen=True)
class Proof:
    """The result of a model's incremental run, and its measured cost if it was compared."""

    stays: Stays
    effort: Effort | None = None


def prove(comparison: Comparison) -> Iterator[tuple[str, Proof]]:
    """Run the branch's models from earlier versions of their inputs; yield the proofs by id."""
    sides, head = comparison.sides, comparison.sides.head
    earlier: dict[str, Mapping[str, int]] = {}
    chosen: list[str] = []
    for key in head.keys:
        own = sides.changes.changed.get(key)
        node = head.side.nodes[key]
        if own is None or not own.rows or node["resource_type"] != "model":
            continue
        if not strategy_of(node["config"]):
            continue  # it is always a full run
        why = _earlier(key, sides, earlier)
        if why:
            yield key, Proof(Stays(f"not tried: {why}", None))
        else:
            chosen.append(key)
    if not chosen:
        return
    places = {key: sides.schemas.name("past", head.side.nodes[key]["schema"]) for key in chosen}
    for schema in sorted(set(places.values())):
        sides.schemas.make(sides.spark, schema)
    project = head.side.project
    made = redirected(head.side.manifest, places, sides.schemas.records)
    for key in chosen:  # a run that replaces a small table proves nothing
        made.nodes[key].config["whole_below"] = 0
    pins = sides.pinned.versions
    past = run(project, made, BUILD, chosen, {**pins, **earlier})
    last = run(project, made, BUILD, chosen, pins)
    for key in chosen:
        run_up = moved(head.side.table(key), places[key])
        stays = _stays(comparison, key, run_up, past.get(key), last.get(key))
        yield key, Proof(stays, None if stays.differing is None else last[key].effort)


def _earlier(key: str, sides: BothSides, earlier: dict[str, Mapping[str, int]]) -> str | None:
    """Add each input's version before its last change to `earlier`, or return why there is none."""
    head = sides.head
    if key not in head.outcomes or not head.outcomes[key].is_built:
        return "the model was not built"
    parents = inputs([key], head.side)
    if built := [parent for parent in parents if parent in head.keys]:
        return f"its input {built[0].split('.')[-1]} changes in this branch as well"
    why = "no input has changed since it was made, as far as its log says"
    for parent in parents:
        table = head.side.table(parent)
        version = sides.pinned.of(table)
        if version is None:
            return f"{table} has no versions"
        if table.lower() in earlier:
            continue
        commits = sides.spark.history(table, COMMITS)
        if before := _before_last_change(commits, version):
            noted = {"version": before.version, "at": before.at}
            if sides.spark.reads(table, noted, commits):
                earlier[table.lower()] = noted
            else:
                why = f"{table} does not retain version {before.version}, before its last change"
    is_earlier = any(head.side.table(parent).lower() in earlier for parent in parents)
    return None if is_earlier else why


def _before_last_change(commits: Sequence[Commit], pinned: Mapping[str, int]) -> Commit | None:
    known = [one for one in commits if one.version <= pinned["version"]]
    return next((before for last, before in pairwise(known) if last.effect.rows > 0), None)


def _stays(
    comparison: Comparison,
    key: str,
    run_up: str,
    past: BuildOutcome | None,
    last: BuildOutcome | None,
) -> Stays:
    for outcome in (past, last):
        if outcome is None or not outcome.is_built:
            return Stays(f"not tried: {outcome.message if outcome else 'dbt did not run it'}", None)
    assert last is not None
    spark, table = comparison.sides.spark, comparison.sides.head.table(key)
    changed = int(last.response.get("input_rows") or 0)
    try:
        columns = spark.columns(table), spark.columns(run_up)
        one_of = comparison.sample(table, run_up)
        pair = differing.Pair(table, run_up, *columns, (), one_of=one_of)
        differ = _differing(spark, pair)
    except DbtRuntimeError as error:
        return Stays(f"not compared: {first_line(error)}", None, changed)
    if last.did == "replace" and not differ:
        return Stays(f"replaced, not proven: {last.message}", None, changed)
    how = re.sub(r", of \d+ changed input rows", "", last.message)  # shown by the proof
    ties = (spark.derivation(run_up) or {}).get("ties") if differ else None
    if ties:
        how += f"; rows that tie in `{ties[0]}` may differ"
    return Stays(how, differ, changed, "all" if one_of == 1 else "sample")


def _differing(spark: Spark, pair: differing.Pair) -> int:
    """Count the differing rows of two tables as multisets, usually none."""
    one, other = spark.rows(differing.digests_sql(pair))
    if one == other:
        return 0
    rows = f"select coalesce(sum(hw_n), 0) from ({differing.differing_multisets_sql(pair)})"
    return int(spark.rows(rows)[0][0])
