"""The difference between two queries, if a change of SQL needs no rebuild.

A table is the result of the old query. The proof shows that each row of the new result is computed
from one row of the old. Columns are added, removed or reordered; a condition over the columns
removes rows. If the old query removed rows that the new one returns, their own columns must
identify them. Without a proof, the run rebuilds the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headwaters.analysis import blocks, dialect
from headwaters.analysis.blocks import Block
from headwaters.analysis.equivalence import NotUnderstood, Structure, structure
from headwaters.analysis.expressions import LEAVES, PLAIN_NODES
from headwaters.analysis.moments import moment_of
from headwaters.analysis.refusal import Refused
from headwaters.platform import spark_version

# Expressions that may differ between two blocks; everything else must be equal.
_ROW_WISE = (*PLAIN_NODES, exp.In, exp.Cast, exp.TryCast, exp.Anonymous, *LEAVES)


class Rebuild(Exception):
    """The reason why a table has to be rebuilt."""


@dataclass(frozen=True)
class QueryChange:
    """The difference between the results of two queries; empty if they are equal.

    - `columns`: the columns of the new result, in order, each with its expression over the old
      columns; empty if both results have the same columns.
    - `kept`: conditions over the old columns; the new result lacks rows that fail one.
    - `dropped`: conditions over the new columns that the new query no longer requires; the old
      result lacked rows that fail one.
    - `computed`: the columns that are new or have new values, each with its source columns.
    - `added`: the columns that only the new result has.
    - `removed`: the columns that only the old result has.
    """

    columns: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    computed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class AllowedChanges:
    """The changes that the maintenance of a table allows.

    - `fixed`: columns that settings name and that must not change.
    - `only`: the columns that conditions may use; None for all.
    - `may_compute`: new columns may be computed from the old ones.
    - `appended_only`: new columns may only follow the old ones.
    - `altered`: columns whose values in the table differ from those of the query.
    """

    fixed: Iterable[str] = ()
    only: Iterable[str] | None = None
    may_compute: bool = True
    appended_only: bool = False
    altered: Iterable[str] = ()


def change_of(
    before: str, after: str, inputs: Mapping[str, Sequence[str]], limits: AllowedChanges
) -> QueryChange:
    """Return the difference between two queries. Raises Rebuild.

    The queries refer to `inputs` by name; `inputs` maps the names to columns.
    """
    try:
        old, new = (blocks.read(sql, inputs) for sql in (before, after))
        return _BlockComparison(old, new, limits).change()
    except (Refused, NotUnderstood, RecursionError):
        raise Rebuild("the table cannot follow it") from None


class _BlockComparison:
    """A comparison of the outermost blocks of two queries."""

    def __init__(self, old: Block, new: Block, limits: AllowedChanges) -> None:
        self._old = old
        self._new = new
        self._limits = limits
        self._before = _by_structure(old)
        self._after = _by_structure(new)
        self._altered = {name.lower() for name in limits.altered}
        self._only = None if limits.only is None else {name.lower() for name in limits.only}

    def change(self) -> QueryChange:
        old, new = self._old, self._new
        if old.rest != new.rest:
            raise Rebuild("what it reads, joins or groups by is not the same")
        kept, dropped = self._conditions()
        columns = self._columns()
        names = {name.lower(): name for name in old.columns}
        later = {name.lower() for name, _ in columns}
        made = {
            name: tuple(dict.fromkeys(column.name for column in node.find_all(exp.Column)))
            for name, node in columns
            if not _is_itself(name, node)
        }
        removed = tuple(name for lower, name in names.items() if lower not in later)
        is_same = [name for name, _ in columns] == list(names.values()) and not made
        return QueryChange(
            () if is_same else tuple((name, _as_text(node)) for name, node in columns),
            tuple(map(_as_text, kept)),
            tuple(map(_as_text, dropped)),
            made,
            tuple(name for name in made if name.lower() not in names),
            removed,
        )

    def _conditions(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Return the conditions that only the new query has, and those that only the old one has.

        A condition that moved to another clause is in both lists. Each copy is over the columns of
        its result; if they are equal over the inputs of the queries, the same rows meet both.
        """
        kept: dict[Structure, exp.Expr] = {}
        dropped: dict[Structure, exp.Expr] = {}
        for clause in ("where", "having", "after"):
            lost, gained = _difference(getattr(self._old, clause), getattr(self._new, clause))
            for node in gained:
                over = self._condition(node, self._old, clause, self._before)
                kept.setdefault(structure(node), over)
            for node in lost:
                over = self._condition(node, self._new, clause, self._after)
                dropped.setdefault(structure(node), over)
        return (
            [over for found, over in kept.items() if found not in dropped],
            [over for found, over in dropped.items() if found not in kept],
        )

    def _columns(self) -> list[tuple[str, exp.Expr]]:
        """Return the new columns as expressions over the old ones."""
        found: list[tuple[str, exp.Expr]] = []
        for name, node in self._new.columns.items():
            try:
                found.append((name, self._over(node, self._before)))
            except _NotCovered as uncovered:
                raise Rebuild(f"column {name} is computed from {uncovered}") from None
        same = {name.lower() for name, node in found if _is_itself(name, node)}
        for name in self._limits.fixed:
            if name.lower() not in same:
                raise Rebuild(f"column {name}, which its settings name, is not the same")
        before = list(self._old.columns)
        is_same = [name for name, _ in found] == before and len(same) == len(before)
        if not is_same and not self._limits.may_compute:
            raise Rebuild("its columns are not the same")
        first = found[: len(before)]
        if self._limits.appended_only and (
            [name for name, _ in first] != before
            or any(not _is_itself(name, node) for name, node in first)
        ):
            raise Rebuild("columns are not only added after the others")
        if self._old.is_distinct and not is_same:
            raise Rebuild("DISTINCT depends on its columns")
        return found

    def _condition(
        self, node: exp.Expr, block: Block, clause: str, names: Mapping[Structure, str]
    ) -> exp.Expr:
        """Return a conjunct over columns of the result that has the same value for each row."""
        if clause != "after" and block.has_windows:
            raise Rebuild(f"windows are over the rows of which {_shown(node)} is required")
        if clause == "where" and block.is_grouped:
            names = {found: name for found, name in names.items() if found in block.groups}
        try:
            over = self._over(node, names)
        except _NotCovered as uncovered:
            lacks = f"is over {uncovered}, which the table does not store"
            raise Rebuild(f"the condition {_shown(node)} {lacks}") from None
        used = {column.name.lower() for column in over.find_all(exp.Column)}
        if not used:
            raise Rebuild(f"the condition {_shown(node)} is over no column of the table")
        if self._only is not None and not used <= self._only:
            raise Rebuild(f"the condition {_shown(node)} is not over its unique_key")
        return over

    def _over(self, node: exp.Expr, names: Mapping[Structure, str]) -> exp.Expr:
        """Return the expression over columns of a result that have these names."""
        name = names.get(structure(node))
        if name is not None and node.find(exp.Column, exp.Anonymous):
            return exp.column(exp.to_identifier(name, quoted=True))
        if isinstance(node, exp.Column) or not isinstance(node, _ROW_WISE) or _is_changing(node):
            raise _NotCovered(node)
        made = node.copy()
        for child, copied in zip(
            list(node.iter_expressions()), list(made.iter_expressions()), strict=True
        ):
            if not isinstance(child, LEAVES):
                copied.replace(self._over(child, names))
        for column in made.find_all(exp.Column):
            if column.name.lower() in self._altered:
                raise _NotCovered(column)
        return made


class _NotCovered(Exception):
    """A part of an expression that no column of the result covers."""

    def __init__(self, node: exp.Expr) -> None:
        super().__init__(_shown(node))


def _by_structure(block: Block) -> dict[Structure, str]:
    """Return the names of a block's columns by structure; of two equal columns, the first."""
    found: dict[Structure, str] = {}
    for name, node in block.columns.items():
        found.setdefault(structure(node), name)
    return found


def _difference(
    old: Sequence[exp.Expr], new: Sequence[exp.Expr]
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the conjuncts that only one of two conditions has."""
    before = {structure(node) for node in old}
    after = {structure(node) for node in new}
    return (
        [node for node in old if structure(node) not in after],
        [node for node in new if structure(node) not in before],
    )


def _is_itself(name: str, node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == name


def _is_changing(node: exp.Expr) -> bool:
    """Return true if the node is not a known function of its row, or depends on the moment."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        is_of_row = name in spark_version.ROW_FUNCTIONS
        return not is_of_row or spark_version.is_moment(name, node.expressions)
    texts = map(dialect.text_of, dialect.within(node))
    return any(text is not None and moment_of(text) for text in texts)


def _shown(node: exp.Expr) -> str:
    """Return the expression as a user would write it, without the internal table names."""
    return re.sub(r"\bhw_table_\w+\.", "", dialect.text(node))


def _as_text(node: exp.Expr) -> str:
    """Return the expression as SQL that parses to the same expression."""
    text = dialect.whole_text(node)
    read = dialect.parsed(f"select {text}").selects[0]
    if structure(read) != structure(node):
        raise Refused("HW_NOT_UNDERSTOOD", text, None, "it cannot be written")
    return text


def described(change: QueryChange) -> str:
    """Describe the change in words, for the output line of a run."""
    return "; ".join(_pieces(change))


def _pieces(change: QueryChange) -> Iterator[str]:
    for name, sources in change.computed.items():
        begin = "added column" if name in change.added else "column"
        yield f"{begin} {name}" + (f" from {', '.join(sources)}" if sources else "")
    if change.removed:
        yield f"removed {_number('column', change.removed)} {', '.join(change.removed)}"
    if change.columns and not change.computed and not change.removed:
        yield "columns in another order"
    if change.kept:
        yield f"added {_number('condition', change.kept)} {_joined(change.kept)}"
    if change.dropped:
        yield f"removed {_number('condition', change.dropped)} {_joined(change.dropped)}"


def _number(noun: str, things: Sequence[str]) -> str:
    return noun if len(things) == 1 else f"{noun}s"


def _joined(conditions: Iterable[str]) -> str:
    return " and ".join(conditions).replace("`", "")
