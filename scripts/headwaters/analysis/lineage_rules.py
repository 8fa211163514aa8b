"""Rules that trace changed input rows to rows of the result: `affected_keys` by traced keys.

A relation is traced by columns that are made of single rows of its inputs. If no *lead* returns a
value of these columns, the relation has the same rows for it before and after the run. A lead joins
the changed rows of one input with all rows that the other inputs have before or after. It takes the
harmless equalities and conditions of the query and omits the rest, so it finds too many values but
never too few. The run recomputes the rows of the result for these values.

Each reading of a followed input has a token. If a token gets lost on the way to the result, the
query is refused: a missing dependency would leave stale rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import is_comparable, is_exact
from headwaters.analysis.relations import (
    Column,
    Equal,
    How,
    Input,
    Operator,
    Relation,
    Rules,
    Side,
)
from headwaters.analysis.safe_expressions import kind_of
from headwaters.analysis.scopes import is_grouped
from headwaters.platform.sql import identifier

_numbers = itertools.count(1)
# The alias of a part within a text; \x02 encloses ids of columns.
_PART = re.compile("\x01(\\d+)\x01")
_COLUMN = re.compile("\x02(\\d+)\x02")
_VIEW = "lateral view "
MOST_LEADS = 60
LONGEST = 60_000


@dataclass(frozen=True)
class Lead:
    """A change of `input`: `content` replaces the part with this number.

    `parts` and `conditions` are those of a subquery, in addition to those of the relation.
    """

    input: str
    number: int
    content: str
    parts: tuple[tuple[int, str], ...] = ()
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Traced:
    """The fact: a join of `parts` (number and content) that has every value of `names`, by id.

    A content is the name of a table, a query in brackets, or a LATERAL VIEW. `others` are ids of
    columns that would have a name if both sides of outer joins were traced. `links` are conditions
    that compare columns with those of the relation that is joined next, or of the query around.
    With windows, `unspread` are the leads before those of this select list, and `partitions` the
    texts of their columns. For each order that lets rows tie, `chosen` has the texts of columns
    that have one value in all rows that depend on a choice. With `keeps_constants`, rows of
    constants may have no row of the parts, so no lead of another relation finds them. If it
    `is_plain`, the relation has the rows of one input that meet the conditions, and no others.
    `extreme` is the text of the one column of its largest or least value.
    """

    parts: tuple[tuple[int, str], ...]
    names: Mapping[int, str]
    conditions: tuple[str, ...] = ()
    leads: tuple[Lead, ...] = ()
    tokens: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()
    links: tuple[str, ...] = ()
    unspread: tuple[Lead, ...] = ()
    partitions: frozenset[tuple[str, ...]] = frozenset()
    chosen: tuple[frozenset[str], ...] = ()
    keeps_constants: bool = False
    is_plain: bool = False
    extreme: str = ""


@dataclass(frozen=True)
class OfRow:
    """The fact of a subquery over rows equated with the outer row, which gets the `leads`."""

    leads: tuple[Lead, ...] = ()
    tokens: frozenset[int] = frozenset()


TracedFact = Traced | OfRow

_SPANS = (
    "Compute what spans all rows in a model of its own, or equate its columns with those of the "
    "rows that it is compared with"
)
_NO_PARTITION = "no PARTITION BY column is traced to single rows of an input"
_ONE_PARTITION = "the window is over all rows"
_NO_GROUP = "no GROUP BY column is traced to single rows of an input"
_ONE_GROUP = "it aggregates all rows"
_TOO_MANY = "too many ways lead from its inputs to the result"
_KEPT = "a row of constants that is kept alone would be found by no lead of another input"


def _refuse(node: exp.Expr, reason: str) -> NoReturn:
    raise dialect.refused(node, "HW_ACROSS_KEYS", reason, _SPANS)


@dataclass
class TracedRules(Rules[TracedFact]):
    """The rule book. The result must have the tokens `required`; `read` are the inputs.

    With `nulls`, outer joins are traced by columns of the optional side, too, which doubles the
    leads. With `windows`, a window leaves every column traced: a lead returns all rows of a changed
    row's partition. `depends_on_nulls` and `depends_on_windows`: the other value would change the
    result. `across` are inputs that no choice of roles can follow: all of their rows make one row,
    or no grouping column is made of single rows. With `follows_ties`, rows may tie.
    """

    nulls: bool = False
    windows: bool = False
    follows_ties: bool = False
    depends_on_nulls: bool = False
    depends_on_windows: bool = False
    required: set[int] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    across: set[str] = field(default_factory=set)
    _depends_on_roles: bool = False

    def base(self, source: Input, relation: Relation[TracedFact]) -> Traced:
        """Trace every column of an input, followed or not."""
        number = next(_numbers)
        names = {c.id: f"\x01{number}\x01.{identifier(c.name)}" for c in relation.columns}
        parts = ((number, identifier(f"hw_wide:{source.name}")),)
        if not source.is_followed:
            return Traced(parts, names)
        self.read.add(source.name)
        lead = Lead(source.name, number, identifier(f"hw_changed:{source.name}"))
        return Traced(parts, names, leads=(lead,), tokens=self._token(), is_plain=True)

    def narrowed(
        self, relation: Relation[TracedFact], texts: Sequence[str], is_whole: bool
    ) -> TracedFact:
        """Add conditions on single rows, as far as their columns are traced."""
        fact = relation.followed_fact
        if isinstance(fact, OfRow):
            return fact
        known = [named for text in texts if (named := _named(text, fact.names)) is not None]
        is_plain = fact.is_plain and is_whole and len(known) == len(texts)
        return replace(_with(fact, known), is_plain=is_plain)

    def linked(self, relation: Relation[TracedFact], texts: Sequence[str]) -> TracedFact:
        """Note the conditions for the next join."""
        fact = relation.followed_fact
        return fact if isinstance(fact, OfRow) else replace(fact, links=tuple(texts))

    def computed(self, relation: Relation[TracedFact], column: int, text: str) -> TracedFact:
        """Trace a column that is computed from one row."""
        fact = relation.followed_fact
        if isinstance(fact, OfRow):
            return fact
        known = _named(text, fact.names)
        if known is None:
            used = {int(found[1]) for found in _COLUMN.finditer(text)}
            may_be = used <= fact.names.keys() | fact.others
            return replace(fact, others=fact.others | {column}) if may_be else fact
        return replace(fact, names={**fact.names, column: known})

    def generated(
        self, relation: Relation[TracedFact], columns: Sequence[int], text: str
    ) -> TracedFact:
        """Trace columns that LATERAL VIEW makes of one row: the same view over the changed rows."""
        fact = relation.followed_fact
        content = None if isinstance(fact, OfRow) else _named(text, fact.names)
        if isinstance(fact, OfRow) or content is None:
            return fact
        number = next(_numbers)
        names = {id: f"\x01{number}\x01.{identifier(f'c{n}')}" for n, id in enumerate(columns)}
        listed = ", ".join(identifier(f"c{n}") for n in range(len(columns)))
        part = number, f"{_VIEW}{content} \x01{number}\x01 as {listed}"
        names = {**fact.names, **names}
        return replace(fact, parts=(*fact.parts, part), names=names, is_plain=False)

    def extreme(
        self, relation: Relation[TracedFact], text: str, is_most: bool
    ) -> TracedFact | None:
        """Trace the largest value of an input's rows, or the least, by itself.

        If it changes, the value before or the one after is of a changed row, because the unchanged
        rows have one largest value. The other is of a changed row too, or it is this value: the
        largest one that no changed row has, for if a changed row has it, it is found as well. The
        conditions must be the query's, since more rows might have a larger value. `max` and `min`
        leave out NULL, and a NULL for no rows equals nothing.
        """
        fact = relation.followed_fact
        known = _named(text, fact.names) if isinstance(fact, Traced) and fact.is_plain else None
        if not isinstance(fact, Traced) or known is None:
            return None
        (lead,) = fact.leads
        number, one, other = (next(_numbers) for _ in range(3))
        column = identifier("c0")
        every, changed = (_select(f"{known} as {column}", fact, of) for of in (None, lead))
        kept = (
            f"select {'max' if is_most else 'min'}(\x01{one}\x01.{column}) as {column}"
            f" from ({every}) as \x01{one}\x01 left anti join ({changed}) as \x01{other}\x01"
            f" on \x01{one}\x01.{column} = \x01{other}\x01.{column}"
        )
        found = Lead(lead.input, number, f"({changed} union {kept})")
        name = f"\x01{number}\x01.{column}"
        parts = ((number, f"({every})"),)
        return Traced(parts, {}, leads=(found,), tokens=fact.tokens, extreme=name)

    def filtered(
        self, relation: Relation[TracedFact], equal: Sequence[Equal], node: exp.Expr
    ) -> TracedFact:
        """Take any condition; `narrowed` adds it to the fact."""
        return relation.followed_fact

    def joined(
        self,
        side: Side,
        left: Relation[TracedFact],
        right: Relation[TracedFact],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> TracedFact:
        """Trace the rows that stay, joined by the equated columns."""
        if side == "right":
            turned = [Equal(pair.right, pair.left, pair.is_null_safe) for pair in equal]
            return self.joined("left", right, left, turned, node)
        mine, theirs = _fact(left), _fact(right)
        if isinstance(mine, OfRow) or isinstance(theirs, OfRow):
            _refuse(node, "one side is compared with the outer query and the other is not")
        tokens = mine.tokens | theirs.tokens
        conditions = _compared(equal, mine, theirs)
        chosen = _chosen_of_join(equal, mine, theirs)
        mine = replace(mine, links=(), chosen=chosen, is_plain=False)
        theirs = replace(theirs, links=(), chosen=chosen, is_plain=False)
        is_kept = left.fact is None or mine.keeps_constants
        if side == "left" and is_kept and theirs.leads and not theirs.keeps_constants:
            # a kept row of constants depends on the rows that its column equals
            equated = {pair.left.id: theirs.names[pair.right.id] for pair in _found(equal, theirs)}
            found = replace(theirs, names=equated, others=frozenset(), tokens=tokens)
            if left.fact is None and equated:
                return replace(found, keeps_constants=True)
            if common := [id for id in equated if id in mine.names]:
                # and on those of each further input by itself
                names = [[fact.names[id] for id in common] for fact in (mine, found)]
                united = _union(list(zip((mine, found), names, strict=True)), common, tokens)
                return replace(united, keeps_constants=True)
        if (mine.keeps_constants and theirs.leads) or (theirs.keeps_constants and mine.leads):
            _refuse(node, _KEPT)
        self.depends_on_nulls |= side in ("left", "full")
        if side == "full" and not (self.nulls and conditions):
            if mine.leads or theirs.leads:
                _refuse(node, "full join: a row that nothing joins has no values of the other side")
            others = _ids(mine, theirs)
            return Traced(mine.parts, {}, tokens=tokens, others=others, chosen=chosen)
        if not conditions:
            if theirs.leads and (side != "inner" or mine.leads):
                _refuse(node, f"{side} join by no equality of columns of single rows")
            self._depends_on_roles = True
            kept = theirs if side == "inner" and theirs.leads else mine
            return replace(kept, tokens=tokens)
        both = _with(
            Traced(
                mine.parts + theirs.parts,
                {**mine.names, **theirs.names},
                mine.conditions + theirs.conditions,
                mine.leads + theirs.leads,
                tokens,
                mine.others | theirs.others,
                chosen=chosen,
                keeps_constants=mine.keeps_constants or theirs.keeps_constants,
            ),
            conditions,
        )
        if len(both.leads) > MOST_LEADS:
            _refuse(node, _TOO_MANY)  # before writing them, because each join may double them
        if side == "inner":
            return both
        of_mine = replace(mine, leads=mine.leads + _nested(theirs, conditions), tokens=tokens)
        if side in ("semi", "anti"):
            return of_mine
        if not self.nulls:
            return replace(of_mine, others=mine.others | _ids(theirs))
        # joined rows, and unmatched rows with NULL in the columns of the other side
        facts = [both, of_mine]
        if side == "full":
            facts.append(replace(theirs, leads=theirs.leads + _nested(mine, conditions)))
        nulls = {column.id: _null(column.type) for column in (*left.columns, *right.columns)}
        names = [
            [fact.names.get(id) or nulls.get(id, "null") for id in both.names] for fact in facts
        ]
        return _union(list(zip(facts, names, strict=True)), list(both.names), tokens)

    def grouped(
        self, relation: Relation[TracedFact], keys: Sequence[Column] | None, node: exp.Expr
    ) -> TracedFact:
        """Take grouping columns if at least one is made of single rows."""
        ids = {key.id for key in keys or []}
        return self._kept(relation, ids, node, _NO_GROUP if keys else _ONE_GROUP)

    def windowed(
        self, relation: Relation[TracedFact], partition: Sequence[Column], node: exp.Expr
    ) -> TracedFact:
        """Take a window; a row depends on its whole partition."""
        ids = {column.id for column in partition}
        fact = relation.followed_fact
        kept = self._kept(relation, ids, node, _NO_PARTITION if ids else _ONE_PARTITION)
        if isinstance(fact, OfRow) or isinstance(kept, OfRow) or not fact.leads:
            return kept
        self.depends_on_windows |= len(kept.names) < len(fact.names)
        tokens = fact.tokens | self._token()
        if not self.windows:
            return replace(kept, tokens=tokens)
        if fact.keeps_constants:
            _refuse(node, _KEPT)
        # what depends on a choice now includes whole partitions
        within = frozenset(kept.names.values())
        chosen = tuple(texts & within for texts in fact.chosen)
        return replace(_spread(fact, kept), tokens=tokens, chosen=chosen)

    def chosen(self, relation: Relation[TracedFact], name: str) -> Traced | None:
        """Note the columns of the partition or of the group within which rows tie.

        A run computes all rows of a traced key or none, from one statement. So if the key of the
        result consists of columns that have one value in all rows that depend on a choice, each
        choice is made once, and the table is one of the answers of a full refresh. `joined`
        adds columns that are equated, `united` maps them, and `key_of` selects the key.
        After `windowed` and `grouped` the traced columns are those of the partition or the group.
        With windows, a partition is not what is traced, and a limit chooses among all rows.
        """
        fact = relation.followed_fact
        if not self.follows_ties or self.windows or name == "limit" or isinstance(fact, OfRow):
            return None
        return replace(fact, chosen=(*fact.chosen, frozenset(fact.names.values())))

    def distinct(self, relation: Relation[TracedFact], node: exp.Expr) -> TracedFact:
        """Take DISTINCT, because equal rows have equal values."""
        return self._kept(relation, relation.ids, node, "no column is made of single rows")

    def projected(self, relation: Relation[TracedFact], node: exp.Expr) -> TracedFact:
        """Keep the selected columns."""
        fact = relation.followed_fact
        if isinstance(fact, OfRow):
            return fact
        if fact.extreme:
            (column,) = relation.columns
            return replace(fact, names={column.id: fact.extreme}, extreme="")
        return replace(_only(fact, relation.ids), unspread=(), partitions=frozenset())

    def limited(self, relation: Relation[TracedFact], node: exp.Expr) -> TracedFact:
        """Take a limit only over rows that are equated with the outer row."""
        fact = relation.followed_fact
        if isinstance(fact, Traced) and fact.leads:
            _refuse(node, "which rows are within the limit depends on all of them")
        return fact

    def united(
        self,
        operator: Operator,
        left: Relation[TracedFact],
        right: Relation[TracedFact],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> TracedFact:
        """Trace the columns that every branch makes of single rows."""
        facts = [_fact(left), _fact(right)]
        tokens = frozenset[int]().union(*(fact.tokens for fact in facts))
        if any(isinstance(fact, OfRow) for fact in facts):
            if any(isinstance(fact, Traced) and (fact.leads or fact.chosen) for fact in facts):
                _refuse(node, "one branch is compared with the outer query and the other is not")
            leads = [lead for fact in facts if isinstance(fact, OfRow) for lead in fact.leads]
            return OfRow(tuple(leads), tokens)
        branches = [
            (fact, [fact.names.get(column.id) for column in branch.columns])
            for fact, branch in zip(facts, (left, right), strict=True)
            if isinstance(fact, Traced)
        ]
        places = [
            n
            for n in range(len(columns))
            if all(names[n] for _, names in branches)
            and not _is_written_moment(left.columns[n], right.columns[n])
        ]
        if not places and any(fact.leads for fact in facts):
            _refuse(node, "the branches have no column in common that is made of single rows")
        listed = [(fact, [str(names[n]) for n in places]) for fact, names in branches]
        united = _union(listed, [columns[n].id for n in places], tokens)
        others = (
            columns[n].id
            for n in range(len(columns))
            if n not in places
            and left.columns[n].id in _ids(facts[0])
            and right.columns[n].id in _ids(facts[1])
        )
        keeps_constants = any(fact.keeps_constants for fact, _ in branches)
        return replace(united, others=frozenset(others), keeps_constants=keeps_constants)

    def nested(
        self,
        outer: Relation[TracedFact],
        inner: Relation[TracedFact],
        how: How,
        tested: Sequence[Column | None],
        node: exp.Expr,
    ) -> TracedFact:
        """Trace the outer rows that compare with a changed row of the subquery."""
        fact, of = _fact(outer), _fact(inner)
        tokens = fact.tokens | of.tokens
        if isinstance(fact, Traced):
            fact = replace(fact, is_plain=False)
        if isinstance(of, Traced) and of.chosen:
            _refuse(node, "rows of the subquery tie, and any row around it may depend on them")
        if not of.leads:
            return replace(fact, tokens=tokens)
        if isinstance(fact, OfRow):
            _refuse(node, "a subquery within a subquery that is compared with the outer query")
        if fact.keeps_constants or (isinstance(of, Traced) and of.keeps_constants):
            _refuse(node, _KEPT)
        if isinstance(of, OfRow):
            return replace(fact, leads=fact.leads + of.leads, tokens=tokens)
        listed = _tested(tested, inner)
        conditions = _equalities(listed, fact.names, of.names)
        if not conditions:
            _refuse(node, "the subquery looks at rows that no equality compares with the outer row")
        leads = _nested(of, conditions)
        if how == "not in":
            if len(tested) > 1:
                _refuse(node, "a NULL in either column of `not in` may affect every row")
            # a NULL in the list, or as the tested value, affects every row
            leads += _nested(of, [f"{fact.names[listed[0].left.id]} is null"])
            leads += _nested(of, [f"{of.names[inner.columns[0].id]} is null"])
        return replace(fact, leads=fact.leads + leads, tokens=tokens)

    def renumbered(self, fact: TracedFact, number: Callable[[int], int]) -> TracedFact:
        """Return the fact of another reading, with new parts and tokens."""
        if isinstance(fact, OfRow):
            return fact
        copied = _copied(fact)
        return replace(
            copied,
            names={number(id): name for id, name in copied.names.items()},
            tokens=frozenset[int]().union(*(self._token() for _ in fact.tokens)),
            others=frozenset(map(number, fact.others)),
        )

    def correlated(
        self,
        outer: Relation[TracedFact],
        inner: Relation[TracedFact],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> TracedFact:
        """Trace a subquery whose WHERE clause equates its columns with those of the outer row."""
        fact = inner.followed_fact
        if isinstance(fact, OfRow) or not isinstance(outer.fact, Traced):
            return fact
        conditions = _compared(equal, outer.fact, fact)
        if fact.keeps_constants and outer.fact.leads:
            _refuse(node, _KEPT)
        if not conditions or fact.chosen:
            return replace(fact, links=())
        return OfRow(_nested(fact, conditions), fact.tokens)

    def leads_of(
        self, relation: Relation[TracedFact], key: Sequence[str], node: exp.Expr
    ) -> dict[str, str]:
        """Return for each followed input the query of the affected keys. Raises Refused.

        A query reads `hw_changed:<input>`, the changed rows with their old and new values, and
        `hw_wide:<input>`, all rows that the input had before or has now.
        """
        fact = relation.fact
        if not isinstance(fact, Traced) or not self.required <= fact.tokens:
            _refuse(node, "not every use of an input leads to columns of the result")
        texts = {
            c.name.lower(): fact.names[c.id]
            for c in reversed(relation.columns)
            if c.id in fact.names
        }
        selected = ", ".join(f"{texts[name.lower()]} as {identifier(name)}" for name in key)
        found: dict[str, list[str]] = {}
        for lead in dict.fromkeys(fact.leads):
            found.setdefault(lead.input, []).append(_written(_select(selected, fact, lead)))
        if (
            len(fact.leads) > MOST_LEADS
            or sum(map(len, itertools.chain(*found.values()))) > LONGEST
        ):
            _refuse(node, _TOO_MANY)
        if set(found) != self.read:
            _refuse(node, "not every followed input leads to columns of the result")
        return {name: "\nunion all\n".join(queries) for name, queries in found.items()}

    def key_of(self, relation: Relation[TracedFact]) -> list[Column]:
        """Return the columns of the result that are made of single rows and have a unique name.

        If rows tie, these are the columns that have one value in all rows that depend on a choice.
        """
        fact = relation.fact
        names = [column.name.lower() for column in relation.columns]
        return [
            column
            for column in relation.columns
            if isinstance(fact, Traced)
            and column.id in fact.names
            and names.count(column.name.lower()) == 1
            and is_comparable(column.type)
            and all(fact.names[column.id] in texts for texts in fact.chosen)
        ]

    def _token(self) -> frozenset[int]:
        token = next(_numbers)
        self.required.add(token)
        return frozenset([token])

    def _kept(
        self, relation: Relation[TracedFact], ids: Collection[int], node: exp.Expr, lacks: str
    ) -> TracedFact:
        """Return the fact with these columns alone."""
        fact = relation.followed_fact
        if isinstance(fact, OfRow):
            return fact
        kept = _only(fact, ids)
        if fact.leads and not kept.names:
            if not ids or not (self._depends_on_roles or kept.others):
                self.across |= {lead.input for lead in fact.leads}
            _refuse(node, lacks)
        return kept


def refuse_one_group(tree: exp.Query) -> None:
    """Refuse a query that aggregates all rows, because no input can be traced through it."""
    if isinstance(tree, exp.Select) and is_grouped(tree) and not tree.args.get("group"):
        _refuse(tree, _ONE_GROUP)


def _copied(fact: Traced) -> Traced:
    """Return the fact with other parts."""
    numbers: dict[int, int] = {}

    def part(old: int) -> int:
        return numbers.setdefault(old, next(_numbers))

    def text(old: str) -> str:
        return _PART.sub(lambda found: f"\x01{part(int(found[1]))}\x01", old)

    def parts(old: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
        return tuple((part(one), text(content)) for one, content in old)

    leads = tuple(
        Lead(
            lead.input,
            part(lead.number),
            text(lead.content),
            parts(lead.parts),
            tuple(map(text, lead.conditions)),
        )
        for lead in fact.leads
    )
    return Traced(
        parts(fact.parts),
        {id: text(name) for id, name in fact.names.items()},
        tuple(map(text, fact.conditions)),
        leads,
        fact.tokens,
        fact.others,
        chosen=tuple(frozenset(map(text, texts)) for texts in fact.chosen),
        keeps_constants=fact.keeps_constants,
    )


def _spread(fact: Traced, partition: Traced) -> Traced:
    """Return the fact after a window, which is traced by all of its columns.

    A row changes only with a row of its partition: the lead joins all rows, old and new, with the
    changed rows of the same partition, which include the row itself. All windows of a select list
    have the same rows below them.
    """
    below = fact.unspread or fact.leads
    texts = tuple(sorted(partition.names.values()))
    if texts in fact.partitions:
        return fact
    copied = _copied(replace(fact, leads=below))
    conditions = [f"{fact.names[id]} <=> {copied.names[id]}" for id in partition.names]
    spread = fact.leads if fact.partitions else ()
    return replace(
        fact,
        leads=spread + _nested(copied, conditions),
        unspread=below,
        partitions=fact.partitions | {texts},
    )


def _union(
    branches: Sequence[tuple[Traced, Sequence[str]]], ids: Sequence[int], tokens: frozenset[int]
) -> Traced:
    """Return the rows of all branches as one part, with texts for the columns of these ids."""
    number = next(_numbers)
    columns = [identifier(f"c{place}") for place in range(len(ids))]
    lists = [
        ", ".join(f"{text} as {column}" for text, column in zip(texts, columns, strict=True))
        or "1 as c"
        for _, texts in branches
    ]
    every = [_select(chosen, fact) for chosen, (fact, _) in zip(lists, branches, strict=True)]
    leads = tuple(
        Lead(lead.input, number, f"({_select(chosen, fact, lead)})")
        for chosen, (fact, _) in zip(lists, branches, strict=True)
        for lead in fact.leads
    )
    names = {id: f"\x01{number}\x01.{column}" for id, column in zip(ids, columns, strict=True)}
    chosen = tuple(
        frozenset(name for text, name in zip(texts, names.values(), strict=True) if text in within)
        for texts, (fact, _) in zip([texts for _, texts in branches], branches, strict=True)
        for within in fact.chosen
    )
    part = number, f"({' union all '.join(every)})"
    return Traced((part,), names, (), leads, tokens, chosen=chosen)


def _fact(relation: Relation[TracedFact]) -> TracedFact:
    """Return the fact of a relation; an empty one for rows written in the query."""
    return Traced((), {}) if relation.fact is None else relation.fact


def _tested(tested: Sequence[Column | None], inner: Relation[TracedFact]) -> list[Equal]:
    """Return the columns that IN looks for with those of its subquery."""
    return [
        Equal(column, other, False)
        for column, other in zip(tested, inner.columns, strict=False)
        if column is not None
    ]


def _null(type: str | None) -> str:
    return f"cast(null as {type})" if is_exact(type) or type in ("double", "float") else "null"


def _only(fact: Traced, ids: Collection[int]) -> Traced:
    # keep the order of the names: the order of a set depends on earlier analyses
    names = {id: name for id, name in fact.names.items() if id in ids}
    return replace(fact, names=names, others=fact.others & frozenset(ids), is_plain=False)


def _ids(*facts: TracedFact) -> frozenset[int]:
    """Return the ids of columns that have a name, or may have one."""
    traced = [fact for fact in facts if isinstance(fact, Traced)]
    return frozenset[int]().union(*(fact.names.keys() | fact.others for fact in traced))


def _with(fact: Traced, conditions: Iterable[str]) -> Traced:
    return replace(fact, conditions=tuple(dict.fromkeys((*fact.conditions, *conditions))))


def _nested(fact: Traced, conditions: Sequence[str]) -> tuple[Lead, ...]:
    """Return the leads of a relation as leads of the relation that compares with its rows."""
    return tuple(
        Lead(
            lead.input,
            lead.number,
            lead.content,
            lead.parts + fact.parts,
            (*lead.conditions, *fact.conditions, *conditions),
        )
        for lead in fact.leads
    )


def _found(equal: Sequence[Equal], theirs: Traced) -> list[Equal]:
    """Return the equalities with a traced column of the right side that need no cast."""
    return [pair for pair in equal if pair.right.id in theirs.names and _is_harmless(pair)]


def _is_harmless(pair: Equal) -> bool:
    kinds = {_kind(pair.left), _kind(pair.right)}
    is_same = pair.left.type is not None and pair.left.type == pair.right.type
    return len(kinds) == 1 and (kinds != {"other"} or is_same)


def _is_written_moment(one: Column, other: Column) -> bool:
    """Return true if a set operation may write a moment of one branch as a text of the other's.

    In the hour that a time zone repeats, the text is cast back to the earlier of two moments, so a
    lead with the later one would not find its row.
    """
    types = {one.type, other.type}
    return "timestamp" in types and not types <= {"timestamp", "timestamp_ntz", "date"}


def _kind(column: Column) -> str:
    return "text" if column.texts else kind_of(column)


def _equalities(
    equal: Sequence[Equal], mine: Mapping[int, str], theirs: Mapping[int, str]
) -> list[str]:
    """Return conditions that equate columns of two relations, if their types need no cast."""
    found = []
    for pair in equal:
        for one, other in ((pair.left, pair.right), (pair.right, pair.left)):
            if one.id in mine and other.id in theirs and _is_harmless(pair):
                operator = "<=>" if pair.is_null_safe else "="
                found.append(f"{mine[one.id]} {operator} {theirs[other.id]}")
                break
    return found


def _compared(equal: Sequence[Equal], mine: Traced, theirs: Traced) -> list[str]:
    """Return conditions that join two relations: equal columns, or else what compares them.

    A row of one meets them with each row of the other that it is joined with. Without equal
    columns, a lead compares each changed row with all rows, as the query does with every row.
    """
    conditions = _equalities(equal, mine.names, theirs.names)
    if conditions:
        return conditions
    names = {**mine.names, **theirs.names}
    texts = (_named(text, names) for text in dict.fromkeys((*mine.links, *theirs.links)))
    return [text for text in texts if text is not None]


def _chosen_of_join(
    equal: Sequence[Equal], mine: Traced, theirs: Traced
) -> tuple[frozenset[str], ...]:
    """Return the columns that keep choices apart after a join.

    A row that depends on a choice, joined or kept alone, meets the equalities with the rows among
    which the run chooses: the column of the other side has their value.
    """
    chosen = dict.fromkeys((*mine.chosen, *theirs.chosen))
    if not chosen:
        return ()
    pairs = [
        (one[first.id], other[second.id])
        for pair in equal
        if _is_harmless(pair)
        for first, second in ((pair.left, pair.right), (pair.right, pair.left))
        for one, other in ((mine.names, theirs.names),)
        if first.id in one and second.id in other
    ]
    found = []
    for texts in chosen:
        equated = {b for a, b in pairs if a in texts} | {a for a, b in pairs if b in texts}
        found.append(texts | equated)
    return tuple(found)


def _named(text: str, names: Mapping[int, str]) -> str | None:
    """Return a rendered expression over the parts; None if one of its columns is not traced."""
    if any(int(found[1]) not in names for found in _COLUMN.finditer(text)):
        return None
    return _COLUMN.sub(lambda found: names[int(found[1])], text)


def _select(selected: str, fact: Traced, lead: Lead | None = None) -> str:
    """Return the query of all rows, or of those of a lead, which joins the changed rows first."""
    parts = list(fact.parts)
    conditions = fact.conditions
    if lead is not None:
        parts = [*parts, *lead.parts]
        conditions = (*conditions, *lead.conditions)
        parts.sort(key=lambda part: part[0] != lead.number)
        parts = [(n, lead.content if n == lead.number else content) for n, content in parts]
    sources = ", ".join(
        f"{content} as \x01{number}\x01"
        for number, content in parts
        if not content.startswith(_VIEW)
    )
    # Spark applies them to all relations of the list
    sources += "".join(f" {content}" for _, content in parts if content.startswith(_VIEW))
    where = f" where {' and '.join(dict.fromkeys(conditions))}" if conditions else ""
    return f"select {selected}{f' from {sources}' if sources else ''}{where}"


def _written(text: str) -> str:
    """Return the text with aliases numbered in order of appearance."""
    numbers: dict[str, int] = {}
    return _PART.sub(lambda found: f"hw_{numbers.setdefault(found[1], len(numbers) + 1)}", text)
