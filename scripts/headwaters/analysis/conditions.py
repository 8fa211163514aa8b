"""A reader of conditions: WHERE, QUALIFY, and the facts that a rule book learns from them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import decimal_of, type_of
from headwaters.analysis.expressions import Expressions
from headwaters.analysis.relations import (
    Column,
    F,
    Relation,
    RowRules,
    Rules,
    Weight,
    ruled,
)
from headwaters.analysis.safe_expressions import kind_of
from headwaters.analysis.scopes import (
    Scope,
    Value,
    column_of,
    conjuncts,
    implied,
    parts_of,
)


class Conditions(Expressions[F]):
    """A reader of expressions and of the conditions that rows meet."""

    def __init__(
        self, rules: Rules[F], allowed: Sequence[str], functions: Mapping[str, str] | None = None
    ) -> None:
        """Store the functions of `allow_nondeterministic`, and the bodies of SQL functions."""
        super().__init__(rules, allowed, functions)
        self._row_rules: RowRules[F] | None = rules if isinstance(rules, RowRules) else None

    def _filter(self, scope: Scope[F], condition: exp.Expr) -> None:
        equal = [pair for conjunct in implied(condition) if (pair := self._equal(conjunct, scope))]
        scope.relation = ruled(scope.relation, self._rules.filtered, equal, condition)
        fixed = frozenset(self._fixed(condition, scope))
        filled = frozenset(self._filled(condition, scope))
        known = [key for key in scope.relation.unique_if_filled if key <= filled]
        unique = tuple(key - fixed for key in (*scope.relation.unique, *known))
        scope.relation = replace(scope.relation, unique=unique)
        self._narrow(scope, condition)
        for conjunct in conjuncts(condition):
            if isinstance(conjunct, exp.EQ):
                for one, other in itertools.permutations((conjunct.this, conjunct.expression)):
                    if isinstance(one, exp.Subquery):
                        self._equated[id(one)] = one, other
        self._plain(self._value(condition, scope), condition, "a condition on")
        if scope.outer is not None and scope.relation.fact is not None:
            to_outer = [
                pair
                for conjunct in implied(condition)
                if (pair := self._equal_to_outer(conjunct, scope))
            ]
            ids = scope.outer.relation.ids
            links = self._links(condition, scope, ids, scope.relation.ids, scope.outer)
            inner = self._linked(scope.relation, links)
            fact = self._rules.correlated(scope.outer.relation, inner, to_outer, condition)
            scope.relation = replace(scope.relation, fact=fact)

    def _links(
        self,
        condition: exp.Expr | None,
        scope: Scope[F],
        left: frozenset[int],
        right: frozenset[int],
        outer: Scope[F] | None = None,
    ) -> list[str]:
        """Return the conditions that compare columns of both sides, other than equal columns.

        Some are weaker than those of the query: see `implied_text`.
        An inequality leaves almost every row, so a replacement is cheaper than its leads.
        """
        if self._row_rules is None or condition is None:
            return []
        texts = []
        for conjunct in conjuncts(condition):
            pair = self._equal(conjunct, scope)
            pair = pair or (self._equal_to_outer(conjunct, scope) if outer is not None else None)
            if pair is not None and kind_of(pair.left) == kind_of(pair.right):
                continue
            if isinstance(conjunct, (exp.NEQ, exp.Not, exp.NullSafeNEQ)):
                continue
            text = self._rendered(conjunct, scope, outer, is_implied=True)
            ids = {int(found) for found in re.findall("\x02(\\d+)\x02", text or "")}
            if text is not None and ids & left and ids & right:
                texts.append(text)
        return texts

    def _linked(self, relation: Relation[F], texts: Sequence[str]) -> Relation[F]:
        if self._row_rules is None or not texts:
            return relation
        return ruled(relation, self._row_rules.linked, texts)

    def _qualified(self, scope: Scope[F], condition: exp.Expr) -> None:
        """Apply QUALIFY: a condition over the rows with their windows."""
        for column in dialect.found(condition, exp.Column):
            alias = scope.aliases.get(column.name.lower()) if not column.table else None
            known = scope.named(scope.visible, column.name.lower()) if alias is not None else []
            if alias is not None and any(found.id != alias[1].id for found in known):
                reason = f"{column.name} is a column and another column's alias"
                raise dialect.refused(column, "HW_NOT_UNDERSTOOD", reason, "Rename the alias")
        # the windows read the rows before the condition
        self._value(condition, scope)
        places: dict[int, int] = {}
        for conjunct in conjuncts(condition):
            if isinstance(conjunct, exp.EQ) and isinstance(conjunct.this, exp.Window):
                value = self._value(conjunct.this, scope)
                is_one = isinstance(conjunct.expression, exp.Literal)
                if value.column is not None and is_one and not conjunct.expression.is_string:
                    places[id(conjunct)] = value.column.id
        self._filter(scope, condition)
        fixed = frozenset(places.values())
        unique = tuple(key - fixed for key in scope.relation.unique)
        scope.relation = replace(scope.relation, unique=unique)

    def _narrow(self, scope: Scope[F], condition: exp.Expr) -> None:
        """Report the conditions that every row meets to the rule book."""
        if self._row_rules is not None and scope.relation.fact is not None:
            found = [self._rendered(conjunct, scope) for conjunct in conjuncts(condition)]
            texts = [text for text in found if text is not None]
            is_whole = len(texts) == len(found)
            scope.relation = ruled(scope.relation, self._row_rules.narrowed, texts, is_whole)

    def _made(
        self, value: Value, node: exp.Expr, scope: Scope[F], name: str | None = None
    ) -> Column:
        """Return the column of an expression, or a new one that holds it."""
        column = column_of(value, name)
        if value.column is None and self._row_rules is not None:
            text = self._rendered(node, scope)
            if text is not None:
                computed = self._row_rules.computed
                scope.relation = ruled(scope.relation, computed, column.id, text)
        return column

    def _looked_for(self, node: exp.Expr, scope: Scope[F]) -> Column | None:
        value = self._value(node, scope)
        if value.column is not None or self._row_rules is None:
            return value.column
        return self._made(value, node, scope)

    def _fixed(self, condition: exp.Expr, scope: Scope[F]) -> Iterator[int]:
        """Yield the columns that are equated with a literal and have one value in every row."""
        for conjunct in conjuncts(condition):
            if not isinstance(conjunct, exp.EQ):
                continue
            for one, other in itertools.permutations((conjunct.this, conjunct.expression)):
                if isinstance(one, exp.Column) and isinstance(other, exp.Literal):
                    found = self._find_in(parts_of(one), scope, one)
                    is_text = found is not None and found[0].type == "string"
                    # 1e0 is a floating point number, which may equal several large numbers
                    is_exact = other.is_string or type_of(other, ()) is not None
                    is_number = found is not None and decimal_of(found[0].type) is not None
                    is_same = is_exact and (is_text if other.is_string else is_number)
                    if found and found[1] and is_same:
                        yield found[0].id

    def _filled(self, condition: exp.Expr, scope: Scope[F]) -> Iterator[int]:
        """Yield the columns that are not NULL in any row: `is not null`, or equal to a value."""
        for conjunct in conjuncts(condition):
            sides: Sequence[exp.Expr] = ()
            if isinstance(conjunct, exp.EQ):
                sides = (conjunct.this, conjunct.expression)
            elif isinstance(conjunct, exp.Not) and isinstance(conjunct.this.unnest(), exp.Is):
                test = conjunct.this.unnest()
                sides = (test.this,) if isinstance(test.expression, exp.Null) else ()
            for side in sides:
                column = side.unnest()
                if isinstance(column, exp.Column) and not column.is_star:
                    found = self._find_in(parts_of(column), scope, column)
                    if found is not None and found[1]:
                        yield found[0].id

    def _plain(self, value: Value, node: exp.Expr, what: str) -> None:
        """Refuse `_weight` if it decides which rows exist."""
        if value.weight is not Weight.PLAIN:
            reason = f"{what} _weight, which deleted rows do not have alike"
            raise dialect.refused(node, "HW_NOT_A_SUM", reason)
