"""A comparison of two texts as queries, so that a change without effect rebuilds nothing.

Names of common table expressions, table aliases, the order of conjuncts, comments and formatting do
not matter. Every construct that this module does not understand counts as a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.scopes import conjuncts, depends_on_comma

# Table aliases in lower case, and the names that replace them.
_Aliases = Mapping[str, str]
# An expression as a tree of names and texts, without redundant brackets.
Structure = tuple[Any, ...]
_JOIN = {"this", "side", "kind", "on", "using", "method", "hint"}


class NotUnderstood(Exception):
    """Syntax whose names may be more than aliases."""


def is_same(one: str, other: str, columns: Iterable[str]) -> bool:
    """Return true if two queries are equal apart from names without meaning.

    `columns` are those of the inputs: an alias with the name of a column is ambiguous.
    """
    try:
        return _normal(one, columns) == _normal(other, columns)
    except (Refused, NotUnderstood, RecursionError):
        return False


def _normal(sql: str, columns: Iterable[str]) -> Structure:
    tree = dialect.parsed(sql)
    for node in tree.walk():
        node.pop_comments()
    taken = {name.lower() for name in columns}
    taken |= {found.alias.lower() for found in tree.find_all(exp.Alias)}
    for found in tree.find_all(exp.Aliases, exp.Lambda, exp.TableAlias):
        names = found.args.get("expressions") or found.args.get("columns") or []
        taken |= {name.name.lower() for name in names}
    return structure(Normal(taken).query(tree, {}, {}, 0))


def structure(node: exp.Expr) -> Structure:
    """Return the structure of an expression."""
    while isinstance(node, exp.Paren):
        node = node.this
    # only a typed literal, such as date'2026-01-01', is a Cast; treat it like `cast`
    parts: list[Any] = ["TryCast" if type(node) is exp.Cast else type(node).__name__]
    for name, value in sorted(node.args.items()):
        values = value if isinstance(value, list) else [value]
        if any(found not in (None, False) for found in values):
            parts.append(
                (
                    name,
                    *(
                        structure(found) if isinstance(found, exp.Expr) else str(found)
                        for found in values
                    ),
                )
            )
    return tuple(parts)


class Normal:
    """A rewriter of queries; `taken` are column names that aliases must not have."""

    def __init__(self, taken: set[str]) -> None:
        """Store the names `taken`, in lower case."""
        self._taken = taken

    def query(self, node: exp.Expr, outer: _Aliases, queries: _Aliases, depth: int) -> exp.Expr:
        """Return a rewritten copy; `outer` are aliases around it, `queries` the names of WITH."""
        made = node.copy()
        clause = made.args.get("with_")
        if clause is not None:
            if clause.args.get("recursive"):
                raise NotUnderstood
            for number, query in enumerate(clause.expressions):
                if set(query.args) - {"this", "alias"} and query.args.get("materialized"):
                    raise NotUnderstood
                query.set("this", self.query(query.this, {}, queries, depth + 1))
                name = f"hw_query_{depth}_{number}"
                queries = {**queries, self._alias(query.alias): name}
                query.args["alias"].set("this", exp.to_identifier(name))
        if isinstance(made, exp.SetOperation):
            for side in ("this", "expression"):
                made.set(side, self.query(made.args[side], outer, queries, depth + 1))
            for name, value in made.args.items():
                if value and name not in ("with_", "this", "expression", "distinct"):
                    self._rename(made, name, outer, queries, depth)
            return made
        if isinstance(made, exp.Subquery):
            if any(value for name, value in made.args.items() if name not in ("this", "with_")):
                raise NotUnderstood
            made.set("this", self.query(made.this, outer, queries, depth))
            return made
        if not isinstance(made, exp.Select):
            raise NotUnderstood
        return self._select(made, outer, queries, depth)

    def _select(self, made: exp.Select, outer: _Aliases, queries: _Aliases, depth: int) -> exp.Expr:
        for place, found in enumerate(made.expressions):
            # its text is its name
            if not isinstance(found, (exp.Alias, exp.Aliases, exp.Column, exp.Star)):
                alias = exp.to_identifier(dialect.whole_text(found), quoted=True)
                made.expressions[place].replace(exp.Alias(this=found.copy(), alias=alias))
        own: dict[str, str] = {}
        clause = made.args.get("from_")
        joins = made.args.get("joins") or []
        if any(depends_on_comma(join, joins[:place]) for place, join in enumerate(joins)):
            raise NotUnderstood
        for number, holder in enumerate([*([clause] if clause else []), *joins]):
            if isinstance(holder, exp.Join) and any(
                value for name, value in holder.args.items() if name not in _JOIN
            ):
                raise NotUnderstood
            self._source(holder, f"hw_table_{depth}_{number}", own, {**outer}, queries, depth)
        aliases = {**outer, **own}
        for join in joins:
            if join.args.get("on") is not None:
                self._rename(join, "on", aliases, queries, depth)
                join.set("on", _sorted(join.args["on"]))
        for name, value in made.args.items():
            if value and name not in ("with_", "from_", "joins"):
                self._rename(made, name, aliases, queries, depth)
        if made.args.get("where") is not None:
            made.args["where"].set("this", _sorted(made.args["where"].this))
        return made

    def _source(
        self,
        holder: exp.Expr,
        name: str,
        own: dict[str, str],
        outer: _Aliases,
        queries: _Aliases,
        depth: int,
    ) -> None:
        """Rewrite the relation of a FROM clause or a join, and call it `name`."""
        source = holder.this
        if any(source.args.get(part) for part in ("joins", "pivots", "sample", "laterals")):
            raise NotUnderstood
        alias = self._alias(source.alias_or_name)
        if alias in own:
            raise NotUnderstood
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            if not source.args.get("db") and source.name.lower() in queries:
                source.set("this", exp.to_identifier(queries[source.name.lower()]))
        elif isinstance(source, exp.Subquery) and isinstance(source.this, exp.Query):
            if source.args.get("with_"):
                raise NotUnderstood
            source.set("this", self.query(source.this, outer, queries, depth + 1))
        else:
            raise NotUnderstood
        own[alias] = name
        named = source.args.get("alias") or exp.TableAlias()
        named.set("this", exp.to_identifier(name))
        source.set("alias", named)

    def _alias(self, name: str) -> str:
        lower = name.lower()
        if not lower or lower in self._taken:
            raise NotUnderstood
        return lower

    def _rename(
        self, holder: exp.Expr, part: str, aliases: _Aliases, queries: _Aliases, depth: int
    ) -> None:
        """Rename the aliases in a clause and its subqueries."""
        value = holder.args[part]
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, exp.Expr):
                continue
            if isinstance(node, exp.Lateral):
                raise NotUnderstood
            for column in list(_columns(node)):
                first = column.parts[0]
                if len(column.parts) > 1 and first.name.lower() in aliases:
                    first.replace(exp.to_identifier(aliases[first.name.lower()]))
            for query in list(_queries(node)):
                query.replace(self.query(query, aliases, queries, depth + 1))


def _columns(node: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns of an expression, without those of its subqueries."""
    if isinstance(node, exp.Column):
        yield node
    if not isinstance(node, (exp.Select, exp.SetOperation)):
        for child in node.iter_expressions():
            yield from _columns(child)


def _queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost queries in an expression."""
    if isinstance(node, (exp.Select, exp.SetOperation)):
        yield node
        return
    for child in node.iter_expressions():
        yield from _queries(child)


def _sorted(condition: exp.Expr) -> exp.Expr:
    """Return the conjuncts in an order that does not depend on the text."""
    found = sorted(conjuncts(condition), key=dialect.whole_text)
    return exp.and_(*(part.copy() for part in found), copy=False)
