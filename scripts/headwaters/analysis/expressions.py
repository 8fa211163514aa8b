"""A reader of expressions: dependence on the row alone, and on `_weight`.

It refuses every kind of expression and every function that this module does not name.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from sqlglot import exp
from sqlglot.helper import ensure_list

from headwaters.analysis import dialect, value_bounds
from headwaters.analysis.exact_types import (
    aggregate_type,
    is_collated,
    is_exact,
    is_exact_cast,
    is_odd_cast,
    type_of,
    type_of_cast,
)
from headwaters.analysis.moments import refuse_moments
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import (
    Column,
    Equal,
    F,
    How,
    Relation,
    Rules,
    Weight,
    new_column,
    ruled,
)
from headwaters.analysis.safe_expressions import implied_text, rendered
from headwaters.analysis.scopes import (
    Names,
    Scope,
    Value,
    arguments_of,
    around,
    inner_function,
    is_negated,
    null_safe,
    parts_of,
    plain_value,
    unwrapped,
    value_of,
    wrappers,
)
from headwaters.analysis.used_names import body_of
from headwaters.analysis.weights import is_filled, joined, weighed, weight_of
from headwaters.platform import spark_version

# Expressions whose result depends on their parts alone.
PLAIN_NODES = (
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.DPipe),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.BitwiseAnd),
    *(exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.Case, exp.If, exp.Paren, exp.Tuple),
    *(exp.Bracket, exp.Dot, exp.Interval, exp.IntervalSpan, exp.Extract, exp.Substring, exp.Trim),
    *(exp.Overlay, exp.StrPosition, exp.Transform, exp.Array, exp.Struct, exp.Slice),
    *(exp.JSONExtract, exp.AtTimeZone, exp.PropertyEQ, exp.Alias, exp.Aliases),
)
LEAVES = (
    *(exp.Literal, exp.Null, exp.Boolean, exp.DataType, exp.DataTypeParam, exp.Var, exp.Identifier),
    *(exp.HexString, exp.RawString, exp.National),
)
_MADE_OF_PARTS = (*PLAIN_NODES, exp.In)
# The most frequent of them, as exact classes.
_OPERATORS = {
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Case, exp.If, exp.Between, exp.Interval),
}
_NUMERIC = (
    *(exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.DECIMAL),
    *(exp.DType.DOUBLE, exp.DType.FLOAT),
)
# Nodes that identify what their parts identify; `struct()` is a function.
_STRUCTS = (exp.Alias, exp.PropertyEQ, exp.Struct, exp.Tuple)


class Expressions(ABC, Generic[F]):
    """A reader of expressions with a rule book; a subclass reads the queries in them."""

    def __init__(
        self, rules: Rules[F], allowed: Sequence[str], functions: Mapping[str, str] | None = None
    ) -> None:
        """Store the functions of `allow_nondeterministic`, and the bodies of SQL functions."""
        self._rules = rules
        self._allowed = [name.lower() for name in allowed]
        self._bodies = dict(functions or {})
        # the expressions whose order lets rows tie, once each and in order
        self.ties: dict[str, None] = {}
        # only weighted values need bounds
        self._is_sum = bool(getattr(rules, "sums", False))
        # subqueries that WHERE equates, with the other side; keeping the node reserves its id
        self._equated: dict[int, tuple[exp.Expr, exp.Expr]] = {}

    @abstractmethod
    def _plain(self, value: Value, node: exp.Expr, what: str) -> None:
        """Refuse `_weight` if it decides which rows exist."""

    @abstractmethod
    def _query(self, node: exp.Expr, names: Names, outer: Scope[F] | None) -> Relation[F]:
        """Return the relation of a query."""

    def _value(self, node: exp.Expr, scope: Scope[F], is_handed_on: bool = False) -> Value:
        """Return the value of an expression; `is_handed_on` allows any collation."""
        if scope.groups and (column := self._grouped_by(node, scope)) is not None:
            return value_of(column)
        kind = type(node)  # decides for most nodes
        if kind in _OPERATORS:
            return self._made_of_parts(node, scope)
        if kind is exp.Anonymous:
            return self._function(node, scope)
        if isinstance(node, exp.Column):
            return self._column(node, scope, is_handed_on)
        if kind is exp.Literal and not node.args["is_string"] and not self._is_sum:
            return plain_value(type_of(node, ()), True)
        if isinstance(node, LEAVES):
            if is_collated(dialect.text_of(node)):
                raise self._collated(node, "a collated type")  # as in from_json()
            most = value_bounds.of_sums(node, ()) if self._is_sum else None
            filled = is_filled(node, ())
            return Value(type=type_of(node, ()), is_filled=filled, texts=_texts(node), most=most)
        if isinstance(node, exp.Paren):
            return self._value(node.this, scope)
        if isinstance(node, (exp.Subquery, exp.Exists, exp.In, exp.Any, exp.All)) and (
            node.args.get("query") is not None
            or isinstance(node, (exp.Subquery, exp.Exists))
            or isinstance(node.this, exp.Query)
        ):
            return self._subquery(node, scope)
        if isinstance(node, exp.Window):
            return self._window(node, scope)
        if isinstance(node, (exp.Any, exp.All)) and isinstance(node.this, exp.Tuple):
            return self._made_of_parts(node.this, scope)  # patterns of LIKE
        if inner_function(node) is not None:
            return self._function(node, scope)
        if isinstance(node, (exp.Cast, exp.TryCast)):
            return self._cast(node, scope)
        if isinstance(node, exp.Lambda):
            return joined(self._value(node.this, scope))
        if isinstance(node, exp.Collate):
            return self._collate(node, node.this, node.expression, scope)
        if isinstance(node, exp.Star):
            if not _is_counted(node):
                self._compared(scope.visible, node)
            return joined(*(Value(column.weight) for column in scope.visible))
        if isinstance(node, _MADE_OF_PARTS):
            return self._made_of_parts(node, scope)
        raise self._unknown(node)

    def _made_of_parts(self, node: exp.Expr, scope: Scope[F]) -> Value:
        """Return the value of an expression whose parts are all read alike."""
        parts = [self._value(part, scope) for part in dialect.within(node)]
        return self._made_of(node, parts, scope)

    def _made_of(self, node: exp.Expr, parts: Sequence[Value], scope: Scope[F]) -> Value:
        """Return the value of an expression or a row function with these parts."""
        type = type_of(node, [part.type for part in parts])
        filled = is_filled(node, parts)
        whole = frozenset[int]()
        if isinstance(node, _STRUCTS) or dialect.name_of(node) in ("struct", "named_struct"):
            whole = whole.union(*(part.whole for part in parts))
        elif not self._is_sum and not weighed(parts):
            return plain_value(type, filled)
        is_summed = _is_summed(scope)
        weight = weight_of(node, parts, is_summed, type is not None)
        most = None
        if self._is_sum:
            most = value_bounds.of_sums(node, parts)
            if not is_summed or weight is Weight.PLAIN:
                most = value_bounds.of_row(most, type)
            for part in parts if weight is Weight.ODD else ():
                if part.weight is Weight.ODD:
                    self._stays(part, type, node, is_summed)
        return Value(weight, None, type, filled, whole, most=most)

    def _column(self, node: exp.Column, scope: Scope[F], is_handed_on: bool = False) -> Value:
        found = self._find(node, scope)
        assert found is not None
        column, is_whole = found
        if not (is_handed_on and is_whole):
            self._compared([column], node)
        if scope.groups is not None and column.id not in {c.id for c in scope.groups.values()}:
            inside = any(column.id == other.id for other in scope.relation.columns)
            alias = scope.aliases.get(node.name.lower()) if not node.table else None
            if alias is not None and alias[1].id == column.id:
                return alias[0]._replace(column=alias[1])
            if inside:
                raise dialect.refused(
                    node, "HW_NOT_UNDERSTOOD", "a column that is neither grouped by nor aggregated"
                )
        if not is_whole:
            return joined(Value(column.weight))
        return value_of(column)

    def _find(
        self, node: exp.Column, scope: Scope[F], quiet: bool = False
    ) -> tuple[Column, bool] | None:
        """Find the column of a dotted name; false with it if the name is a field of the column."""
        parts = parts_of(node)
        here: Scope[F] | None = scope
        while here is not None:
            found = self._find_in(parts, here, node)
            if found is not None:
                return found
            here = here.outer
        if len(parts) == 1 and parts[0] in spark_version.BARE_FUNCTIONS:
            self._changing(node, parts[0])
            return new_column(parts[0]), True
        if quiet:
            return None
        if any(s.is_open for s in around(scope)):
            return new_column(parts[-1]), True
        raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "there is no such column in its inputs")

    def _find_in(
        self, parts: Sequence[str], scope: Scope[F], node: exp.Column
    ) -> tuple[Column, bool] | None:
        if len(parts) > 1:
            tables = [columns for name, columns in scope.tables if name == parts[0]]
            if len(tables) > 1:
                raise dialect.refused(
                    node, "HW_NOT_UNDERSTOOD", f"{parts[0]} is the name of two tables"
                )
            for columns in tables:
                found = scope.named(columns, parts[1])
                if len(found) == 1:
                    return found[0], len(parts) == 2
                if found:
                    raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "the name of two columns")
        found = scope.named(scope.visible, parts[0])
        if len(found) > 1 and len({column.id for column in found}) > 1:
            raise dialect.refused(
                node, "HW_NOT_UNDERSTOOD", f"{parts[0]} is the name of two columns"
            )
        if found:
            return found[0], len(parts) == 1
        alias = scope.aliases.get(parts[0])
        return None if alias is None else (alias[1], len(parts) == 1)

    def _subquery(self, node: exp.Expr, scope: Scope[F]) -> Value:
        query = node.args.get("query") or node.this
        if isinstance(query, exp.Subquery) and not isinstance(node, exp.Subquery):
            query = query.this
        how: How = "scalar"
        tested: list[Column | None] = []
        value = Value()
        if isinstance(node, exp.Exists):
            how = "exists"
        elif isinstance(node, exp.In):
            how = "not in" if is_negated(node) else "in"
            value = self._value(node.this, scope)
            looked = node.this.unnest()
            parts = looked.expressions if isinstance(looked, exp.Tuple) else [looked]
            tested = [self._looked_for(part, scope) for part in parts]
        elif not isinstance(node, exp.Subquery):
            raise self._unknown(node)
        if isinstance(node, exp.Subquery):
            self._only(node, {"this"})
            query = node.this
            if id(node) in self._equated:
                tested = [self._looked_for(self._equated[id(node)][1], scope)]
        inner = self._query(query, scope.names, scope)
        if how != "exists":
            self._compared(inner.columns, query)
        if len(tested) != len(inner.columns):
            tested = []
        if inner.fact is not None:
            shown = node.parent if isinstance(node.parent, exp.Not) else node
            fact = self._rules.nested(scope.relation, inner, how, tested, shown)
            scope.relation = replace(scope.relation, fact=fact)
        weighted = value.weight is not Weight.PLAIN or any(
            column.weight is not Weight.PLAIN for column in inner.columns
        )
        return Value(Weight.OTHER if weighted else Weight.PLAIN)

    @abstractmethod
    def _looked_for(self, node: exp.Expr, scope: Scope[F]) -> Column | None:
        """Return the column of an expression that IN looks for; None if it has none."""

    def _window(self, node: exp.Window, scope: Scope[F]) -> Value:
        self._only(node, {"this", "partition_by", "order", "spec", "alias", "over"})
        named = node.args.get("alias")
        parts: list[exp.Expr] = [node]
        if named is not None:
            defined = scope.windows.get(named.name.lower())
            if defined is None:
                raise self._unknown(node)
            parts.append(defined)
        partition: list[Value] = []
        order: list[Value] = []
        spec = None
        for part in parts:
            partition += [
                self._value(found, scope) for found in part.args.get("partition_by") or []
            ]
            clause = part.args.get("order")
            order += [
                self._value(found.this, scope) for found in (clause.expressions if clause else [])
            ]
            spec = spec or part.args.get("spec")
        function = unwrapped(node.this)
        if not isinstance(function, exp.Anonymous):
            raise self._unknown(node)
        name = function.name.lower()
        if name not in spark_version.WINDOW_FUNCTIONS:
            raise self._unknown(node)
        arguments = [self._value(found, scope) for found in function.expressions]
        columns = [value.column for value in partition if value.column is not None]
        scope.relation = ruled(scope.relation, self._rules.windowed, columns, node)
        by_place = spec is not None and str(spec.args.get("kind") or "").upper() == "ROWS"
        ordered = spark_version.ORDERED_WINDOW_FUNCTIONS | spark_version.ORDERED_AGGREGATES
        if by_place or (name in ordered and not _is_in_its_order(name, arguments)):
            ids = frozenset[int]().union(*(value.whole for value in (*partition, *order)))
            if not self._ties_are_copies(parts, ids, scope) and not (
                name == "row_number" and _is_read_alone(node, parts, partition, scope)
            ):
                scope.relation = self._total(name, scope.relation, scope.relation.unique, ids, node)
        value = joined(*partition, *order, *arguments)
        value = value._replace(type=_type_of_chosen(name, arguments))
        if name != "row_number" or len(columns) < len(partition):
            return value
        # it identifies the rows of a partition
        number = new_column("", "int")
        unique = frozenset(column.id for column in (*columns, number))
        scope.relation = replace(scope.relation, unique=(*scope.relation.unique, unique))
        return value_of(number)._replace(weight=value.weight)

    def _ties_are_copies(
        self, parts: Sequence[exp.Expr], ids: frozenset[int], scope: Scope[F]
    ) -> bool:
        """Return true if rows that tie are copies, so that their order does not matter.

        Two different orders could pair the positions of copies differently, so only one order is
        allowed.
        """
        columns = [*scope.visible, *(column for _, table in scope.tables for column in table)]
        if (
            scope.is_open
            or scope.is_multiplied
            or scope.groups is not None
            or not all(column.id in ids and is_exact(column.type) for column in columns)
        ):
            return False
        by = " ".join(
            dialect.whole_text(clause)
            for name in ("partition_by", "order")
            for part in parts
            for clause in ensure_list(part.args.get(name))
        )
        scope.order_of_copies = scope.order_of_copies or by
        return scope.order_of_copies == by

    def _total(
        self,
        name: str,
        relation: Relation[F],
        unique: Sequence[frozenset[int]],
        ids: frozenset[int],
        node: exp.Expr,
    ) -> Relation[F]:
        """Refuse an order that lets rows tie, unless each run may choose among them.

        Return the relation with the fact of the choice.
        """
        if name in self._allowed or any(key <= ids for key in unique):
            return relation
        fact = None if relation.fact is None else self._rules.chosen(relation, name)
        if fact is not None:
            self.ties[dialect.whole_text(node)] = None
            return replace(relation, fact=fact)
        raise dialect.refused(
            node,
            "HW_NONDETERMINISTIC",
            "nothing proves that its order tells all rows apart",
            remedy="Order by columns that do, and say so with a unique test on them; or write "
            f"allow_nondeterministic: [{name}] if rows may keep the answer of the run that "
            "wrote them",
        )

    def _function(self, node: exp.Expr, scope: Scope[F]) -> Value:
        function = node if isinstance(node, exp.Anonymous) else unwrapped(node)
        if not isinstance(function, exp.Anonymous):
            raise self._unknown(node)
        name = dialect.name_of(function)
        if name in spark_version.ANY_AGGREGATES:
            return self._aggregate(node, function, scope)
        if function is not node:
            raise self._unknown(node)
        is_moment = spark_version.is_moment(name, function.expressions)
        if name not in self._bodies and (name in spark_version.CHANGING_FUNCTIONS or is_moment):
            for argument in function.expressions:
                self._value(argument, scope)
            return self._changing(node, name)
        if name in spark_version.GENERATORS:
            raise dialect.refused(
                node,
                "HW_NOT_UNDERSTOOD",
                "a generator within an expression",
                remedy="Select it as a column, or use lateral view",
            )
        if name == "collate" and len(function.expressions) == 2:
            text, to = function.expressions
            return self._collate(node, text, to, scope)
        if name in self._bodies:
            self._body(node, name)
        elif name not in spark_version.ROW_FUNCTIONS and name not in self._allowed:
            raise dialect.refused(
                node,
                "HW_NOT_UNDERSTOOD",
                f"{name}() is no function of Spark's that is known to depend on its arguments "
                "alone",
            )
        # array_sort may have a comparator that lets different elements tie
        if (
            name in spark_version.ORDERING_FUNCTIONS
            and function.expressions
            and (name != "array_sort" or len(function.expressions) == 1)
        ):
            inner = function.expressions[0]
            if dialect.name_of(inner) in (
                "array_agg",
                "collect_list",
                "collect_set",
            ):
                rest = [self._value(found, scope) for found in function.expressions[1:]]
                return joined(self._aggregate(inner, inner, scope, ordered=True), *rest)
        parts = [self._value(argument, scope) for argument in arguments_of(function)]
        if name == "window" and len(parts) > 2:
            # a row may be in several windows
            self._plain(joined(*parts), node, "rows by")
            scope.relation = scope.relation.multiplied()
        if name in ("coalesce", "nvl", "ifnull") and len(parts) == 2:
            one, other = parts[0].column, parts[1].column
            if one is not None and other is not None:
                either = self._rules.either(scope.relation, [one.id, other.id])
                if either is not None:
                    type = type_of(function, [one.type, other.type])
                    return Value(column=Column("", either, type), type=type)
        return self._made_of(function, parts, scope)

    def _body(self, call: exp.Expr, name: str) -> None:
        """Check a SQL function, whose body is an expression over its parameters. Raises Refused."""
        body = self._bodies.pop(name)
        parameters: Scope[F] = Scope(Relation(()), [], (), is_open=True)
        try:
            with body_of(call, body) as text:
                refuse_moments(text.nodes, (), self._allowed)
                assert isinstance(text.tree, exp.Select)
                self._value(text.tree.expressions[0], parameters)
        finally:
            self._bodies[name] = body

    def _aggregate(
        self,
        node: exp.Expr,
        function: exp.Anonymous,
        scope: Scope[F],
        ordered: bool = False,
    ) -> Value:
        if not scope.may_aggregate:
            raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "an aggregate where no group is")
        name = dialect.name_of(function)
        if name == "grouping_id" and scope.relation.fact is not None:
            raise self._unknown(function)
        groups, scope.groups, scope.may_aggregate = scope.groups, None, False
        scope.is_of_rows = True
        is_plain = function is node
        parts: list[Value] = []
        for wrapper in () if is_plain else wrappers(node):
            if isinstance(wrapper, exp.Filter):
                is_plain = False
                parts.append(self._value(wrapper.expression.this, scope))
            elif isinstance(wrapper, exp.WithinGroup):
                is_plain = False
                order = wrapper.expression.expressions
                parts += [self._value(found.this, scope) for found in order]
                # values that tie are the same
                ordered = ordered or self._is_ordered_by_itself(function, order, scope)
        arguments: list[Value] = []
        for argument in function.expressions:
            if isinstance(argument, exp.Distinct):
                is_plain = False
                arguments += [self._value(found, scope) for found in argument.expressions]
            else:
                arguments.append(self._value(argument, scope))
        parts += arguments
        scope.groups, scope.may_aggregate, scope.is_of_rows = groups, True, False
        if name in spark_version.ORDERED_AGGREGATES and not (
            ordered or _is_in_its_order(name, arguments)
        ):
            ids = frozenset(column.id for column in (groups or {}).values())
            if name in ("max_by", "min_by"):
                ids |= arguments[1].whole
            scope.relation = self._total(name, scope.relation, scope.rows_unique, ids, node)
        weight = parts[0].weight if len(parts) == 1 else joined(*parts).weight
        if scope.relation.fact is not None:
            weight = self._rules.aggregated(name, weight, is_plain, node)
        elif weight is not Weight.PLAIN:
            weight = Weight.OTHER
        is_sum = name == "sum" and len(parts) == 1
        made = Value(
            weight,
            type=_type_of_chosen(name, arguments)
            or aggregate_type(name, arguments[0].type if arguments else None),
            is_filled=name == "count" or (is_sum and parts[0].is_filled and is_plain),
            most=value_bounds.of_sum(parts[0]) if self._is_sum else None,
        )
        # the check of the result's columns refuses floating point numbers
        is_exact = parts and parts[0].type not in ("double", "float")
        if weight is Weight.ODD and is_exact:
            self._stays(parts[0], made.type, node, is_summed=False)
            self._stays(made, made.type, node, is_summed=True)
        return made

    def _is_ordered_by_itself(
        self, function: exp.Anonymous, order: Sequence[exp.Expr], scope: Scope[F]
    ) -> bool:
        """Return true if the function is a list of texts, ordered by themselves."""
        if function.name.lower() not in ("listagg", "string_agg"):
            return False
        argument = function.expressions[0]
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0]
        value = self._signature(argument, scope)
        return any(self._signature(found.this, scope) == value for found in order)

    def _cast(self, node: exp.Expr, scope: Scope[F]) -> Value:
        self._only(node, {"this", "to", "safe", "action", "format"})
        type = type_of_cast(dialect.type_text(node.args["to"]).lower())
        if is_collated(type):
            raise self._collated(node, type)
        value = self._value(node.this, scope, is_handed_on=type == "string")
        is_try, is_summed = bool(node.args.get("safe")), _is_summed(scope)
        is_odd = node.args["to"].this in _NUMERIC and is_odd_cast(value.type, type)
        if value.weight is not Weight.PLAIN and (
            is_try or not (is_exact_cast(value.type, type) if is_summed else is_odd)
        ):
            value = value._replace(weight=Weight.OTHER)
        most = value_bounds.most_of(value) if self._is_sum else None
        if value.weight is Weight.ODD:
            self._stays(value, type, node, is_summed)
        if self._is_sum and not (value.weight is Weight.ODD and is_summed):
            most = value_bounds.of_row(most, type)
        return Value(value.weight, None, type, value.is_filled and not is_try, most=most)

    def _collate(self, node: exp.Expr, text: exp.Expr, to: exp.Expr, scope: Scope[F]) -> Value:
        """Return the value of the text under a collation that equates no two texts."""
        if to.name.lower() != "utf8_binary":
            raise self._collated(node, to.name)
        return joined(self._value(text, scope, is_handed_on=True))

    def _compared(self, columns: Iterable[Column], node: exp.Expr) -> None:
        """Refuse texts whose collation equates different texts, unless they are only handed on.

        The result would depend on which of them comes first, or mistake one for the other.
        """
        for column in columns:
            if is_collated(column.type):
                raise self._collated(node, f"{column.name} is a {column.type}")

    def _changing(self, node: exp.Expr, name: str) -> Value:
        if name not in self._allowed:
            raise dialect.refused(
                node,
                "HW_NONDETERMINISTIC",
                "its result changes by itself, so rows that no input affects would go stale",
                remedy="Take the moment from a column of the input, or say "
                f"allow_nondeterministic: [{name}] if rows may keep the answer of the run that "
                "wrote them",
            )
        return Value()

    def _equal(self, node: exp.Expr, scope: Scope[F]) -> Equal | None:
        """Return an equality of two columns of the scope."""
        node = null_safe(node)
        sides = self._sides(node, scope)
        if sides is None or sides[0][1] or sides[1][1]:
            return None
        return Equal(sides[0][0], sides[1][0], isinstance(node, exp.NullSafeEQ))

    def _equal_to_outer(self, node: exp.Expr, scope: Scope[F]) -> Equal | None:
        """Return an equality of a column of the outer query (left) with a column of the scope."""
        node = null_safe(node)
        sides = self._sides(node, scope)
        if sides is None or sides[0][1] == sides[1][1]:
            return None
        (one, is_outer), (other, _) = sides
        left, right = (one, other) if is_outer else (other, one)
        return Equal(left, right, isinstance(node, exp.NullSafeEQ))

    def _sides(
        self, node: exp.Expr, scope: Scope[F]
    ) -> tuple[tuple[Column, bool], tuple[Column, bool]] | None:
        """Return the columns of an equality, each with true if it is of the outer query."""
        if not isinstance(node, (exp.EQ, exp.NullSafeEQ)):
            return None
        found: list[tuple[Column, bool]] = []
        for side in (node.this, node.expression):
            inner = side.unnest()
            if not isinstance(inner, exp.Column) or isinstance(inner.this, exp.Star):
                return None
            parts = parts_of(inner)
            own = self._find_in(parts, scope, inner)
            if own is not None and own[1]:
                found.append((own[0], False))
                continue
            around = self._find_in(parts, scope.outer, inner) if scope.outer and not own else None
            if around is None or not around[1]:
                return None
            found.append((around[0], True))
        return found[0], found[1]

    def _rendered(
        self,
        node: exp.Expr,
        scope: Scope[F],
        outer: Scope[F] | None = None,
        is_implied: bool = False,
    ) -> str | None:
        """Return an expression that cannot fail as text for `RowRules`; None if it may fail.

        It may name columns of the scope, and of `outer`. With `is_implied`, a condition that may
        fail gives one that it implies, if there is one.
        """

        def column_of(found: exp.Column) -> Column | None:
            if isinstance(found.this, exp.Star):
                return None
            column = self._find_in(parts_of(found), scope, found)
            if column is None and outer is not None:
                column = self._find_in(parts_of(found), outer, found)
            return column[0] if column is not None and column[1] else None

        text = rendered(node, column_of)
        return implied_text(node, column_of) if text is None and is_implied else text

    def _grouped_by(self, node: exp.Expr, scope: Scope[F]) -> Column | None:
        """Return the grouping column that equals an expression."""
        assert scope.groups is not None
        if not scope.kinds_of_groups:
            scope.kinds_of_groups = frozenset(signature[0] for signature in scope.groups)
        if _kind_of_node(node.unnest()) not in scope.kinds_of_groups:
            return None  # comparing kinds first is cheaper than comparing texts
        return scope.groups.get(self._signature(node, scope))

    def _signature(self, node: exp.Expr, scope: Scope[F]) -> tuple[type, str]:
        """Return the expression with numbered columns; Spark treats equal ones as the same."""

        def numbered(found: exp.Expr) -> exp.Expr:
            if isinstance(found, exp.Column) and not isinstance(found.this, exp.Star):
                parts = parts_of(found)
                column = self._find_in(parts, scope, found)
                if column is not None:
                    rest = parts[2:] if parts[0] in dict(scope.tables) else parts[1:]
                    return exp.to_identifier(f"#{column[0].id}.{'.'.join(rest)}", quoted=True)
            return found

        inner = node.unnest()
        if type(inner) is exp.Column:
            made = numbered(inner)  # most are columns, and need no copy
            if type(made) is exp.Identifier and "`" not in made.name:
                return exp.Column, f"`{made.name}`".lower()
        made = inner.transform(numbered)
        return _kind_of_node(inner), dialect.whole_text(made, is_own=True).lower()

    def _only(self, node: exp.Expr, known: set[str]) -> None:
        """Refuse clauses that the reader does not know."""
        for name, value in node.args.items():
            if name in known or not value:
                continue
            clause = value[0] if isinstance(value, list) else value
            raise self._unknown(clause if isinstance(clause, exp.Expr) else node)

    def _collated(self, node: exp.Expr, what: str) -> Refused:
        reason = f"{what}: texts that differ may be equal to it"
        remedy = "Read cast(… as string) of it, and compare by lower(…) or the like"
        return dialect.refused(node, "HW_NOT_COMPARABLE", reason, remedy)

    def _stays(self, value: Value, type: str | None, node: exp.Expr, is_summed: bool) -> None:
        """Refuse a weighted value, or a sum of such, that no longer adds up as this type."""
        is_negated = isinstance(node, exp.Neg) or dialect.name_of(node) == "negative"
        if is_summed and not value_bounds.stays_additive(value, type, is_negated):
            raise self._may_not_fit(node, type)
        if not is_summed and not value_bounds.has_opposite(value, type):
            raise dialect.refused(
                node,
                "HW_NOT_A_SUM",
                f"the least {value.type} is its own opposite, and is not as a "
                f"{type or 'wider type'}",
                "Cast to bigint or a decimal before _weight is multiplied: "
                "sum(cast(quantity as bigint) * _weight)",
            )

    def _may_not_fit(self, node: exp.Expr, type: str | None) -> Refused:
        if type in ("float", "double"):
            return dialect.refused(
                node,
                "HW_FLOATING_POINT_SUM",
                f"it is a {type}, and sums of those depend on the order of adding",
                "Cast what is summed, before it is summed, to a decimal or an integer",
            )
        if type is None:
            return dialect.refused(
                node,
                "HW_NOT_A_SUM",
                "nothing proves that what is summed are whole numbers or decimals; others, such as "
                "double, do not add up exactly",
                "Cast it, before it is summed, to an integer or a decimal of at most 27 digits",
            )
        return dialect.refused(
            node,
            "HW_NOT_A_SUM",
            f"nothing proves that it fits a {type}, and without ANSI rules what does not fit is "
            "NULL whatever is added to it",
            "Cast what is summed to a decimal of at most 27 digits, and leave the sum as it is",
        )

    def _unknown(self, node: exp.Expr) -> Refused:
        name = dialect.name_of(node) if isinstance(node, exp.Anonymous) else node.key
        return dialect.refused(node, "HW_NOT_UNDERSTOOD", f"{name} is not analysed")


def _kind_of_node(node: exp.Expr) -> type:
    """Return the class of a node; a typed literal, such as date'2026-01-01', counts as a cast."""
    return exp.Cast if isinstance(node, exp.TryCast) else type(node)


def _is_counted(star: exp.Star) -> bool:
    """Return true for the star of `count(*)`."""
    return dialect.name_of(star.parent) == "count"


def _is_summed(scope: Scope[F]) -> bool:
    """Return true if the expression is above the aggregate of a `signed_sum`."""
    if scope.is_of_rows:
        return False
    return scope.groups is not None or getattr(scope.relation.fact, "is_summed", False)


def _type_of_chosen(name: str, arguments: Sequence[Value]) -> str | None:
    """Return the type of a function that returns a value of its first argument."""
    is_chosen = name in spark_version.CHOOSING_FUNCTIONS and (
        name not in spark_version.ORDERED_WINDOW_FUNCTIONS
        or len(arguments) < 3
        or name == "nth_value"
    )
    return arguments[0].type if is_chosen and arguments else None


def _is_read_alone(
    window: exp.Window, parts: Sequence[exp.Expr], partition: Sequence[Value], scope: Scope[F]
) -> bool:
    """Return true if a select list reads nothing but a `row_number` and its partition.

    Rows that tie may get their numbers either way. Each partition of n rows gives its columns with
    the numbers 1 to n in any order, so a select list of these has the same rows. A further
    column, a further window, or a clause that chooses rows after the window could show the order.
    """
    select = window.find_ancestor(exp.Select)
    if (
        select is None
        or scope.groups is not None
        or any(select.args.get(clause) for clause in ("qualify", "limit", "offset", "having"))
    ):
        return False
    own = dialect.whole_text(window)
    within = {
        dialect.whole_text(found) for part in parts for found in part.args.get("partition_by") or []
    }
    reads_partition = False

    def is_number(node: exp.Expr) -> bool:
        return isinstance(node, exp.Window) and dialect.whole_text(node) == own

    for node in select.expressions:
        for found in node.walk(prune=is_number):
            if is_number(found):
                continue
            if isinstance(found, exp.Column) and dialect.whole_text(found) in within:
                reads_partition = True
            elif isinstance(found, (exp.Column, exp.Star, exp.Window, exp.Query)):
                return False
    # 0.0 and -0.0 are of one partition, and differ
    return not reads_partition or all(
        value.column is not None and is_exact(value.type) for value in partition
    )


def _is_in_its_order(name: str, arguments: Sequence[Value]) -> bool:
    """Return true if rows that tie give the same value because it is part of their order."""
    if name not in ("max_by", "min_by") or len(arguments) != 2:
        return False
    column = arguments[0].column
    return column is not None and is_exact(column.type) and column.id in arguments[1].whole


def _texts(node: exp.Expr) -> frozenset[str]:
    """Return the text of a literal that is distinct in every collation; empty if it is escaped."""
    is_text = isinstance(node, exp.Literal) and node.is_string
    is_plain = is_text and re.fullmatch(r"[\w .:/-]*", node.name, re.ASCII)
    return frozenset([node.name.strip().lower()] if is_plain else [])
