"""A reader of FROM clauses: tables, joins, pivots and generators."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.conditions import Conditions
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import (
    Column,
    Equal,
    F,
    Input,
    Relation,
    Rules,
    Side,
    Weight,
    new_column,
    new_id,
    ruled,
)
from headwaters.analysis.safe_expressions import element_of
from headwaters.analysis.scopes import (
    Names,
    Scope,
    column_of,
    conjuncts,
    depends_on_comma,
    implied,
    is_by_names,
    nullable,
    parts_of,
)
from headwaters.analysis.unique_keys import of_either, unique_if_filled, unique_of_join
from headwaters.platform import spark_version

_readings = itertools.count(1)
# The most joins that are tried to find an order for comma joins.
_MOST_JOINS = 100


class FromClause(Conditions[F]):
    """A reader of what a query reads, over the inputs with a rule book."""

    def __init__(
        self,
        inputs: Sequence[Input],
        rules: Rules[F],
        allowed: Sequence[str] = (),
        functions: Mapping[str, str] | None = None,
    ) -> None:
        """Store the functions of `allow_nondeterministic`, and the bodies of SQL functions."""
        super().__init__(rules, allowed, functions)
        self._inputs = {source.name.lower(): source for source in inputs}
        # results of common table expressions and brackets; keeping the node reserves its id
        self._known: dict[int, tuple[exp.Expr, Relation[F]]] = {}

    def _with(self, node: exp.Expr, names: Names) -> Names:
        clause = node.args.get("with_")
        if clause is None:
            return names
        if clause.args.get("recursive"):
            raise dialect.refused(clause, "HW_NOT_UNDERSTOOD", "a recursive query is not analysed")
        for query in clause.expressions:
            known = dict(names.queries)
            known[query.alias.lower()] = (query, names)
            names = Names(known)
        return names

    def _from(
        self,
        items: Sequence[exp.Expr],
        names: Names,
        outer: Scope[F] | None,
        where: exp.Expr | None = None,
    ) -> Scope[F]:
        """Read a FROM clause, whose items after the first are joins.

        `where` is the condition of the WHERE clause.
        """
        crossed = len(list(itertools.takewhile(_is_product, reversed(items[1:]))))
        if where is not None and crossed:
            return self._product(items, crossed, names, outer, where)
        scope = Scope(Relation(()), [], (), outer, names=names)
        for number, item in enumerate(items):
            join = item if isinstance(item, exp.Join) else None
            source = item.this if isinstance(item, exp.Join) else item
            side = _side(join) if join else "inner"
            if join is not None:
                self._only(join, {"this", "side", "kind", "on", "using", "method", "hint"})
                if join.args.get("hint") or (join.args.get("method") or "NATURAL") != "NATURAL":
                    raise self._unknown(join)
                if depends_on_comma(join, items[:number]):
                    kind = "join by names" if is_by_names(join) else f"{side} join"
                    raise dialect.refused(
                        join,
                        "HW_NOT_UNDERSTOOD",
                        f"a comma or cross join before a {kind}",
                        remedy="Put brackets around what is joined first",
                    )
            if isinstance(source, exp.Lateral):
                condition = join.args.get("on") if join else None
                # a left join keeps a row that fails its condition
                is_traced = condition is None or side == "inner"
                scope = self._lateral(scope, source, names, side, is_traced)
                if condition is not None:
                    self._plain(self._value(condition, scope), condition, "a join by")
                continue
            added = self._source(source, names, outer)
            scope = self._join(scope, added, side, join, names) if number else added
            scope.names = names
        scope.outer = outer
        return scope

    def _product(
        self,
        items: Sequence[exp.Expr],
        crossed: int,
        names: Names,
        outer: Scope[F] | None,
        where: exp.Expr,
    ) -> Scope[F]:
        """Read relations; WHERE joins the last `crossed` in any order.

        These follow commas or CROSS JOIN, and are joined with the relation before them. A relation
        is joined when an equality leads to it. A rule book may take one order and refuse another.
        """
        first = self._from(items[:-crossed], names, outer)
        first.outer = None
        items = [items[0], *items[-crossed:]]
        nodes = [item.this for item in items if isinstance(item, exp.Join)]
        sources = [first, *(self._source(node, names, outer) for node in nodes)]
        visible = tuple(column for source in sources for column in source.visible)
        tables = [table for source in sources for table in source.tables]
        is_open = any(source.is_open for source in sources)
        every = Scope(Relation(visible), tables, visible, outer, is_open, names=names)
        equal = [pair for node in implied(where) if (pair := self._equal(node, every))]
        budget = iter(range(_MOST_JOINS))
        of_sources = [source.relation.ids for source in sources]

        def joined(scope: Scope[F] | None, left: Sequence[int]) -> Scope[F]:
            """Return the scope joined with the rest, trying the linked relations in turn."""
            if scope is not None and not left:
                return scope
            ids = scope.relation.ids if scope is not None else frozenset[int]()
            linked = [
                n
                for n in left
                if scope is not None and any(_links(pair, ids, of_sources[n]) for pair in equal)
            ]
            refused: Refused | None = None
            for chosen in linked or left:
                rest = [n for n in left if n != chosen]
                try:
                    if scope is None:
                        return joined(sources[chosen], rest)
                    if next(budget, None) is None:
                        break
                    item = items[chosen] if isinstance(items[chosen], exp.Join) else items[1]
                    assert isinstance(item, exp.Join)
                    found = self._join(scope, sources[chosen], "inner", item, names, equal, where)
                    return joined(found, rest)
                except Refused as error:
                    refused = refused or error
            raise refused or dialect.refused(
                where, "HW_NOT_UNDERSTOOD", "a product of too many relations"
            )

        scope = joined(None, range(len(sources)))
        relation = replace(scope.relation, columns=visible)
        return replace(
            scope, relation=relation, tables=tables, visible=visible, outer=outer, names=names
        )

    def _source(self, node: exp.Expr, names: Names, outer: Scope[F] | None) -> Scope[F]:
        """Read a relation of a FROM clause or a join."""
        joins = node.args.get("joins")
        if joins:
            first = node.copy()
            first.set("joins", None)
            return self._from([first, *joins], names, outer)
        scope = self._plain_source(node, names, outer)
        for pivot in node.args.get("pivots") or []:
            turn = self._unpivoted if pivot.args.get("unpivot") else self._pivoted
            scope = self._named(turn(scope, pivot), pivot)
        return scope

    def _plain_source(self, node: exp.Expr, names: Names, outer: Scope[F] | None) -> Scope[F]:
        if isinstance(node, exp.Table):
            return self._table(node, names, outer)
        if isinstance(node, exp.Values):
            self._only(node, {"expressions", "alias"})
            return self._named(self._values(node), node)
        if not isinstance(node, exp.Subquery):
            raise self._unknown(node)
        self._only(node, {"this", "alias", "with_", "pivots"})
        if not isinstance(node.this, exp.Table):
            names = self._with(node, names)
            if outer is None:
                return self._named(self._common(node, names), node)
            return self._named(self._query(node.this, names, outer), node)
        # brackets around joins
        scope = self._from([node.this], names, outer)
        if node.args.get("alias"):
            return self._named(replace(scope.relation, columns=scope.visible), node)
        return scope

    def _values(self, node: exp.Values) -> Relation[F]:
        rows = [
            row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions
        ]
        empty: Scope[F] = Scope(Relation(()), [], ())
        read = [[column_of(self._value(value, empty)) for value in row] for row in rows]
        made = []
        for number, values in enumerate(zip(*rows, strict=False)):
            nulls = [isinstance(value.unnest(), exp.Null) for value in values]
            # a NULL has the type of the other values
            known = [row[number] for row, is_null in zip(read, nulls, strict=True) if not is_null]
            column = functools.reduce(of_either, known or [new_column("")])
            is_filled = column.is_filled and not any(nulls)
            texts = column.texts if is_filled else frozenset[str]()
            made.append(
                column._replace(
                    name=f"col{number + 1}", id=new_id(), is_filled=is_filled, texts=texts
                )
            )
        return Relation(tuple(made))

    def _table(self, node: exp.Table, names: Names, outer: Scope[F] | None) -> Scope[F]:
        self._only(node, {"this", "alias", "joins", "pivots"})
        if isinstance(node.this, exp.Anonymous):
            name = node.this.name.lower()
            empty: Scope[F] = Scope(Relation(()), [], ())
            for argument in node.this.expressions:
                self._value(argument, empty)
            if name not in spark_version.TABLE_FUNCTIONS:
                raise self._unknown(node)
            scope = self._named(Relation(()), node)
            scope.is_open = not scope.visible
            return scope
        name = node.name.lower()
        if name in names.queries and not node.args.get("db"):
            query, known = names.queries[name]
            self._only(query, {"this", "alias"})
            relation = self._common(query, known)
            return self._named(_renamed(relation, query.args["alias"]), node)
        source = self._inputs.get(name)
        if source is None:
            raise dialect.refused(node, "HW_UNMARKED_INPUT", "it is no input of the model")
        reading, of, is_signed = next(_readings), source.name, source.kind == "signed"
        plain, is_followed = Weight.PLAIN, source.is_followed
        columns = tuple(
            Column(column, new_id(), kind.lower() or None, plain, (reading, of, column.lower()))
            if is_followed
            else Column(column, new_id(), kind.lower() or None)
            for column, kind in source.columns.items()
        )
        if is_signed:
            columns = tuple(map(_as_weight, columns))
        ids = {column.name.lower(): column.id for column in columns}
        unique, unique_if_filled = (
            tuple(
                frozenset(ids[part.lower()] for part in key)
                for key in keys
                if all(part.lower() in ids for part in key)
            )
            for keys in (source.unique, source.unique_if_filled)
        )
        relation = Relation(columns, None, unique, unique_if_filled)
        relation = replace(relation, fact=self._rules.base(source, relation))
        return self._named(relation, node)

    def _pivoted(self, scope: Scope[F], node: exp.Expr) -> Relation[F]:
        """Return the groups of PIVOT, by all columns that it does not name, and its aggregates."""
        fields = node.args["fields"]
        if scope.is_open or len(fields) != 1 or not isinstance(fields[0], exp.In):
            raise self._unknown(node)
        calls: Sequence[exp.Expr] = node.expressions
        looked, values = fields[0].this, fields[0].expressions
        if not isinstance(looked, exp.Column) or any(call.find(exp.Query) for call in calls):
            raise self._unknown(node)
        if len(calls) > 1 and not all(call.alias for call in calls):
            raise dialect.refused(
                node, "HW_NOT_UNDERSTOOD", "its columns have no names", remedy="Name its aggregates"
            )
        if not all(
            isinstance(value.unalias(), exp.Literal) or _is_named(value) for value in values
        ):
            raise self._unknown(node)
        named = [looked, *(found for call in calls for found in dialect.found(call, exp.Column))]
        used = {self._place_of(column, scope) for column in named if not column.is_star}
        keys = [c for c in scope.visible if (c.id, c.name.lower()) not in used]
        self._plain(self._value(looked, scope), looked, "a pivot by")
        fact = scope.relation.fact
        if fact is not None:
            fact = self._rules.grouped(scope.relation, keys or None, node)
        ids = frozenset(column.id for column in keys)
        scope.rows_unique = scope.relation.unique
        scope.relation = replace(scope.relation, fact=fact, unique=(ids,))
        scope.groups, scope.may_aggregate = {(exp.Column, str(c.id)): c for c in keys}, True
        made = []
        for call in calls:
            value = self._value(call.unalias(), scope)
            self._plain(value, call, "a pivot of")
            made.append((f"_{call.alias}" if len(calls) > 1 else "", value.type))
        columns = [
            new_column(f"{value.alias_or_name}{suffix}", type)
            for value in values
            for suffix, type in made
        ]
        return Relation((*keys, *columns), scope.relation.fact, (ids,))

    def _unpivoted(self, scope: Scope[F], node: exp.Expr) -> Relation[F]:
        """Return the rows of UNPIVOT: one for each named column, with the other columns."""
        unknown = dialect.refused(node, "HW_NOT_UNDERSTOOD", "unpivot is not analysed")
        (field,) = node.args["fields"]
        names = [*node.expressions, field.this]
        values = [value.this if _is_named(value) else value for value in field.expressions]
        if (
            scope.is_open
            or len(names) != 2
            or not all(isinstance(name, exp.Identifier) for name in names)
        ):
            raise unknown
        if not all(isinstance(value, exp.Column) and not value.is_star for value in values):
            raise unknown
        used = {self._place_of(value, scope) for value in values}
        columns = [self._value(value, scope) for value in values]
        for value, column in zip(values, columns, strict=True):
            self._plain(column, value, "rows by")
        kept = [c for c in scope.visible if (c.id, c.name.lower()) not in used]
        types = {column.type for column in columns}
        name = new_column(names[1].name, "string")._replace(is_filled=True)
        value = new_column(names[0].name, types.pop() if len(types) == 1 else None)
        ids = frozenset(column.id for column in kept)
        labels = [found.alias_or_name.lower() for found in field.expressions]
        is_each_once = len(set(labels)) == len(labels)
        unique = [key | {name.id} for key in scope.relation.unique if key <= ids and is_each_once]
        return Relation((*kept, name, value), scope.relation.fact, tuple(unique))

    def _place_of(self, node: exp.Column, scope: Scope[F]) -> tuple[int, str]:
        found = self._find(node, scope)
        if found is None or not found[1]:
            raise self._unknown(node)
        return found[0].id, found[0].name.lower()

    def _common(self, query: exp.CTE | exp.Subquery, names: Names) -> Relation[F]:
        """Read a common table expression, or a subquery without outer columns, once."""
        known = self._known.get(id(query.this))
        if known is not None:
            return self._read_again(known[1])
        relation = self._query(query.this, names, None)
        self._known[id(query.this)] = query.this, relation
        return relation

    def _read_again(self, relation: Relation[F]) -> Relation[F]:
        """Return the relation as another reading, with new columns."""
        numbers: dict[int, int] = {}
        readings: dict[int, int] = {}

        def number(old: int) -> int:
            return numbers.setdefault(old, new_id())

        columns = []
        for column in relation.columns:
            origin = column.origin
            if origin is not None:
                origin = (readings.setdefault(origin[0], next(_readings)), *origin[1:])
            whole = frozenset(map(number, column.whole))
            columns.append(column._replace(id=number(column.id), origin=origin, whole=whole))
        unique, unique_if_filled = (
            tuple(frozenset(map(number, key)) for key in keys)
            for keys in (relation.unique, relation.unique_if_filled)
        )
        fact = relation.fact
        if fact is not None:
            fact = self._rules.renumbered(fact, number)
        return Relation(tuple(columns), fact, unique, unique_if_filled)

    def _named(self, relation: Relation[F], node: exp.Expr) -> Scope[F]:
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias):
            if not relation.columns and alias.columns:
                relation = replace(
                    relation, columns=tuple(new_column(c.name) for c in alias.columns)
                )
            else:
                relation = _renamed(relation, alias)
        name = node.alias_or_name if not isinstance(node, exp.Values) else node.alias
        return Scope(relation, [(name.lower(), relation.columns)], relation.columns)

    def _join(
        self,
        left: Scope[F],
        right: Scope[F],
        side: Side,
        join: exp.Join | None,
        names: Names,
        known: Sequence[Equal] = (),
        where: exp.Expr | None = None,
    ) -> Scope[F]:
        """Join two scopes; `known` are equalities of WHERE, which joins as ON does."""
        assert join is not None
        if side in ("left", "full"):
            right = nullable(right)
        if side in ("right", "full"):
            left = nullable(left)
        both = Scope(
            Relation(
                (*left.visible, *right.visible),
                left.relation.fact if left.relation.fact is not None else right.relation.fact,
            ),
            [*left.tables, *right.tables],
            (*left.visible, *right.visible),
            left.outer,
            left.is_open or right.is_open,
            names=names,
        )
        shared = self._shared(left, right, join)
        self._compared(itertools.chain.from_iterable(shared), join)
        equal = [Equal(one, other, False) for one, other in shared]
        sides = (left.relation.ids, right.relation.ids)
        equal += [_turned(pair, left.relation) for pair in known if _links(pair, *sides)]
        condition = join.args.get("on")
        if condition is not None:
            for conjunct in implied(condition):
                pair = self._equal(conjunct, both)
                if pair is not None:
                    equal.append(_turned(pair, left.relation))
            if side == "left":
                equal += self._equal_to_computed(condition, left, right)
            elif side == "right":
                computed = self._equal_to_computed(condition, right, left)
                equal += [Equal(pair.right, pair.left, False) for pair in computed]
            self._plain(self._value(condition, both), condition, "a join by")
        fact = None
        if left.relation.fact is not None or right.relation.fact is not None:
            links = self._links(where or condition, both, left.relation.ids, right.relation.ids)
            of_left = self._linked(replace(left.relation, columns=left.visible), links)
            of_right = self._linked(replace(right.relation, columns=right.visible), links)
            fact = self._rules.joined(side, of_left, of_right, equal, join)
        unique = unique_of_join(side, left.relation, right.relation, equal)
        if_filled = unique_if_filled(side, left.relation, right.relation, equal)
        # one value may be two columns, with only one of them named
        named = {id(column) for pair in shared for column in pair}
        if side in ("semi", "anti"):
            visible = (*(one for one, _ in shared), *_without(left.visible, named))
            tables = _in_order(left.tables, (), left.visible, visible)
            relation = Relation(visible, fact, unique, if_filled)
            return Scope(relation, tables, visible, left.outer, left.is_open)
        merged = self._merged(shared, side, fact)
        visible = (*merged, *_without(both.visible, named))
        every = (*visible, *(column for column in both.visible if id(column) in named))
        hidden = [one for one, _ in shared] if side in ("right", "full") else []
        hidden += [other for _, other in shared] if side != "right" else []
        tables = _in_order(both.tables, hidden, both.visible, visible) if shared else both.tables
        relation = Relation(every, fact, unique, if_filled)
        scope = Scope(relation, tables, visible, left.outer, both.is_open)
        if condition is not None and side == "inner":
            self._narrow(scope, condition)
        return scope

    def _equal_to_computed(
        self, condition: exp.Expr, kept: Scope[F], other: Scope[F]
    ) -> list[Equal]:
        """Return the equalities of a column of constants with a value computed from one row.

        A kept row of constants depends on the rows whose value its column equals. `_made` traces
        the value as if a common table expression had computed it, unless it may fail.
        """
        found: list[Equal] = []
        is_of_constants = kept.relation.fact is None and other.relation.fact is not None
        if self._row_rules is None or not is_of_constants:
            return found
        for conjunct in conjuncts(condition):
            if not isinstance(conjunct, exp.EQ):
                continue
            for one, value in itertools.permutations((conjunct.this, conjunct.expression)):
                column, value = one.unnest(), value.unnest()
                if isinstance(column, exp.Column) and not isinstance(value, exp.Column):
                    mine = self._find_in(parts_of(column), kept, column)
                    if mine and mine[1] and self._rendered(value, other) is not None:
                        made = self._made(self._value(value, other), value, other)
                        found.append(Equal(mine[0], made, False))
        return found

    def _merged(
        self, shared: Sequence[tuple[Column, Column]], side: Side, fact: F | None
    ) -> list[Column]:
        merged = []
        for one, other in shared:
            if side == "full":
                found = self._rules.either(Relation((one, other), fact), [one.id, other.id])
                # it is `coalesce` of both
                column = new_column(one.name, one.type if one.type == other.type else None)
                merged.append(column._replace(id=found) if found else column)
            else:
                merged.append(other if side == "right" else one)
        return merged

    def _shared(
        self, left: Scope[F], right: Scope[F], join: exp.Join
    ) -> list[tuple[Column, Column]]:
        if join.args.get("method") == "NATURAL":
            if left.is_open or right.is_open:
                raise self._unknown(join)
            theirs = {c.name.lower() for c in right.visible}
            wanted = [c.name for c in left.visible if c.name.lower() in theirs]
        else:
            wanted = [name.name for name in join.args.get("using") or []]
        return [
            (self._one_of(left.visible, name, join), self._one_of(right.visible, name, join))
            for name in wanted
        ]

    def _one_of(self, columns: Sequence[Column], name: str, node: exp.Expr) -> Column:
        found = [column for column in columns if column.name.lower() == name.lower()]
        if len(found) != 1:
            raise dialect.refused(
                node, "HW_NOT_UNDERSTOOD", f"{name} is not one column of both sides"
            )
        return found[0]

    def _lateral(
        self, scope: Scope[F], node: exp.Lateral, names: Names, side: Side, is_traced: bool = True
    ) -> Scope[F]:
        """Read LATERAL in a FROM clause: a subquery, or a generator."""
        if side not in ("inner", "left"):
            raise self._unknown(node)
        self._only(node, {"this", "alias", "view", "outer", "ordinality"})
        if isinstance(node.this, exp.Subquery):
            inner = self._query(node.this.this, names, scope)
            if inner.fact is not None:
                fact = self._rules.nested(scope.relation, inner, "scalar", (), node)
                scope.relation = replace(scope.relation, fact=fact)
            added = self._named(replace(inner, fact=None), node)
        else:
            alias = node.args.get("alias")
            named = [name.name for name in alias.columns] if alias is not None else []
            is_outer = bool(node.args.get("outer")) or side == "left"
            made = self._generated(node.this, scope, named, is_outer, is_traced)
            added = self._named(Relation(tuple(made)), node)
            added.is_open = not added.visible
        visible = (*scope.visible, *added.visible)
        relation = Relation(visible, scope.relation.fact)
        return Scope(
            relation,
            [*scope.tables, *added.tables],
            visible,
            scope.outer,
            scope.is_open or added.is_open,
            names=names,
        )

    def _generated(
        self,
        node: exp.Expr,
        scope: Scope[F],
        names: Sequence[str],
        is_outer: bool = False,
        is_traced: bool = True,
    ) -> list[Column]:
        """Return the columns of a generator."""
        if dialect.name_of(node) not in spark_version.GENERATORS:
            raise self._unknown(node)
        for argument in node.expressions:
            self._plain(self._value(argument, scope), node, "rows by")
        scope.relation = scope.relation.multiplied()
        types = self._types_of_elements(node, scope)
        if types is None or len(types) != len(names):
            return [new_column(name) for name in names]
        columns = [new_column(name, type) for name, type in zip(names, types, strict=True)]
        text = self._rendered(node.expressions[0], scope)
        if self._row_rules is not None and is_traced and text is not None:
            function = dialect.name_of(node).removesuffix("_outer")
            outer = "outer " if is_outer or dialect.name_of(node).endswith("_outer") else ""
            ids = [column.id for column in columns]
            view = f"{outer}{function}({text})"
            scope.relation = ruled(scope.relation, self._row_rules.generated, ids, view)
        return columns

    def _types_of_elements(self, node: exp.Expr, scope: Scope[F]) -> tuple[str, ...] | None:
        """Return the types of what EXPLODE or POSEXPLODE makes of an array or a map, if known."""
        function = dialect.name_of(node).removesuffix("_outer")
        if function not in ("explode", "posexplode") or len(node.expressions) != 1:
            return None
        (argument,) = node.expressions
        if dialect.name_of(argument) == "sequence" and argument.expressions:
            type = self._value(argument.expressions[0], scope).type
            types: tuple[str, ...] | None = (type,) if type is not None else None
        else:
            columns: dict[int, Column] = {}
            for part in dialect.found(argument, exp.Column):
                found = self._find_in(parts_of(part), scope, part)
                if found is not None and found[1]:
                    columns[id(part)] = found[0]
            types = element_of(argument, columns.get)
        if types is None:
            return None
        return types if function == "explode" else ("int", *types)


def _is_named(node: exp.Expr) -> bool:
    """Return true for a value of PIVOT or UNPIVOT with an alias."""
    is_value = isinstance(node.this, (exp.Literal, exp.Column))
    return isinstance(node, exp.PivotAlias) and is_value


def _as_weight(column: Column) -> Column:
    """Return a column of a signed input; the value of `_weight` is 1 or -1."""
    if column.name != "_weight":
        return column
    return column._replace(weight=Weight.ODD, is_filled=True, most=1)


def _is_product(item: exp.Expr) -> bool:
    """Return true for a comma or CROSS JOIN without LATERAL."""
    return (
        isinstance(item, exp.Join)
        and not isinstance(item.this, exp.Lateral)
        and not any(value for name, value in item.args.items() if name not in ("this", "kind"))
        and (item.args.get("kind") or "") in ("", "CROSS")
    )


def _links(pair: Equal, left: frozenset[int], right: frozenset[int]) -> bool:
    """Return true if the equality connects columns of two relations, by their ids."""
    one, other = pair.left.id, pair.right.id
    return (one in left or other in left) and (one in right or other in right)


def _without(columns: Iterable[Column], named: Collection[int]) -> list[Column]:
    """Return the columns that USING does not name."""
    return [column for column in columns if id(column) not in named]


def _in_order(
    tables: Sequence[tuple[str, tuple[Column, ...]]],
    hidden: Sequence[Column],
    before: Sequence[Column],
    visible: Sequence[Column],
) -> list[tuple[str, tuple[Column, ...]]]:
    """Return the tables with their columns in the order of `name.*` after USING.

    The columns that this join hides come first, then those hidden `before`.
    """
    known = {(column.id, column.name) for column in before}
    of_tables = (column for _, columns in tables for column in columns)
    older = [column for column in of_tables if (column.id, column.name) not in known]
    places: dict[tuple[int, str], int] = {}
    for place, column in enumerate((*hidden, *older, *visible)):
        places.setdefault((column.id, column.name), place)
    return [
        (name, tuple(sorted(columns, key=lambda column: places[column.id, column.name])))
        for name, columns in tables
    ]


def _side(join: exp.Join) -> Side:
    kind, side = join.args.get("kind") or "", join.args.get("side") or ""
    if kind in ("SEMI", "ANTI"):
        return "semi" if kind == "SEMI" else "anti"
    sides: dict[str, Side] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
    return sides.get(side, "inner")


def _turned(pair: Equal, left: Relation[object]) -> Equal:
    """Return the equality with the column of the left relation, if any, on the left."""
    if pair.left.id not in left.ids and pair.right.id in left.ids:
        return Equal(pair.right, pair.left, pair.is_null_safe)
    return pair


def _renamed(relation: Relation[F], alias: exp.Expr) -> Relation[F]:
    """Return the relation with the names of the alias's column list, if it has one."""
    names = [name.name for name in alias.args.get("columns") or []]
    if not names:
        return relation
    if len(names) != len(relation.columns):
        raise dialect.refused(alias, "HW_NOT_UNDERSTOOD", "it names other columns")
    columns = tuple(c.named(n) for c, n in zip(relation.columns, names, strict=True))
    return replace(relation, columns=columns)
