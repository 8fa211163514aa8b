"""A reader of queries, from their tables up, that consults a rule book at each operator.

It refuses every clause that this module does not name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import is_exact
from headwaters.analysis.from_clause import FromClause
from headwaters.analysis.relations import (
    Column,
    F,
    Operator,
    Relation,
    new_id,
    ruled,
)
from headwaters.analysis.scopes import (
    GROUPING_SETS,
    SETS_BEHIND,
    Names,
    Scope,
    aggregates,
    is_grouped,
    is_several_rows,
    parts_of_sets,
    sets_of,
)
from headwaters.analysis.unique_keys import of_either, unique_of_all, unique_of_left
from headwaters.platform import spark_version

_SELECT = {
    *("with_", "expressions", "distinct", "from_", "joins", "laterals", "where", "group"),
    *("having", "qualify", "windows", "order", "sort", "cluster", "distribute"),
    *("limit", "offset", "hint"),
}
# The clauses of a query over all rows of a table that meet a condition.
_OF_ONE_TABLE = {"expressions", "from_", "where"}
_OPERATORS: dict[tuple[type[exp.Expr], bool], Operator] = {
    (exp.Union, True): "union",
    (exp.Union, False): "union all",
    (exp.Intersect, True): "intersect",
    (exp.Intersect, False): "intersect all",
    (exp.Except, True): "except",
    (exp.Except, False): "except all",
}


class Reader(FromClause[F]):
    """A reader of queries over the inputs with a rule book."""

    def read(self, tree: exp.Query) -> Relation[F]:
        """Return the relation of the query. Raises Refused."""
        relation = self._query(tree, Names({}), None)
        self._compared(relation.columns, tree)
        return relation

    def _query(self, node: exp.Expr, names: Names, outer: Scope[F] | None) -> Relation[F]:
        names = self._with(node, names)
        if isinstance(node, exp.Select):
            return self._select(node, names, outer)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, names, outer)
        if isinstance(node, exp.Subquery):
            self._only(node, {"with_", "this", "alias", "joins"})
            if node.args.get("joins") or isinstance(node.this, exp.Table):
                return self._from([node], names, outer).relation
            return self._query(node.this, names, outer)
        if isinstance(node, exp.Values):
            return self._values(node)
        raise self._unknown(node)

    def _select(self, node: exp.Select, names: Names, outer: Scope[F] | None) -> Relation[F]:
        self._only(node, _SELECT)
        sources = [node.args["from_"].this] if node.args.get("from_") else []
        where = node.args.get("where")
        scope = self._from(
            [*sources, *node.args.get("joins", [])], names, outer, where.this if where else None
        )
        for lateral in node.args.get("laterals") or []:
            scope = self._lateral(scope, lateral, names, "inner")
        for window in node.args.get("windows") or []:
            scope.windows[window.name.lower()] = window
        if where:
            self._filter(scope, where.this)
        columns = self._grouped(scope, node) if is_grouped(node) else None
        if columns is None:
            columns = self._projected(scope, node.expressions)
        if node.args.get("qualify"):
            self._qualified(scope, node.args["qualify"].this)
        relation = ruled(scope.relation.kept(columns), self._rules.projected, node)
        if node.args.get("distinct"):
            self._only(node.args["distinct"], {"expressions"})
            self._compared(relation.columns, node)
            relation = ruled(relation, self._rules.distinct, node)
            relation = replace(relation, unique=(*relation.unique, relation.ids))
        return self._limited(relation, scope, node)

    def _limited(self, relation: Relation[F], scope: Scope[F], node: exp.Expr) -> Relation[F]:
        """Apply LIMIT and OFFSET; `scope` resolves the names in the order."""
        clause = node.args.get("limit") or node.args.get("offset")
        if clause is None or (clause.expression.name.lower() == "all"):
            return relation
        relation = ruled(relation, self._rules.limited, clause)
        order = node.args.get("order")
        values = [self._value(found.this, scope) for found in order.expressions] if order else []
        ids = frozenset[int]().union(*(value.whole for value in values))
        self._total("limit", scope.relation, (*scope.relation.unique, *relation.unique), ids, node)
        return relation

    def _set_operation(
        self, node: exp.SetOperation, names: Names, outer: Scope[F] | None
    ) -> Relation[F]:
        self._only(
            node,
            {"with_", "this", "expression", "distinct", "order", "limit", "offset", "sort"},
        )
        operator = _OPERATORS.get((type(node), bool(node.args.get("distinct"))))
        if operator is None:
            raise self._unknown(node)
        mixed = (exp.Union, exp.Except) if isinstance(node, exp.Intersect) else (exp.Intersect,)
        if isinstance(node.this, mixed) or isinstance(node.expression, mixed):
            raise dialect.refused(
                node, "HW_NOT_UNDERSTOOD", "set operations are mixed", remedy="Put brackets"
            )
        left = self._query(node.this, names, outer)
        right = self._query(node.expression, names, outer)
        if len(left.columns) != len(right.columns):
            raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "the branches differ in their columns")
        pairs = list(zip(left.columns, right.columns, strict=True))
        columns = tuple(itertools.starmap(of_either, pairs))
        if operator != "union all":
            self._compared(columns, node)
        fact = None
        if left.fact is not None or right.fact is not None:
            fact = self._rules.united(operator, left, right, columns, node)
        if operator == "union all":
            unique = tuple(unique_of_all(left, right, columns))
        elif operator in ("intersect all", "except all"):
            unique = tuple(unique_of_left(left, columns))
        else:
            unique = (frozenset(column.id for column in columns),)
        relation = Relation(columns, fact, unique)
        return self._limited(relation, Scope(relation, [], columns), node)

    def _grouped(self, scope: Scope[F], node: exp.Select) -> tuple[Column, ...]:
        group = node.args.get("group")
        keys: list[tuple[exp.Expr, Column]] | None = None
        if group is not None:
            self._only(group, {"expressions", "all", *SETS_BEHIND})
            keys = [
                (expression, self._as_column(expression, scope))
                for expression in self._group_expressions(group, node, scope)
            ]
        columns = [column for _, column in keys] if keys is not None else None
        optional = self._optional(group, keys or [], node, scope) if group is not None else set()
        every = [column for column in columns or [] if column.id not in optional]
        if scope.relation.fact is not None:
            clause = group if group is not None else node
            shared = None if columns is None else every
            most = self._extreme(scope, node) if group is None else None
            fact = self._rules.grouped(scope.relation, shared, clause) if most is None else most
        else:
            fact = None
        if keys is not None and optional:
            # NULL in the rows of another set, so they do not identify its groups
            nulls = {id: new_id() for id in optional}
            keys = [
                (expression, column._replace(id=nulls[column.id], origin=None, is_filled=False))
                if column.id in optional
                else (expression, column)
                for expression, column in keys
            ]
            columns = [column for _, column in keys]
        ids = frozenset(column.id for column in columns or [])
        # the same set twice makes each group twice
        of_groups = () if group is not None and sets_of(group) else (ids,)
        scope.rows_unique, scope.relation = (
            scope.relation.unique,
            replace(scope.relation, fact=fact, unique=of_groups),
        )
        groups = {self._signature(expression, scope): column for expression, column in keys or []}
        scope.groups, scope.may_aggregate = groups, True
        projected = self._projected(scope, node.expressions)
        having = node.args.get("having")
        if having is not None:
            self._value(having.this, scope)
        everything = (*(columns or []), *projected)
        unique = () if scope.is_multiplied else of_groups
        scope.relation = Relation(everything, scope.relation.fact, unique)
        if having is not None:
            scope.relation = ruled(scope.relation, self._rules.having, having)
        return projected

    def _extreme(self, scope: Scope[F], node: exp.Select) -> F | None:
        """Return the fact of `select max(…) from …` or `min`, if a rule takes it."""
        call = node.expressions[0].unalias()
        name = dialect.name_of(call)
        is_alone = not any(value and part not in _OF_ONE_TABLE for part, value in node.args.items())
        if self._row_rules is None or name not in ("max", "min") or not is_alone:
            return None
        source = node.args["from_"].this if node.args.get("from_") else None
        if not isinstance(source, exp.Table) or source.args.keys() - {"this", "db", "alias"}:
            return None  # UNPIVOT drops rows
        if len(node.expressions) != 1 or len(call.expressions) != 1:
            return None
        (argument,) = call.expressions
        text = self._rendered(argument, scope)
        if text is None or not is_exact(self._value(argument, scope).type):
            return None
        return self._row_rules.extreme(scope.relation, text, name == "max")

    def _optional(
        self,
        group: exp.Group,
        keys: Sequence[tuple[exp.Expr, Column]],
        node: exp.Select,
        scope: Scope[F],
    ) -> set[int]:
        """Return the columns that some grouping set lacks."""
        sets = sets_of(group)
        if not sets:
            return set()
        if self._is_sum:
            raise self._unknown(sets[0])
        is_after = any(group.args.get(name) for name in SETS_BEHIND)
        alone = [] if is_after else [part for part in group.expressions if part not in sets]

        def signatures(parts: Iterable[exp.Expr]) -> set[tuple[type, str]]:
            return {self._signature(part, scope) for part in self._resolved(parts, node, scope)}

        plain = signatures(alone)
        for found in sets:
            if isinstance(found, exp.GroupingSets) and found.expressions:
                # a nested CUBE or ROLLUP has a set without columns
                every = [
                    signatures([] if isinstance(member, GROUPING_SETS) else parts_of_sets(member))
                    for member in found.expressions
                ]
                plain |= set.intersection(*every)
        return {
            column.id
            for expression, column in keys
            if self._signature(expression, scope) not in plain
        }

    def _group_expressions(
        self, group: exp.Group, node: exp.Select, scope: Scope[F]
    ) -> Iterator[exp.Expr]:
        selected = [found.unalias() for found in node.expressions]
        if group.args.get("all"):
            for found in selected:
                if isinstance(found, exp.Star) or (
                    isinstance(found, exp.Column) and isinstance(found.this, exp.Star)
                ):
                    raise self._unknown(group)
                if not any(aggregates(found)):
                    yield found
            return
        sets = sets_of(group)
        parts = [part for part in group.expressions if not isinstance(part, GROUPING_SETS)]
        parts += [part for found in sets for part in parts_of_sets(found)]
        yield from self._resolved(dict.fromkeys(parts) if sets else parts, node, scope)

    def _resolved(
        self, expressions: Iterable[exp.Expr], node: exp.Select, scope: Scope[F]
    ) -> Iterator[exp.Expr]:
        """Yield GROUP BY expressions, with those that numbers and aliases stand for."""
        selected = [found.unalias() for found in node.expressions]
        aliases = {
            found.alias.lower(): found.unalias() for found in node.expressions if found.alias
        }
        for found in expressions:
            if isinstance(found, exp.Literal) and not found.is_string:
                place = int(found.name) if found.name.isdigit() else 0
                if not 0 < place <= len(selected) or any(one.is_star for one in selected[:place]):
                    raise self._unknown(found)
                yield selected[place - 1]
            elif (
                isinstance(found, exp.Column)
                and not found.table
                and self._find(found, scope, quiet=True) is None
                and found.name.lower() in aliases
            ):
                yield aliases[found.name.lower()]
            else:
                yield found

    def _as_column(self, node: exp.Expr, scope: Scope[F]) -> Column:
        """Return the column of a GROUP BY expression."""
        value = self._value(node, scope)
        self._plain(value, node, "a group by")
        return self._made(value, node, scope)

    def _projected(self, scope: Scope[F], expressions: Sequence[exp.Expr]) -> tuple[Column, ...]:
        columns: list[Column] = []
        if any(is_several_rows(found, scope.groups is not None) for found in expressions):
            # its position does not matter: windows are over the rows that it makes
            scope.relation = scope.relation.multiplied()
            scope.is_multiplied = True
        for expression in expressions:
            node = expression.unalias()
            if isinstance(expression, exp.Aliases):
                names = [name.name for name in expression.args["expressions"]]
                columns += self._generated(expression.this, scope, names)
            elif node.is_star and isinstance(node, (exp.Star, exp.Column)):
                columns += self._star(node, scope)
            elif dialect.name_of(node) in spark_version.GENERATORS:
                if not expression.alias:
                    raise dialect.refused(
                        node, "HW_NOT_UNDERSTOOD", "its columns have no names", remedy="Name them"
                    )
                columns += self._generated(node, scope, [expression.alias])
            else:
                value = self._value(node, scope, is_handed_on=True)
                alias = expression.alias
                columns.append(self._made(value, node, scope, alias or expression.name))
                if alias:
                    scope.aliases.setdefault(alias.lower(), (value, columns[-1]))
        return tuple(columns)

    def _star(self, node: exp.Expr, scope: Scope[F]) -> list[Column]:
        star = node if isinstance(node, exp.Star) else node.this
        self._only(star, {"except_"})
        columns: Sequence[Column] = scope.visible
        if isinstance(node, exp.Column):
            found = [cols for name, cols in scope.tables if name == node.table.lower()]
            if len(found) != 1 or node.args.get("db"):
                raise self._unknown(node)
            columns = found[0]
        if scope.is_open:
            raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "not all of its columns are known")
        left_out = {found.name.lower() for found in star.args.get("except_") or []}
        return [column for column in columns if column.name.lower() not in left_out]
