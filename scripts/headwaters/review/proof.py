"""The proof that the branch's incremental runs equal a full refresh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.errors import first_line
from headwaters.platform.sql import identifier
from headwaters.review import difference as differing
from headwaters.review.build_sides import BothSides
from headwaters.review.compare_sides import Comparison
from headwaters.review.dbt_runs import BUILD, BuildOutcome, moved, redirected, run
from headwaters.review.facts import Effort, Extent, Stays
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
    changed = MadeChanges(sides)
    chosen: list[str] = []
    for key in head.keys:
        own = sides.changes.changed.get(key)
        node = head.side.nodes[key]
        if own is None or not own.rows or node["resource_type"] != "model":
            continue
        if not strategy_of(node["config"]):
            continue  # it is always a full run
        why = _earlier(key, sides, earlier)
        if why is not None and _may_be_made(key, sides):
            why = changed.make(key)
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
    all_places = {**changed.places, **places}
    made = redirected(head.side.manifest, all_places, sides.schemas.records)
    for key in chosen:  # a run that replaces a small table proves nothing
        made.nodes[key].config["whole_below"] = 0
    pins = sides.pinned.versions
    earlier_pins = {**pins, **earlier, **changed.before}
    past = run("proof: first run", project, made, BUILD, chosen, earlier_pins)
    last = run("proof: second run", project, made, BUILD, chosen, {**pins, **changed.after})
    for key in chosen:
        run_up = moved(head.side.table(key), places[key])
        stays = _stays(comparison, key, run_up, past.get(key), last.get(key))
        if key in changed.models and stays.differing is not None:
            stays = replace(
                stays, how=f"{stays.how}, over rows that the review took out and put back"
            )
        yield key, Proof(stays, None if stays.differing is None else last[key].effort)


def _may_be_made(key: str, sides: BothSides) -> bool:
    """Return true if a made change can stand for one of production's."""
    node, head = sides.head.side.nodes[key], sides.head
    strategy = strategy_of(node["config"])
    if strategy is None or strategy.keeps_past:
        return False  # the rows that are put back would begin another period
    is_built = key in head.outcomes and head.outcomes[key].is_built
    return is_built and not any(parent in head.keys for parent in inputs([key], head.side))


class MadeChanges:
    """Clones of inputs: the review takes some of their rows out, and then puts them back.

    `places` are the clones' schemas by the ids of the inputs, `before` and `after` the versions
    without and with the rows, by table. `models` are those that read a clone.
    """

    def __init__(self, sides: BothSides) -> None:
        """Prepare without a clone."""
        self._sides = sides
        self.places: dict[str, str] = {}
        self.before: dict[str, Mapping[str, int]] = {}
        self.after: dict[str, Mapping[str, int]] = {}
        self.models: set[str] = set()
        self._refused: dict[str, str] = {}

    def make(self, key: str) -> str | None:
        """Make a change in each input of a model. Return why none was made, or None."""
        parents = inputs([key], self._sides.head.side)
        for parent in parents:
            is_new = parent not in self.places and parent not in self._refused
            if is_new and (why := self._make(parent)):
                self._refused[parent] = why
        if any(parent in self.places for parent in parents):
            self.models.add(key)
            return None
        return next((self._refused[parent] for parent in parents), "it has no inputs")

    def _make(self, parent: str) -> str | None:
        sides, table = self._sides, self._sides.head.side.table(parent)
        version = sides.pinned.of(table)
        if version is None:
            return f"{table} has no versions"
        schema, place = sides.aside("made", parent)
        spark = sides.spark
        failed = spark.tried(
            f"create or replace table {place} shallow clone {table} version as of"
            f" {version['version']} tblproperties ('delta.appendOnly' = 'false')"
        )
        if failed:
            return f"no change could be made in a clone of {table}: {failed}"
        try:
            rows = int(spark.rows(f"select count(*) from {place}")[0][0])
            columns = [
                identifier(name)
                for name, kind in spark.columns(place).items()
                if not kind.startswith(differing.NESTED)
            ]
            cloned = spark.history(place, 1)[0]
            for one_of in dict.fromkeys((max(2, rows // 100), 2, 1)):
                chosen = f"pmod(xxhash64({', '.join(columns) or '1'}), {one_of}) = 0"
                spark.rows(f"delete from {place} where {chosen}")
                without = spark.history(place, 1)[0]
                if without.version > cloned.version:
                    break
            else:
                return f"{table} has no rows"
            spark.rows(
                f"insert into {place} select * from {table} version as of {version['version']}"
                f" where {chosen}"
            )
            with_them = spark.history(place, 1)[0]
        except DbtRuntimeError as error:
            return f"no change could be made in a clone of {table}: {first_line(error)}"
        self.places[parent] = schema
        self.before[place.lower()] = {"version": without.version, "at": without.at}
        self.after[place.lower()] = {"version": with_them.version, "at": with_them.at}
        return None


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
    try:
        columns = spark.columns(table), spark.columns(run_up)
        one_of = comparison.sample(table, run_up)
        pair = differing.Pair(table, run_up, *columns, (), one_of=one_of)
        differ = _differing(spark, pair)
    except DbtRuntimeError as error:
        return Stays(f"not compared: {first_line(error)}", None)
    extent: Extent = "all" if one_of == 1 else "sample"
    ties = (spark.derivation(run_up) or {}).get("ties") if differ else None
    return stays_of(last, differ, extent, ties or ())


def stays_of(
    last: BuildOutcome, differ: int, extent: Extent = "all", ties: Sequence[str] = ()
) -> Stays:
    """Return the result of a run whose table differs in some rows from the full computation.

    If the run computed the whole table, equal rows prove nothing. `ties` are the orders of the SQL
    that may leave rows tied.
    """
    changed = int(last.response.get("input_rows") or 0)
    if last.did in _WHOLE and not differ:
        return Stays(f"{_WHOLE[last.did]}, not proven: {last.message}", None, changed)
    how = re.sub(r", of \d+ changed input rows", "", last.message)  # shown by the proof
    if ties:
        how += f"; rows that tie in `{ties[0]}` may differ"
    return Stays(how, differ, changed, extent)


# Runs that compute the whole table.
_WHOLE = {"replace": "replaced", "compare": "computed in full"}


def _differing(spark: Spark, pair: differing.Pair) -> int:
    """Count the differing rows of two tables as multisets, usually none."""
    one, other = spark.rows(differing.digests_sql(pair))
    if one == other:
        return 0
    return int(spark.rows(differing.unequal_rows_sql(pair))[0][0])
