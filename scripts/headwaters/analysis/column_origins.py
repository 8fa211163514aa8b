"""The origins of a query's columns, in the tables that it reads.

sqlglot qualifies the query: names, `*`, `using`, aliases and positions become columns of their
tables. A construct that this module does not name makes the whole query unanalysed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.helper import ensure_list
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from headwaters.analysis import dialect
from headwaters.analysis.origins import (
    ROWS,
    NotAnalysed,
    Origin,
    OriginKind,
    Origins,
    QueryOrigins,
    as_rows,
    joined_origins,
    listed,
)
from headwaters.analysis.refusal import Refused
from headwaters.platform import spark_version

_SELECT = {
    *("with_", "expressions", "distinct", "from_", "joins", "laterals", "where", "group"),
    *("having", "qualify", "windows", "order", "sort", "cluster", "distribute", "limit", "offset"),
    "hint",
}
_SET_OPERATION = {"with_", "this", "expression", "distinct", "by_name", "order", "limit", "offset"}
# Spark's functions. All others count as unknown.
_FUNCTIONS = spark_version.STABLE_FUNCTIONS | spark_version.CHANGING_FUNCTIONS
_Names = Mapping[str, QueryOrigins]


@dataclass
class _Tables:
    """The tables of a from clause, and those around the subquery.

    `rows` affect which rows exist. `names` are the visible common table expressions. `outputs` are
    columns by the names of the select list, for `order by`.
    """

    names: _Names
    outer: _Tables | None
    tables: dict[str, QueryOrigins] = field(default_factory=dict)
    rows: set[Origin] = field(default_factory=set)
    windows: dict[str, Origins] = field(default_factory=dict)
    outputs: dict[str, Origins] = field(default_factory=dict)


def origins_of(
    sql: str,
    columns: Callable[[str], Sequence[str] | None],
    *,
    left_out: str | None = None,
    added: Mapping[str, str] | None = None,
    conditions: Sequence[str] = (),
) -> QueryOrigins:
    """Return the origins of the columns of a query.

    `columns` returns the columns of a table by its lower-case name with schema, or None if they are
    unknown. Common table expressions whose names begin with `left_out` count as tables. `added` has
    further columns by name, and `conditions` filter the rows. Raises NotAnalysed.
    """
    tree = _with(_without_queries(_parsed(sql), left_out), added or {}, conditions)
    tables = _numbered(tree)
    known = {number: columns(name) or () for number, name in tables.items()}
    unknown = sorted({tables[number] for number, found in known.items() if not found})
    schema: dict[str, object] = {
        number: dict.fromkeys(found, "string") for number, found in known.items() if found
    }
    try:
        qualified = qualify(
            tree,
            dialect=dialect.SPARK,
            schema=MappingSchema(schema, dialect=dialect.SPARK, normalize=False),
            quote_identifiers=False,
        )
    except SqlglotError as error:
        raise NotAnalysed(_of(unknown) if unknown else _first_line(error)) from None
    return _OriginReader(tables, known, unknown).read(qualified)


def _parsed(sql: str) -> exp.Query:
    """Parse SQL that contains exactly one query. Raises NotAnalysed."""
    try:
        trees = dialect.statements(sql)
    except Refused as refused:
        raise NotAnalysed(f"its SQL cannot be parsed: {refused.reason}") from None
    except SqlglotError as error:
        raise NotAnalysed(f"its SQL cannot be parsed: {_first_line(error)}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotAnalysed("its SQL is not one query")
    return trees[0]


def _without_queries(tree: exp.Query, prefix: str | None) -> exp.Query:
    """Remove the common table expressions whose names begin with a prefix."""
    clause = tree.args.get("with_")
    if clause is not None and prefix is not None:
        kept = [query for query in clause.expressions if not query.alias.startswith(prefix)]
        if kept:
            clause.set("expressions", kept)
        else:
            tree.set("with_", None)
    return tree


def _with(tree: exp.Query, added: Mapping[str, str], conditions: Sequence[str]) -> exp.Query:
    """Return a query with further columns and conditions."""
    if not added and not conditions:
        return tree
    try:
        columns = [
            exp.alias_(parse_one(expression, dialect=dialect.SPARK), name, quoted=True)
            for name, expression in added.items()
        ]
        filters = [parse_one(condition, dialect=dialect.SPARK) for condition in conditions]
    except SqlglotError as error:
        raise NotAnalysed(f"a setting cannot be parsed: {_first_line(error)}") from None
    return exp.select("*", *columns).from_(tree.subquery("hw_model")).where(*filters)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


def _of(unknown: Sequence[str]) -> str:
    return f"the columns of {', '.join(unknown)} are not known"


def _numbered(tree: exp.Query) -> dict[str, str]:
    """Give each table a single word as its name; return the original names by word.

    sqlglot's schemas need the same number of levels for all tables, and ignore schemas of columns.
    """
    found: dict[str, str] = {}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or _is_query(table):
            continue
        parts = [part.name.lower() for part in table.parts]
        name = ".".join(parts[1:] if parts[0] == "spark_catalog" else parts)
        number = next((one for one, other in found.items() if other == name), None)
        number = number or f"hw_table_{len(found)}"
        found[number] = name
        if not table.alias:
            for column in tree.find_all(exp.Column):
                if column.db and [part.name.lower() for part in column.parts[:-1]] == parts:
                    column.set("db", None)
                    column.set("catalog", None)
            alias = exp.TableAlias(this=exp.to_identifier(table.name))
            table.set("alias", alias)
        for part, value in (("this", exp.to_identifier(number)), ("db", None), ("catalog", None)):
            table.set(part, value)
    return found


def _is_query(table: exp.Table) -> bool:
    """Return true if the name is that of a common table expression in scope."""
    if table.db:
        return False
    node: exp.Expr = table
    while node.parent is not None:
        child, node = node, node.parent
        clause = node if isinstance(node, exp.With) else node.args.get("with_")
        if clause is None or clause is child:
            continue
        for query in clause.expressions:
            if query is child and not clause.args.get("recursive"):
                break
            if query.alias.lower() == table.name.lower():
                return True
    return False


class _OriginReader:
    """A reader of a qualified query, from its tables up."""

    def __init__(
        self,
        tables: Mapping[str, str],
        known: Mapping[str, Sequence[str]],
        unknown: Sequence[str],
    ) -> None:
        self._tables = tables
        self._known = known
        self._unknown = unknown
        self._functions: set[str] = set()

    def read(self, tree: exp.Expr) -> QueryOrigins:
        relation = self._query(tree, {}, None)
        return replace(relation, functions=frozenset(self._functions))

    # queries

    def _query(self, node: exp.Expr, names: _Names, outer: _Tables | None) -> QueryOrigins:
        names = self._with(node, names)
        if isinstance(node, exp.Select):
            return self._select(node, names, outer)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, names, outer)
        if isinstance(node, exp.Subquery):
            return self._subquery(node, names, outer)
        if isinstance(node, exp.Values):
            return self._values(node, _Tables(names, outer))
        raise NotAnalysed(f"`{_name_of(node)}` is not analysed")

    def _with(self, node: exp.Expr, names: _Names) -> _Names:
        clause = node.args.get("with_")
        if clause is None:
            return names
        if clause.args.get("recursive"):
            raise NotAnalysed("a recursive query is not analysed")
        known = dict(names)
        for query in clause.expressions:
            known[query.alias] = _renamed(self._query(query.this, known, None), query)
        return known

    def _subquery(self, node: exp.Subquery, names: _Names, outer: _Tables | None) -> QueryOrigins:
        _only(node, {"with_", "this", "alias", "order", "limit", "offset"})
        relation = _renamed(self._query(node.this, names, outer), node)
        scope = _Tables(names, outer, outputs=dict(relation.columns))
        return replace(relation, rows=relation.rows | self._ordered(node, scope))

    def _select(self, node: exp.Select, names: _Names, outer: _Tables | None) -> QueryOrigins:
        _only(node, _SELECT)
        scope = _Tables(names, outer)
        items = [node.args["from_"].this] if node.args.get("from_") else []
        items += [*(node.args.get("joins") or []), *(node.args.get("laterals") or [])]
        self._from(items, scope)
        for window in node.args.get("windows") or []:
            scope.windows[window.name] = self._order(window, scope)
        columns: list[tuple[str, Origins]] = []
        for expression in node.expressions:
            if expression.is_star and isinstance(expression, (exp.Star, exp.Column, exp.Dot)):
                unknown = _of(self._unknown) if self._unknown else "it is not analysed"
                raise NotAnalysed(f"`{expression.sql(dialect=dialect.SPARK)}`: {unknown}")
            origins = self._origins(expression, scope)
            if isinstance(expression, exp.Aliases):
                columns += [(name.name, origins) for name in expression.args["expressions"]]
            else:
                columns.append((expression.alias_or_name, origins))
            scope.rows |= self._generated(expression, scope)
        for clause in ("where", "group", "having", "qualify"):
            scope.rows |= set(self._origins(node.args.get(clause), scope))
        group = node.args.get("group")
        if group is not None and group.args.get("all"):
            keys = [found for found in node.expressions if not found.find(exp.AggFunc)]
            scope.rows |= {column for key in keys for column in self._origins(key, scope)}
        if node.args.get("distinct"):
            scope.rows |= {column for _, origins in columns for column in origins}
        scope.outputs = dict(listed(columns).columns)
        return listed(columns, frozenset(scope.rows | self._ordered(node, scope)))

    def _ordered(self, node: exp.Expr, scope: _Tables) -> set[Origin]:
        """Return the columns that order the rows, and so choose those of any limit."""
        clauses = [node.args.get(name) for name in ("order", "sort", "cluster", "limit", "offset")]
        return {column for clause in clauses for column in self._origins(clause, scope)}

    def _set_operation(
        self, node: exp.SetOperation, names: _Names, outer: _Tables | None
    ) -> QueryOrigins:
        _only(node, _SET_OPERATION)
        left = self._query(node.this, names, outer)
        right = self._query(node.expression, names, outer)
        if node.args.get("by_name"):
            both = listed([*left.in_order, *right.in_order]).columns
            columns = list(both.items())
        elif len(left.in_order) != len(right.in_order):
            raise NotAnalysed("the branches of a set operation differ in their columns")
        else:
            pairs = zip(left.in_order, right.in_order, strict=True)
            columns = [(name, joined_origins(one, other)) for (name, one), (_, other) in pairs]
        rows = left.rows | right.rows
        if node.args.get("distinct") or not isinstance(node, exp.Union):
            rows |= {column for _, origins in columns for column in origins}
        scope = _Tables(names, outer, outputs=dict(listed(columns).columns))
        return listed(columns, rows | self._ordered(node, scope))

    def _values(self, node: exp.Values, scope: _Tables) -> QueryOrigins:
        columns: dict[str, Origins] = {}
        for row in node.expressions:
            for number, cell in enumerate(row.expressions or [row]):
                name = f"col{number + 1}"
                columns[name] = joined_origins(columns.get(name, {}), self._origins(cell, scope))
        return _renamed(QueryOrigins(columns), node)

    # from

    def _from(self, items: Sequence[exp.Expr], scope: _Tables) -> None:
        """Add the items of a from clause to the scope."""
        hidden: list[str] = []
        for item in items:
            if not isinstance(item, exp.Join):
                self._add(item, scope)
                continue
            _only(item, {"this", "side", "kind", "on", "hint"})
            added = self._add(item.this, scope)
            if item.args.get("kind") in ("SEMI", "ANTI"):
                hidden += added
            scope.rows |= set(self._origins(item.args.get("on"), scope))
        for name in hidden:
            del scope.tables[name]

    def _add(self, node: exp.Expr, scope: _Tables) -> list[str]:
        """Add a table of a from clause or a join; return its names in the scope."""
        if node.args.get("pivots"):
            raise NotAnalysed("pivot and unpivot are not analysed")
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            _only(node, {"this", "joins"})
            return [*self._add(node.this, scope), *self._joined(node, scope)]
        relation = self._source(node, scope)
        scope.tables[node.alias_or_name] = relation
        scope.rows |= relation.rows
        return [node.alias_or_name, *self._joined(node, scope)]

    def _joined(self, node: exp.Expr, scope: _Tables) -> list[str]:
        """Add the joins that share brackets with a table."""
        before = set(scope.tables)
        self._from(node.args.get("joins") or [], scope)
        return [name for name in scope.tables if name not in before]

    def _source(self, node: exp.Expr, scope: _Tables) -> QueryOrigins:
        if isinstance(node, exp.Table):
            return self._table(node, scope)
        if isinstance(node, exp.Subquery):
            inner = node.copy()
            inner.set("joins", None)
            return self._query(inner, scope.names, scope.outer)
        if isinstance(node, exp.Values):
            return self._values(node, scope)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            return _renamed(self._query(node.this, scope.names, scope), node)
        if isinstance(node, exp.Lateral):
            return self._generator(node.this, node, scope)
        raise NotAnalysed(f"`{_name_of(node)}` in a from clause is not analysed")

    def _table(self, node: exp.Table, scope: _Tables) -> QueryOrigins:
        if not isinstance(node.this, exp.Identifier):
            return self._generator(node.this, node, scope)
        if node.name in self._tables:
            table = self._tables[node.name]
            columns: dict[str, Origins] = {
                name: {Origin(table, name): "value"} for name in self._known[node.name]
            }
            rows = frozenset([Origin(table, ROWS)])
            return _renamed(QueryOrigins(columns, rows, unknown=None if columns else table), node)
        return _renamed(scope.names[node.name], node)

    def _generator(self, node: exp.Expr, source: exp.Expr, scope: _Tables) -> QueryOrigins:
        name = _name_of(node)
        if name not in spark_version.TABLE_FUNCTIONS:
            raise NotAnalysed(f"the table function {name} is not analysed")
        origins = self._origins(node, scope)
        alias = source.args.get("alias")
        columns = {column.name: origins for column in (alias.columns if alias else ())}
        return QueryOrigins(columns, frozenset(origins), other=origins)

    # expressions

    def _generated(self, node: exp.Expr, scope: _Tables) -> set[Origin]:
        """Return the columns that determine the row count of a generator in a select list."""
        return {
            column
            for found in node.find_all(exp.Func)
            if _name_of(found) in spark_version.GENERATORS
            for column in self._origins(found, scope)
        }

    def _origins(self, node: exp.Expr | None, scope: _Tables) -> dict[Origin, OriginKind]:
        """Return the origins of an expression, or of a clause with expressions."""
        if node is None:
            return {}
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Star):
            return {} if isinstance(node.parent, exp.Count) else self._all(node, scope, None)
        if isinstance(node, exp.Query):
            relation = self._query(node, scope.names, scope)
            return joined_origins(*relation.columns.values(), as_rows(relation.rows))
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            return as_rows(self._origins(node.this, scope))
        if isinstance(node, exp.Window):
            return joined_origins(self._origins(node.this, scope), self._order(node, scope))
        if isinstance(node, (exp.ArgMax, exp.ArgMin, exp.Filter)):
            chosen = as_rows(self._origins(node.expression, scope))
            return joined_origins(self._origins(node.this, scope), chosen)
        if isinstance(node, exp.Anonymous) and node.name.lower() not in _FUNCTIONS:
            self._functions.add(node.name.lower())
        return joined_origins(*(self._origins(child, scope) for child in node.iter_expressions()))

    def _order(self, node: exp.Expr, scope: _Tables) -> dict[Origin, OriginKind]:
        """Return the origins of a window, without its function."""
        clauses = [
            clause
            for name in ("partition_by", "order", "spec")
            for clause in ensure_list(node.args.get(name) or [])
        ]
        origins = joined_origins(*(self._origins(clause, scope) for clause in clauses))
        return joined_origins(as_rows(origins), scope.windows.get(node.alias, {}))

    def _column(self, node: exp.Column, scope: _Tables) -> dict[Origin, OriginKind]:
        if isinstance(node.this, exp.Star):
            return self._all(node.this, scope, node.table)
        if not node.table and node.name in scope.outputs:
            return dict(scope.outputs[node.name])
        around: _Tables | None = scope
        while around is not None and node.table not in around.tables:
            around = around.outer
        relation = around.tables[node.table] if around else QueryOrigins({})
        if node.name in relation.columns:
            return dict(relation.columns[node.name])
        if relation.unknown is not None:
            return {Origin(relation.unknown, node.name): "value"}
        if relation.other is not None:
            return dict(relation.other)
        raise NotAnalysed(f"`{node.sql(dialect=dialect.SPARK)}` is not a column of its inputs")

    def _all(self, star: exp.Star, scope: _Tables, table: str | None) -> dict[Origin, OriginKind]:
        """Return the origins of `struct(*)` and similar: every column of the tables, or of one."""
        if self._unknown:
            raise NotAnalysed(f"`*`: {_of(self._unknown)}")
        left_out = {name.name for name in star.args.get("except_") or ()}
        return joined_origins(
            *(
                origins
                for alias, relation in scope.tables.items()
                if table in (None, alias)
                for name, origins in relation.columns.items()
                if name not in left_out
            )
        )


def _only(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse any clause that is not among these."""
    for name, value in node.args.items():
        if value and name not in allowed:
            raise NotAnalysed(f"`{name.rstrip('_').replace('_', ' ')}` is not analysed")


def _name_of(node: exp.Expr) -> str:
    """Return the name of a function, or of another kind of expression."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return str(node.sql_name() if isinstance(node, exp.Func) else node.key).lower()


def _renamed(relation: QueryOrigins, node: exp.Expr) -> QueryOrigins:
    """Rename the columns by the alias's column list, if it has one."""
    alias = node.args.get("alias")
    names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return relation
    if len(names) != len(relation.in_order):
        raise NotAnalysed(f"the alias {node.alias} names other columns")
    columns = [(name, origins) for name, (_, origins) in zip(names, relation.in_order, strict=True)]
    renamed = listed(columns, relation.rows)
    return replace(renamed, other=relation.other)
