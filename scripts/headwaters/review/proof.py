"""The proof that the branch's incremental runs equal a full refresh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import parts_of, strategy_of
from headwaters.platform.errors import first_line
from headwaters.platform.sql import identifier
from headwaters.review import difference as differing
from headwaters.review.build_sides import BothSides
from headwaters.review.compare_sides import Comparison
from headwaters.review.dbt_runs import BUILD, BuildOutcome, moved, redirected, run
from headwaters.review.facts import Effort, Extent, Stays
from headwaters.review.sides import inputs
from headwaters.review.spark import COMMITS, Spark
from headwaters.runs.inputs import inputs_of
from headwaters.runs.state import TableState
from headwaters.tables.commits import Commit


@dataclass(frozen=True)
class Proof:
    """The result of a model's incremental run, and its measured cost if it was compared."""

    stays: Stays
    effort: Effort | None = None


@dataclass(frozen=True)
class Trial:
    """A model to run from earlier versions of the inputs that its runs follow.

    `moved` are the inputs at earlier versions, and `still` those that its runs do not follow, by
    id. `before` and `after` have the versions of both runs by table, `places` the schemas of clones
    by the ids of the inputs.
    """

    key: str
    moved: frozenset[str]
    still: frozenset[str] = frozenset()
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def fits(self, other: Trial) -> bool:
        """Return true if one run of dbt, which reads a table at one version, can try both."""
        return not (self.moved & other.still or other.moved & self.still)


def prove(comparison: Comparison) -> Iterator[tuple[str, Proof]]:
    """Run the branch's models from earlier versions of their inputs; yield the proofs by id."""
    sides, head = comparison.sides, comparison.sides.head
    changed = MadeChanges(sides)
    trials: list[Trial] = []
    for key in head.keys:
        own = sides.changes.changed.get(key)
        node = head.side.nodes[key]
        if own is None or not own.rows or node["resource_type"] != "model":
            continue
        if not strategy_of(node["config"]):
            continue  # it is always a full run
        trial = _trial(key, sides)
        if isinstance(trial, str) and _may_be_made(key, sides):
            trial = changed.trial(key)
        if isinstance(trial, str):
            yield key, Proof(Stays(f"not tried: {trial}", None))
        else:
            trials.append(trial)
    for group in in_groups(trials):
        yield from _tried(comparison, group)


def in_groups(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Return trials in groups that one run of dbt can try, in their order."""
    groups: list[list[Trial]] = []
    for trial in trials:
        fitting = (group for group in groups if all(map(trial.fits, group)))
        if (group := next(fitting, None)) is None:
            groups.append([trial])
        else:
            group.append(trial)
    return groups


def _tried(comparison: Comparison, trials: Sequence[Trial]) -> Iterator[tuple[str, Proof]]:
    """Run models from earlier versions of their inputs, then up to the pinned ones."""
    sides, head = comparison.sides, comparison.sides.head
    chosen = [trial.key for trial in trials]
    places = {key: sides.schemas.name("past", head.side.nodes[key]["schema"]) for key in chosen}
    for schema in sorted(set(places.values())):
        sides.schemas.make(sides.spark, schema)
    project = head.side.project
    clones = {parent: schema for one in trials for parent, schema in one.places.items()}
    made = redirected(head.side.manifest, {**clones, **places}, sides.schemas.records)
    for key in chosen:  # a run that replaces a small table proves nothing
        made.nodes[key].config["whole_below"] = 0
    before, after = (
        {table: version for one in trials for table, version in getattr(one, side).items()}
        for side in ("before", "after")
    )
    pins = sides.pinned.versions
    past = run("proof: first run", project, made, BUILD, chosen, {**pins, **before})
    last = run("proof: second run", project, made, BUILD, chosen, {**pins, **after})
    for trial in trials:
        key = trial.key
        run_up = moved(head.side.table(key), places[key])
        stays = _stays(comparison, key, run_up, past.get(key), last.get(key))
        if trial.places and stays.differing is not None:
            stays = replace(
                stays, how=f"{stays.how}, over rows that the review took out and put back"
            )
        yield key, Proof(stays, None if stays.differing is None else last[key].effort)


def followed_of(parents: Mapping[str, str], sql: str | None) -> list[str]:
    """Return the inputs whose changes a run follows, by the SQL that built the model's table.

    `parents` has the names of the tables by id. A run that reads a changed lookup replaces the
    table, or keeps the old values, and proves nothing. All are returned if there are only lookups.
    """
    kinds: dict[str, set[str]] = {}
    for spec in inputs_of(sql or ""):
        kinds.setdefault(_plain(spec["source"]), set()).add(spec["kind"])
    found = [key for key, table in parents.items() if kinds.get(_plain(table)) != {"lookup"}]
    return found or list(parents)


def _plain(table: str) -> str:
    return ".".join(parts_of(table))


def _followed(key: str, sides: BothSides) -> list[str]:
    """Return the inputs of a model whose changes its runs follow."""
    head, names = sides.head, sides.head.names
    tables = {parent: head.side.table(parent) for parent in inputs([key], head.side)}
    read = {parent: names.get(table.lower(), table) for parent, table in tables.items()}
    try:
        properties = sides.spark.properties(head.table(key))
    except DbtRuntimeError:
        properties = {}
    return followed_of(read, TableState(properties).sql)


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

    Each has its schema, and the versions without and with the rows.
    """

    def __init__(self, sides: BothSides) -> None:
        """Prepare without a clone."""
        self._sides = sides
        self._places: dict[str, str] = {}
        self._before: dict[str, Mapping[str, Mapping[str, int]]] = {}
        self._after: dict[str, Mapping[str, Mapping[str, int]]] = {}
        self._refused: dict[str, str] = {}

    def trial(self, key: str) -> Trial | str:
        """Make a change in each input that a model follows. Return why none was made otherwise."""
        followed = _followed(key, self._sides)
        for parent in followed:
            is_new = parent not in self._places and parent not in self._refused
            if is_new and (why := self._make(parent)):
                self._refused[parent] = why
        made = [parent for parent in followed if parent in self._places]
        if not made:
            return next((self._refused[parent] for parent in followed), "it has no inputs")
        return Trial(
            key,
            frozenset(made),
            frozenset(inputs([key], self._sides.head.side)) - {*followed},
            {table: one for parent in made for table, one in self._before[parent].items()},
            {table: one for parent in made for table, one in self._after[parent].items()},
            {parent: self._places[parent] for parent in made},
        )

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
        self._places[parent] = schema
        self._before[parent] = {place.lower(): {"version": without.version, "at": without.at}}
        self._after[parent] = {place.lower(): {"version": with_them.version, "at": with_them.at}}
        return None


def _trial(key: str, sides: BothSides) -> Trial | str:
    """Return a trial from the versions before the last changes, or why there is none."""
    head = sides.head
    if key not in head.outcomes or not head.outcomes[key].is_built:
        return "the model was not built"
    parents = inputs([key], head.side)
    if built := [parent for parent in parents if parent in head.keys]:
        return f"its input {built[0].split('.')[-1]} changes in this branch as well"
    why = "no input has changed since it was made, as far as its log says"
    earlier: dict[str, tuple[str, Mapping[str, int]]] = {}
    followed = _followed(key, sides)
    for parent in followed:
        table = head.side.table(parent)
        version = sides.pinned.of(table)
        if version is None:
            return f"{table} has no versions"
        commits = sides.spark.history(table, COMMITS)
        if before := _before_last_change(commits, version):
            noted = {"version": before.version, "at": before.at}
            if sides.spark.reads(table, noted, commits):
                earlier[parent] = table.lower(), noted
            else:
                why = f"{table} does not retain version {before.version}, before its last change"
    if not earlier:
        return why
    return Trial(key, frozenset(earlier), frozenset(parents) - {*followed}, dict(earlier.values()))


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
    if not differ and (last.did == "skip" or last.response.get("rows_affected") == 0):
        how += "; the changed rows have no effect on the table, so this proves little"
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
