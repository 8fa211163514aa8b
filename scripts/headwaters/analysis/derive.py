"""The derivation of a model of plain SQL: its strategy, the role of each input, its keys.

A rule book that allows everything reads the query once. It notes the columns that the query equates
and groups by, which suggest keys. A suggestion counts only after its proof (proof.py). If an input
cannot be followed by its own columns, its changed rows are traced to columns of the result
(lineage_rules.py). If nothing is proven, a run replaces the table when an input has changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.determinism import refuse_changing
from headwaters.analysis.exact_types import is_comparable, is_exact
from headwaters.analysis.keyed_rules import refuse_incomparable
from headwaters.analysis.lineage_rules import TracedFact, TracedRules, refuse_one_group
from headwaters.analysis.linear_rules import is_across_rows
from headwaters.analysis.proof import proven
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import UNSTABLE, Refused, unforeseen
from headwaters.analysis.relations import (
    Column,
    Input,
    Relation,
)
from headwaters.analysis.stages import Stage, cut
from headwaters.analysis.strategies import STRATEGIES
from headwaters.analysis.tracing import Place, Trace, TracingReader, place_of
from headwaters.analysis.unreadable import refuse_changing_words
from headwaters.analysis.used_names import refuse_unmarked

# Limits of the search: keys, and roles of inputs for each key.
MOST_KEYS = 32
MOST_ROLES = 32
# Proofs that are tried for a query, and for each hidden query. The eighth proof succeeds or none.
MOST_PROOFS = 48
MOST_PROOFS_OF_STAGE = 12
# Nodes of a query times its readings, for each of the two kinds of ways; a reading of 3,000 nodes
# takes 20 ms. At least so many readings are tried.
MOST_NODES_READ = 60_000
LEAST_READINGS = 16
# Codes for queries that the analysis does not understand but Spark may.
_UNREAD = ("HW_NOT_UNDERSTOOD", "HW_NO_SUCH_COLUMN")
# How rows are traced: by the optional side of outer joins, and through windows by all columns.
_MODES = ((False, False), (True, False), (False, True), (True, True))
# Columns of a key that leads return.
MOST_COLUMNS = 8


@dataclass(frozen=True)
class Derivation:
    """The derived maintenance of a model.

    - `inputs`: the inputs with their roles.
    - `unique_key`: empty if nothing identifies the rows.
    - `refused`: the reason why nothing better was proven, if a change of an input, or of a lookup
      other than a seed, replaces the table.
    - `leads`: for each followed input the query of the affected keys, with the columns `key`; see
      lineage_rules.py.
    - `stages`: the queries of hidden tables, which `rest` reads; see stages.py.
    - `ties`: the expressions whose order lets rows of a key tie.
    - `is_unread`: only Spark knows what the query reads, the analysis does not.
    """

    strategy: str
    unique_key: tuple[str, ...]
    inputs: tuple[Input, ...]
    refused: Refused | None = None
    leads: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    rest: str = ""
    ties: tuple[str, ...] = ()
    is_unread: bool = False


@dataclass(frozen=True)
class Question:
    """The question: a query over inputs without roles, and what the project declares about it.

    `constant` names inputs that seldom change (seeds), `without_feed` inputs without a change feed.
    With `is_whole`, hidden tables are not allowed. With `follows_ties`, rows may tie.
    """

    sql: str
    inputs: Sequence[Input]
    constant: frozenset[str] = frozenset()
    unique_key: Sequence[str] = ()
    allowed: Sequence[str] = ()
    functions: Mapping[str, str] = field(default_factory=dict)
    without_feed: frozenset[str] = frozenset()
    is_whole: bool = False
    follows_ties: bool = False


def derive(question: Question) -> Derivation:
    """Return the cheapest of the ways that follow the most inputs. Raises Refused.

    It refuses only queries whose result may change between runs over the same inputs. If the
    analysis does not understand a query, its table is replaced.
    """
    try:
        text = dialect.read(question.sql)
        refuse_changing(text.nodes, question.inputs, question.allowed, question.functions)
    except Exception as error:
        refused = error if isinstance(error, Refused) else unforeseen(error)
        if refused.code not in _UNREAD or refused.reason == dialect.AT_ITS_VERSION:
            raise refused from None
        refuse_changing_words(question.sql, question.inputs, question.allowed, question.functions)
        return replace(_replaced(question, refused), is_unread=True)
    try:
        return _derivation(question, text)
    except Refused:
        raise
    except Exception as error:
        return _replaced(question, unforeseen(error))


def _replaced(question: Question, reason: Refused | None) -> Derivation:
    lookups = tuple(replace(source, kind="lookup") for source in question.inputs)
    return Derivation("replace", tuple(question.unique_key), lookups, reason)


def _derivation(question: Question, text: dialect.Text) -> Derivation:
    tree = text.tree
    unproven: list[Refused] = []
    untraced: list[Refused] = []
    best: tuple[tuple[int, bool], Derivation] | None = None
    whole = WholeQuery(question, text)
    tracing = Traces(question, tree)
    # the fewest inputs that a way can leave unfollowed
    least = len(question.without_feed - question.constant)

    def prefer(found: Derivation | None) -> None:
        """Prefer more followed inputs, then a key that identifies the rows, then the first way."""
        nonlocal best
        if found is not None:
            rank = _unfollowed(found.inputs, question), not found.unique_key
            best = (rank, found) if best is None or rank < best[0] else best

    def left() -> int:
        return len(question.inputs) if best is None else best[0][0]

    def read_by_keys(derived: Iterable[Derivation]) -> None:
        for found in derived:
            prefer(found)
            # the roles do not affect which columns identify the rows
            rank = best[0] if best is not None else None
            if rank == (0, False) or (rank == (0, True) and not whole.unique_key):
                break

    def trace(is_whole: bool) -> None:
        # no rule book allows such a query
        if left() and not (whole.refused and whole.refused.is_unstable):
            try:
                found = tracing.derivation(left(), is_whole)
            except Refused as refused:
                untraced.append(refused)
            else:
                prefer(found)
                if found is not None:
                    untraced.clear()

    # ways that follow every input come first, because trying the others takes many proofs
    followed, others = itertools.tee(_candidates(question, whole, unproven))
    every = (found for found in followed if _unfollowed(found[1], question) <= least)
    read_by_keys(_derived(question, tree, whole, every, unproven))
    trace(is_whole=True)
    if left():
        try:
            prefer(staged_derivation(question, whole, left()))
        except Exception as error:
            untraced.append(unforeseen(error))
    if left() > least:
        some = (found for found in others if _unfollowed(found[1], question) > least)
        read_by_keys(_derived(question, tree, whole, some, unproven))
        trace(is_whole=False)
    unproven += untraced
    if not unproven and whole.is_across_rows and (best is None or best[0][0]):
        unproven += _refusals(question, tree)
    if best is None:
        return _replaced(question, _reason(unproven) or _without_feed(question))
    (unfollowed, _), found = best
    if not unfollowed:
        return found
    apart = Refused(
        "HW_ACROSS_KEYS", "", None, "no condition equates its columns with those of a key"
    )
    return replace(found, refused=_without_feed(question) or _reason(unproven) or apart)


def _derived(
    question: Question,
    tree: exp.Query,
    whole: WholeQuery,
    candidates: Iterable[tuple[str, Sequence[Input]]],
    unproven: list[Refused],
) -> Iterator[Derivation]:
    """Yield the proven candidates."""
    for strategy, candidate in itertools.islice(
        candidates, _affordable(MOST_PROOFS, len(whole.text.nodes))
    ):
        try:
            relation = proven(
                tree,
                candidate,
                STRATEGIES[strategy].rules,
                question.unique_key,
                question.allowed,
                question.functions,
                question.follows_ties,
            )
        except Refused as refused:
            unproven.append(refused)
        except Exception as error:
            unproven.append(unforeseen(error))
        else:
            unique_key = tuple(question.unique_key) or _unique_key(relation)
            yield Derivation(strategy, unique_key, tuple(candidate), ties=whole.ties)


def _affordable(most: int, nodes: int) -> int:
    """Return the number of readings to try of a query, which is fewer for a long one."""
    return min(most, max(LEAST_READINGS, MOST_NODES_READ // nodes))


class Traces:
    """The ways of a query by leads, tried in two steps: all inputs followed, or some of them."""

    def __init__(self, question: Question, tree: exp.Query) -> None:
        """Start without readings."""
        self._question, self._tree = question, tree
        self._names = [
            source.name
            for source in question.inputs
            if source.name not in question.constant and source.name not in question.without_feed
        ]
        # inputs that no choice of roles can follow
        self._across: set[str] = set()
        self._refused: Refused | None = None

    @cached_property
    def _nodes(self) -> int:
        return sum(1 for _ in self._tree.walk())

    def derivation(self, below: int, is_whole: bool) -> Derivation | None:
        """Return the way that follows most inputs, if it leaves fewer than `below`.

        Raises Refused, with the first reason of both steps.
        """
        question = self._question
        if self._names:
            refuse_one_group(self._tree)
        most = len(self._names)
        sizes = range(most, most - 1, -1) if is_whole else range(most - 1, 0, -1)
        chosen = itertools.chain.from_iterable(
            itertools.combinations(self._names, many) for many in sizes if many
        )
        on_nulls = on_windows = False
        # `itertools.product` would make all combinations first
        ways = ((followed, mode) for followed in chosen for mode in _MODES)
        most_ways = _affordable(MOST_ROLES * 2, self._nodes)
        for followed, (nulls, windows) in itertools.islice(ways, most_ways):
            if (nulls, windows) == _MODES[0]:
                on_nulls = on_windows = False
            if (nulls and not on_nulls) or (windows and not on_windows):
                continue
            if not self._across.isdisjoint(followed):
                continue
            inputs = tuple(
                replace(source, kind="affected" if source.name in followed else "lookup")
                for source in question.inputs
            )
            if _unfollowed(inputs, question) >= below:
                break
            rules = TracedRules(nulls, windows, question.follows_ties)
            reader = Reader(inputs, rules, question.allowed, question.functions)
            try:
                relation = reader.read(self._tree)
                unique_key = tuple(question.unique_key) or _unique_key(relation)
                key = _key_of_leads(rules, relation, unique_key, self._tree)
                leads = rules.leads_of(relation, key, self._tree)
            except Refused as error:
                self._refused = self._refused or error
                if windows or not rules.depends_on_windows:
                    self._across |= rules.across
            except Exception as error:
                self._refused = self._refused or unforeseen(error)
            else:
                # an input that the query never reads does not count
                if set(leads) == set(followed):
                    ties = tuple(reader.ties)
                    return Derivation(
                        "affected_keys", unique_key, inputs, None, leads, key, ties=ties
                    )
            on_nulls |= rules.depends_on_nulls
            on_windows |= rules.depends_on_windows
        if self._refused is not None:
            raise self._refused
        return None


def staged_derivation(question: Question, whole: WholeQuery, below: int) -> Derivation | None:
    """Return the way with hidden tables, if fewer than `below` inputs still replace the table."""
    if question.is_whole or question.allowed or whole.refused:
        return None
    inputs = tuple(
        replace(source, kind="lookup" if _is_unfollowed(source.name, question) else "affected")
        for source in question.inputs
    )
    if not 0 <= _unfollowed(inputs, question) < below:
        return None

    def read(tree: exp.Query, inputs: Sequence[Input]) -> Relation[Trace]:
        if whole.reader.knows(inputs):
            return whole.reader.traced(tree)[0]
        return _reader(replace(question, inputs=inputs)).traced(tree)[0]

    def prove(
        sql: str, tree: exp.Query, inputs: Sequence[Input]
    ) -> tuple[Stage, Relation[object]] | None:
        part = replace(question, sql=sql, inputs=inputs, unique_key=())
        return _stage(part, tree, whole.reader)

    relation = whole.traced.relation
    found = cut(whole.text, relation, question.inputs, question.constant, prove, read)
    if found is None:
        return None
    unique_key = tuple(question.unique_key) or _unique_key(relation)
    return Derivation(
        "staged",
        unique_key,
        inputs,
        stages=found.stages,
        rest=found.rest,
        ties=whole.ties,
    )


def _is_unfollowed(name: str, question: Question) -> bool:
    return name in question.constant or name in question.without_feed


def _stage(
    question: Question, tree: exp.Query, reader: TracingReader
) -> tuple[Stage, Relation[object]] | None:
    """Return the query as a hidden query and its relation, if a proven key follows all inputs.

    The caller has checked that the whole query is deterministic.
    """
    try:
        refuse_unmarked(dialect.walked(tree), (source.name.lower() for source in question.inputs))
        traced = _Traced(question, tree, reader)
    except Refused:
        return None
    # equal values may differ, so no table preserves them for the rest
    if any(column.type in ("double", "float") for column in traced.relation.columns):
        return None
    followed = (
        inputs
        for key in itertools.islice(traced.keys(), MOST_KEYS)
        for inputs in itertools.islice(traced.roles(key), MOST_ROLES)
        if not _unfollowed(inputs, question)
    )
    for inputs in itertools.islice(followed, MOST_PROOFS_OF_STAGE):
        try:
            relation = proven(
                tree, inputs, "keyed", (), (), question.functions, question.follows_ties
            )
        except Refused:
            continue
        if unique_key := _unique_key(relation):
            return Stage(question.sql, unique_key, tuple(inputs)), relation
    unique_key = _unique_key(traced.relation)
    if not unique_key:
        return None
    try:
        part = replace(question, unique_key=unique_key, follows_ties=False)
        led = Traces(part, tree).derivation(1, is_whole=True)
    except Refused:
        return None
    if led is None:
        return None
    return Stage(question.sql, unique_key, led.inputs, led.leads, led.key), traced.relation


def _key_of_leads(
    rules: TracedRules, relation: Relation[TracedFact], unique_key: Sequence[str], tree: exp.Query
) -> tuple[str, ...]:
    """Return the columns that select the rows to recompute: the row key, or all traced columns."""
    traced = rules.key_of(relation)
    if not traced:
        reason = "no column of the result is made of single rows of its inputs"
        raise dialect.refused(tree, "HW_ACROSS_KEYS", reason)
    names = {column.name.lower(): column.name for column in traced}
    if unique_key and all(name.lower() in names for name in unique_key):
        return tuple(names[name.lower()] for name in unique_key)
    exact = [column.name for column in traced if is_exact(column.type)]
    return tuple(exact[:MOST_COLUMNS] or [column.name for column in traced][:MOST_COLUMNS])


def _without_feed(question: Question) -> Refused | None:
    """Return the refusal for the first input without a feed, seeds excepted."""
    for name in sorted(question.without_feed - question.constant):
        return Refused(
            "HW_NO_CHANGE_FEED",
            "",
            None,
            f"{name} has no change data feed: set delta.enableChangeDataFeed",
        )
    return None


def _reason(unproven: Sequence[Refused]) -> Refused | None:
    """Return the refusal to report: a missing requirement, or the failure of the best key."""
    order = ("HW_NOT_COMPARABLE", "HW_ACROSS_KEYS", *UNSTABLE)

    def rank(refused: Refused) -> int:
        return order.index(refused.code) if refused.code in order else len(order)

    return min(unproven, key=rank, default=None)


def _unfollowed(candidate: Iterable[Input], question: Question) -> int:
    """Count the inputs that replace the table when they change, seeds excepted."""
    return sum(
        not source.is_followed and source.name not in question.constant for source in candidate
    )


def _unique_key(relation: Relation[object]) -> tuple[str, ...]:
    """Return the fewest columns that are known to identify the rows, if there are any."""
    places: dict[int, int] = {}
    for place, column in enumerate(relation.columns):
        places.setdefault(column.id, place)
    for place, column in enumerate(relation.columns):
        for part in column.whole:  # a struct identifies what its fields identify
            places.setdefault(part, place)
    known = [sorted({places[part] for part in key}) for key in relation.unique]
    known = [
        key for key in known if all(is_comparable(relation.columns[place].type) for place in key)
    ]
    if not known:
        return ()
    shortest = min(known, key=lambda key: (len(key), key))
    # an empty key means at most one row
    return tuple(relation.columns[n].name for n in shortest or [0])


def _candidates(
    question: Question, whole: WholeQuery, unproven: list[Refused]
) -> Iterator[tuple[str, Sequence[Input]]]:
    """Yield strategies and inputs with roles, cheapest first."""
    if not whole.is_across_rows:
        for inputs in _followed_alone(question):
            yield "change_feed", inputs
    if whole.refused:
        unproven.append(whole.refused)
        return
    for key in itertools.islice(whole.traced.keys(), MOST_KEYS):
        for inputs in itertools.islice(whole.traced.roles(key), MOST_ROLES):
            yield "affected_keys", inputs
    if not whole.unique_key:
        for column in whole.traced.incomparable:
            try:
                refuse_incomparable(column.name, column.type)
            except Refused as refused:
                unproven.append(refused)


def _followed_alone(question: Question) -> Iterator[list[Input]]:
    """Yield the inputs with one of them followed and the others as lookups."""
    followable = [source for source in question.inputs if source.name not in question.without_feed]
    for followed in sorted(followable, key=lambda source: source.name in question.constant):
        yield [
            replace(source, kind="changes" if source.name == followed.name else "lookup")
            for source in question.inputs
        ]


def _refusals(question: Question, tree: exp.Query) -> Iterator[Refused]:
    """Yield why no row of an input gives rows of the result, as a last resort for the message."""
    for inputs in _followed_alone(question):
        try:
            proven(tree, inputs, "linear", (), question.allowed, question.functions)
        except Refused as refused:
            yield refused


def _reader(question: Question) -> TracingReader:
    return TracingReader(
        question.inputs, question.allowed, question.functions, question.follows_ties
    )


class WholeQuery:
    """A query, read on demand and once by the rule book that allows everything."""

    def __init__(self, question: Question, text: dialect.Text) -> None:
        """Take a question and the text of its query."""
        self.question, self.text, self.tree = question, text, text.tree
        self.reader = _reader(question)

    @cached_property
    def is_across_rows(self) -> bool:
        """Return true if the outermost query reads several rows for one row of its result."""
        return is_across_rows(self.tree)

    @cached_property
    def _read(self) -> _Traced | Refused:
        try:
            return _Traced(self.question, self.tree, self.reader)
        except Refused as refused:
            return refused

    @property
    def refused(self) -> Refused | None:
        """Return why the query cannot be read, or None."""
        return self._read if isinstance(self._read, Refused) else None

    @property
    def ties(self) -> tuple[str, ...]:
        """Return the expressions whose order lets rows tie, once the query was read."""
        return tuple(self.reader.ties)

    @property
    def unique_key(self) -> tuple[str, ...]:
        """Return the columns that are known to identify the rows."""
        return () if self.refused else _unique_key(self.traced.relation)

    @property
    def traced(self) -> _Traced:
        """Return the traced query."""
        assert isinstance(self._read, _Traced)
        return self._read


class _Traced:
    """The columns that a query equates, groups by and selects, as columns of its inputs."""

    def __init__(self, question: Question, tree: exp.Query, reader: TracingReader) -> None:
        """Read the query. Raises Refused if it is not understood."""
        self._question = question
        relation, self._noted = reader.traced(tree)
        self.relation = relation
        self._same: dict[Place, frozenset[Place]] = {}
        for one, other in self._noted.equal:
            both = self._class(one) | self._class(other)
            self._same.update(dict.fromkeys(both, both))
        # columns that are selected unchanged, and their names
        self._selected: dict[frozenset[Place], str] = {}
        grouped = frozenset[Place]().union(*self._noted.groups)
        # grouping columns that cannot be keys
        self.incomparable: list[Column] = []
        for column in relation.columns:
            place = place_of(column, relation.fact)
            if not is_comparable(column.type):
                self.incomparable += [column] if place in grouped else []
            elif place is not None:
                self._selected.setdefault(self._class(place), column.name)
        # columns that identify rows of the result
        self._of_rows: list[frozenset[frozenset[Place]]] = []
        by_id = {column.id: place_of(column, relation.fact) for column in relation.columns}
        by_name = {column.name.lower(): by_id[column.id] for column in relation.columns}
        named = [by_name.get(name.lower()) for name in question.unique_key]
        for places in (named, *([by_id.get(part) for part in key] for key in relation.unique)):
            if places and all(places):
                self._of_rows.append(frozenset(self._class(place) for place in places if place))

    def _class(self, place: Place) -> frozenset[Place]:
        return self._same.get(place, frozenset([place]))

    def keys(self) -> Iterator[tuple[frozenset[Place], ...]]:
        """Yield candidate keys: selected columns that group, join or identify rows.

        Keys that identify rows come first, then keys that most inputs have, then the longest.
        """
        found: dict[frozenset[frozenset[Place]], None] = {}
        selected = frozenset(self._selected)
        for group in self._noted.groups:
            found[selected.intersection(map(self._class, group))] = None
        for source in self._question.inputs:
            for unique in source.unique:
                key = frozenset(self._class((source.name, name)) for name in unique)
                if key <= selected:
                    found[key] = None
        found |= dict.fromkeys(self._of_rows)
        for same in self._selected:
            if len({name for name, _ in same}) > 1:
                found[frozenset([same])] = None
        for pair in itertools.combinations(list(found), 2):
            found[pair[0] & pair[1]] = None
        by_input = [
            frozenset(same for same in selected if any(source.name == name for name, _ in same))
            for source in self._question.inputs
        ]
        for key, own in itertools.product(list(found), by_input):
            found[key & own] = None
        ranked = sorted(
            (key for key in found if key and any(key <= own for own in by_input)),
            key=lambda key: (
                not any(unique <= key for unique in self._of_rows),
                -sum(key <= own for own in by_input),
                -len(key),
            ),
        )
        for key in ranked:
            yield tuple(sorted(key, key=lambda same: self._selected[same].lower()))

    def roles(self, key: Sequence[frozenset[Place]]) -> Iterator[list[Input]]:
        """Yield the inputs with roles for a key, those that follow most inputs first.

        An input has the key, or shares columns with an input that has it or leads to it.
        """
        direct = {
            source.name: replace(source, kind="affected", key=columns)
            for source in self._question.inputs
            if source.name not in self._question.without_feed
            if (columns := self._key_of(source, key)) is not None
        }
        reached = {name: [source] for name, source in direct.items()}
        while further := {
            source.name: led
            for source in self._question.inputs
            if source.name not in reached and (led := list(self._led(source, key, reached)))
        }:
            reached |= further
        choices: list[list[Input]] = []
        for source in self._question.inputs:
            own = reached.get(source.name, [])
            if source.name in self._question.without_feed:
                own = []
            lookup = replace(source, kind="lookup")
            is_constant = source.name in self._question.constant
            choices.append([lookup, *own] if is_constant else [*own, lookup])
        every = [
            list(chosen)
            for chosen in itertools.islice(itertools.product(*choices), MOST_ROLES * 4)
            if any(source.key is not None and not source.via for source in chosen)
        ]
        yield from sorted(every, key=lambda chosen: _unfollowed(chosen, self._question))

    def _key_of(self, source: Input, key: Sequence[frozenset[Place]]) -> Mapping[str, str] | None:
        columns = {}
        for same in key:
            own = sorted(column for name, column in same if name == source.name)
            if not own:
                return None
            columns[self._selected[same]] = _spelled(source, own[0])
        return columns

    def _led(
        self, source: Input, key: Sequence[frozenset[Place]], reached: Iterable[str]
    ) -> Iterator[Input]:
        """Yield the input as one that other inputs lead to the key, through shared columns."""
        names = {self._selected[same]: self._selected[same] for same in key}
        for other in self._question.inputs:
            shared = self._shared(source, other) if other.name in reached else None
            if shared:
                yield replace(source, kind="affected", key=names, via=other.source, on=shared)

    def _shared(self, source: Input, other: Input) -> dict[str, str]:
        """Return the columns of an input that the query equates with columns of another."""
        shared = {}
        for column in source.columns:
            same = self._class((source.name, column.lower()))
            theirs = sorted(name for of, name in same if of == other.name)
            if theirs:
                shared[column] = _spelled(other, theirs[0])
        return shared


def _spelled(source: Input, name: str) -> str:
    return next(column for column in source.columns if column.lower() == name)
