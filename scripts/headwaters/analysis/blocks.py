"""The outermost block of a query, read through queries that only select and filter.

`with paid as (select * from orders where is_paid), final as (select id, price * 2 as double from
paid) select * from final` is the block `select id, price * 2 as double from orders where is_paid`.
Its columns and conditions refer to the tables that the innermost of these queries reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.equivalence import Normal, NotUnderstood, Structure, structure
from headwaters.analysis.scopes import conjuncts, is_grouped
from headwaters.platform import spark_version

# A query with only these clauses hands on rows of its input.
_HANDS_ON = {"with_", "expressions", "from_", "where"}
_UNDERSTOOD = _HANDS_ON | {"joins", "laterals", "group", "having", "distinct", "windows", "hint"}
# `window` returns a row for each window that contains the timestamp.
_SEVERAL = spark_version.GENERATORS | {"window"}
_ATOMS = (exp.Column, exp.Literal, exp.Anonymous, exp.Paren, exp.Null, exp.Boolean)


@dataclass(frozen=True)
class Block:
    """A query as columns and conditions over its inputs.

    `where` and `having` are the conjuncts of these clauses, `after` those over the result. `groups`
    are the GROUP BY expressions. `rest` is everything else, as text.
    """

    columns: dict[str, exp.Expr]
    where: tuple[exp.Expr, ...]
    having: tuple[exp.Expr, ...]
    after: tuple[exp.Expr, ...]
    rest: str
    groups: frozenset[Structure] = frozenset()
    is_grouped: bool = False
    has_windows: bool = False
    is_distinct: bool = False


def read(sql: str, inputs: Mapping[str, Sequence[str]]) -> Block:
    """Return the outermost block of a query over `inputs`, which are given with their columns.

    Raises NotUnderstood, or Refused if the SQL cannot be parsed.
    """
    tree = dialect.parsed(sql)
    for node in tree.walk():
        node.pop_comments()
    reader = _Reader(tree, inputs)
    return reader.normal(reader.core(tree, {}))


# The queries of the WITH clauses around a query, by name in lower case.
_Queries = dict[str, exp.Query]


@dataclass(frozen=True)
class _Core:
    """A query, its columns and conditions over its inputs, and the queries that it may name."""

    select: exp.Select
    queries: _Queries
    columns: dict[str, exp.Expr]
    after: tuple[exp.Expr, ...] = ()


class _Reader:
    def __init__(self, tree: exp.Query, inputs: Mapping[str, Sequence[str]]) -> None:
        self._inputs = {name.lower(): list(columns) for name, columns in inputs.items()}
        self._taken = {column.lower() for columns in inputs.values() for column in columns}
        self._taken |= {found.alias.lower() for found in tree.find_all(exp.Alias)}
        self._uses: dict[str, int] = {}
        for table in tree.find_all(exp.Table):
            self._uses[table.name.lower()] = self._uses.get(table.name.lower(), 0) + 1
        for query in tree.find_all(exp.CTE):
            if query.alias.lower() in self._inputs:
                raise NotUnderstood

    def core(self, query: exp.Expr, queries: _Queries) -> _Core:
        """Return the innermost query whose rows this query hands on."""
        queries = self._with(query, queries)
        if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
            if any(value for name, value in query.args.items() if name not in ("this", "with_")):
                raise NotUnderstood
            return self.core(query.this, queries)
        if not isinstance(query, exp.Select):
            raise NotUnderstood
        if any(value and name not in _UNDERSTOOD for name, value in query.args.items()):
            raise NotUnderstood
        below = self._below(query, queries)
        if below is None:
            return _Core(query, queries, self._columns(query, queries))
        source = query.args["from_"].this
        outer = _Handed(source.alias_or_name.lower(), below.columns)
        columns = outer.columns(query)
        where = query.args.get("where")
        conditions = tuple(outer.over(node, {}) for node in conjuncts(where.this)) if where else ()
        return replace(below, columns=columns, after=(*below.after, *conditions))

    def _with(self, query: exp.Expr, queries: _Queries) -> _Queries:
        clause = query.args.get("with_")
        if clause is None:
            return queries
        if clause.args.get("recursive"):
            raise NotUnderstood
        found = dict(queries)
        for one in clause.expressions:
            name = one.alias.lower()
            if name in found or one.args["alias"].columns or not isinstance(one.this, exp.Query):
                raise NotUnderstood
            if one.args.get("materialized") is not None:
                raise NotUnderstood
            found[name] = one.this
        return found

    def _below(self, query: exp.Select, queries: _Queries) -> _Core | None:
        """Return the query whose rows this query hands on; None if it does more than that."""
        clause = query.args.get("from_")
        if clause is None or any(
            value and name not in _HANDS_ON for name, value in query.args.items()
        ):
            return None
        where = query.args.get("where")
        for node in [*query.expressions, *([where] if where else [])]:
            if node.find(exp.Query, exp.Window, exp.Lambda) or _is_several(node):
                return None
        if is_grouped(query):
            return None
        source = clause.this
        named = source.args.get("alias")
        if (named is not None and named.columns) or any(
            source.args.get(part) for part in ("joins", "pivots", "sample", "laterals")
        ):
            return None
        inner: exp.Expr | None = None
        if isinstance(source, exp.Subquery):
            inner = source.this if not source.args.get("with_") else None
        elif isinstance(source, exp.Table) and not source.args.get("db"):
            name = source.name.lower()
            inner = queries.get(name) if self._uses.get(name) == 1 else None
        if inner is None:
            return None
        if isinstance(source, exp.Table):
            # a query sees only the queries before it
            names = list(queries)
            queries = {name: queries[name] for name in names[: names.index(source.name.lower())]}
        try:
            below = self.core(inner, queries)
        except NotUnderstood:
            return None
        is_whole = len(query.expressions) == 1 and type(query.expressions[0]) is exp.Star
        if below.select.args.get("distinct") and not (
            is_whole and not _left_out(query.expressions[0])
        ):
            return None  # the columns decide which rows are distinct
        return below

    def _columns(self, query: exp.Select, queries: _Queries) -> dict[str, exp.Expr]:
        """Return the columns of a query over its inputs; the other clauses refer to them."""
        scope = _Scope.of(query, queries, self._inputs)
        columns: dict[str, exp.Expr] = {}
        for node in query.expressions:
            if _is_several(node):
                raise NotUnderstood
            for name, value in scope.selected(node):
                _add(columns, name, scope.over(value, columns))
        return columns

    def normal(self, core: _Core) -> Block:
        """Return the block, with table names that do not depend on the text."""
        query, scope = core.select, _Scope.of(core.select, core.queries, self._inputs)
        own = self._columns(query, core.queries)
        group = query.args.get("group")
        groups = [self._grouped(node, own, scope) for node in group.expressions] if group else []
        if group and any(value for name, value in group.args.items() if name != "expressions"):
            raise NotUnderstood
        where = [scope.over(node, {}) for node in _conjuncts(query, "where")]
        having = [scope.over(node, own, prefers_alias=True) for node in _conjuncts(query, "having")]
        _refuse_aliases(query.args.get("windows") or [], own)
        grouped = is_grouped(query)
        after = list(core.after)
        if not grouped and not any(
            node.find(exp.Window) for node in (*core.columns.values(), *after, *own.values())
        ):
            where, after = where + after, []
        made = query.copy()
        parts = (list(core.columns.values()), where, having, after, groups)
        nodes = [node.copy() for part in parts for node in part]
        made.set("expressions", [exp.alias_(node, f"hw_{n}") for n, node in enumerate(nodes)])
        for clause in ("where", "having", "group", "with_"):
            made.set(clause, None)
        needed = _needed(made, core.queries)
        if needed:
            made.set("with_", exp.With(expressions=needed))
        normal = Normal(self._taken).query(made, {}, {}, 0)
        assert isinstance(normal, exp.Select)
        found = iter([node.this for node in normal.expressions])
        columns, where, having, after, groups = ([next(found) for _ in part] for part in parts)
        where, having, after = map(_without_true, (where, having, after))
        normal.set("expressions", [])
        shown = [*columns, *where, *having, *after]
        return Block(
            dict(zip(core.columns, columns, strict=True)),
            tuple(where),
            tuple(having),
            tuple(after),
            repr((structure(normal), [structure(node) for node in groups], grouped)),
            frozenset(structure(node) for node in groups),
            grouped,
            any(node.find(exp.Window) for node in shown),
            bool(query.args.get("distinct")),
        )

    def _grouped(self, node: exp.Expr, own: Mapping[str, exp.Expr], scope: _Scope) -> exp.Expr:
        """Return a GROUP BY expression; a number stands for the column at that position."""
        if isinstance(node, exp.Literal):
            if node.is_string or not node.name.isdigit():
                raise NotUnderstood
            if not 0 < int(node.name) <= len(own):
                raise NotUnderstood
            return list(own.values())[int(node.name) - 1].copy()
        return scope.over(node, own)


@dataclass(frozen=True)
class _Handed:
    """The columns that a query sees if it only hands on rows of another."""

    alias: str
    given: Mapping[str, exp.Expr]

    def columns(self, query: exp.Select) -> dict[str, exp.Expr]:
        found: dict[str, exp.Expr] = {}
        for node in query.expressions:
            if _is_star(node, self.alias):
                left_out = _left_out(node)
                for name, value in self.given.items():
                    if name.lower() not in left_out:
                        _add(found, name, value.copy())
            else:
                _add(found, _name_of(node), self.over(node.unalias(), found))
        return found

    def over(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """Return the expression over the inputs of the other query."""
        if isinstance(node, exp.Column):
            return self._column(node, aliases)
        made = node.copy()
        if isinstance(node, exp.Star):
            raise NotUnderstood
        for child, copied in zip(
            list(node.iter_expressions()), list(made.iter_expressions()), strict=True
        ):
            over = self.over(child, aliases)
            copied.replace(_bracketed(over) if isinstance(child, exp.Column) else over)
        return made

    def _column(self, node: exp.Column, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        parts = [part.name.lower() for part in node.parts]
        given = {name.lower(): value for name, value in self.given.items()}
        if isinstance(node.this, exp.Star) or len(parts) > 2:
            raise NotUnderstood
        if len(parts) == 2 and (parts[0] != self.alias or self.alias in given):
            raise NotUnderstood
        if parts[-1] in given:
            return given[parts[-1]].copy()
        known = {name.lower(): value for name, value in aliases.items()}
        if len(parts) == 1 and parts[0] in known:
            return known[parts[0]].copy()
        raise NotUnderstood


@dataclass(frozen=True)
class _Scope:
    """The tables that a query reads, with their columns; None if the columns are unknown."""

    tables: dict[str, list[str]] | None

    @classmethod
    def of(cls, query: exp.Select, queries: _Queries, inputs: Mapping[str, list[str]]) -> _Scope:
        try:
            return cls(_tables(query, queries, inputs))
        except NotUnderstood:
            return cls(None)

    def selected(self, node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
        """Yield the columns of an item of the select list, by name."""
        if not node.is_star:
            yield _name_of(node), node.unalias()
            return
        if self.tables is None:
            raise NotUnderstood
        left_out = _left_out(node)
        of = node.table.lower() if isinstance(node, exp.Column) else None
        if of is not None and of not in self.tables:
            raise NotUnderstood
        for alias, columns in self.tables.items():
            for name in columns if of in (None, alias) else ():
                if name.lower() not in left_out:
                    yield name, exp.column(name, table=alias)

    def over(
        self, node: exp.Expr, aliases: Mapping[str, exp.Expr], prefers_alias: bool = False
    ) -> exp.Expr:
        """Return the expression with qualified columns and with aliases replaced by their values.

        With `prefers_alias`, an ambiguous name may mean the alias.
        """
        if isinstance(node, (exp.Lambda, exp.Query)):
            _refuse_aliases([node], aliases)
            return node.copy()
        if isinstance(node, exp.Column):
            return self._column(node, aliases, prefers_alias)
        made = node.copy()
        for child, copied in zip(
            list(node.iter_expressions()), list(made.iter_expressions()), strict=True
        ):
            over = self.over(child, aliases, prefers_alias)
            copied.replace(_bracketed(over) if isinstance(child, exp.Column) else over)
        return made

    def _column(
        self, node: exp.Column, aliases: Mapping[str, exp.Expr], prefers_alias: bool
    ) -> exp.Expr:
        if len(node.parts) > 1 or isinstance(node.this, exp.Star):
            return node.copy()
        name = node.name.lower()
        known = {alias.lower(): value for alias, value in aliases.items()}
        of = [
            alias
            for alias, columns in (self.tables or {}).items()
            if name in {column.lower() for column in columns}
        ]
        source = exp.column(node.this.copy(), table=of[0]) if len(of) == 1 else None
        if name not in known:
            return source or node.copy()
        value = known[name]
        if self.tables is None and _is_bare(value, name):
            return node.copy()
        is_other = source is not None and structure(source) != structure(value)
        if self.tables is None or len(of) > 1 or (prefers_alias and is_other):
            raise NotUnderstood
        return source or value.copy()


def _is_bare(value: exp.Expr, name: str) -> bool:
    """Return true if the query selects a column under its own name, which is unambiguous."""
    return isinstance(value, exp.Column) and len(value.parts) == 1 and value.name.lower() == name


def _refuse_aliases(nodes: Iterable[exp.Expr], aliases: Mapping[str, exp.Expr]) -> None:
    """Refuse names that may refer to columns of the same query."""
    names = {
        alias.lower() for alias, value in aliases.items() if not _is_bare(value, alias.lower())
    }
    for node in nodes:
        for column in node.find_all(exp.Column):
            if len(column.parts) == 1 and column.name.lower() in names:
                raise NotUnderstood


def _tables(
    query: exp.Select, queries: _Queries, inputs: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """Return the tables of a FROM clause by alias, with their columns."""
    found: dict[str, list[str]] = {}
    clause = query.args.get("from_")
    if query.args.get("laterals"):
        raise NotUnderstood
    joins = query.args.get("joins") or []
    for holder in [*([clause] if clause else []), *joins]:
        if holder.args.get("using") or holder.args.get("method"):
            raise NotUnderstood
        kind = f"{holder.args.get('kind') or ''} {holder.args.get('side') or ''}".upper()
        if "SEMI" in kind or "ANTI" in kind:
            continue
        source = holder.this
        named = source.args.get("alias")
        if (named is not None and named.columns) or any(
            source.args.get(part) for part in ("joins", "pivots", "sample", "laterals")
        ):
            raise NotUnderstood
        alias = source.alias_or_name.lower()
        if not alias or alias in found:
            raise NotUnderstood
        found[alias] = _names(source, queries, inputs)
    if not found:
        raise NotUnderstood
    return found


def _names(source: exp.Expr, queries: _Queries, inputs: Mapping[str, list[str]]) -> list[str]:
    """Return the column names of a table or query."""
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        name = source.name.lower()
        if source.args.get("db"):
            raise NotUnderstood
        if name not in queries:
            if name not in inputs:
                raise NotUnderstood
            return inputs[name]
        names = list(queries)
        before = {known: queries[known] for known in names[: names.index(name)]}
        return _names(queries[name], before, inputs)
    if source.args.get("with_"):
        raise NotUnderstood
    if isinstance(source, exp.Subquery):
        return _names(source.this, queries, inputs)
    if isinstance(source, exp.SetOperation):
        return _names(source.this, queries, inputs)
    if not isinstance(source, exp.Select):
        raise NotUnderstood
    scope = _Scope.of(source, queries, inputs)
    found: list[str] = []
    for node in source.expressions:
        if _is_several(node):
            raise NotUnderstood
        found += [name for name, _ in scope.selected(node)]
    return found


def _needed(query: exp.Select, queries: _Queries) -> list[exp.Expr]:
    """Return the WITH queries that a query uses, directly or through others, in their order."""
    names: set[str] = set()
    waiting: list[exp.Expr] = [query]
    while waiting:
        for table in waiting.pop().find_all(exp.Table):
            name = table.name.lower()
            if name in queries and name not in names and not table.args.get("db"):
                names.add(name)
                waiting.append(queries[name])
    return [
        exp.CTE(this=queries[name].copy(), alias=exp.TableAlias(this=exp.to_identifier(name)))
        for name in queries
        if name in names
    ]


def _conjuncts(query: exp.Select, clause: str) -> list[exp.Expr]:
    found = query.args.get(clause)
    return list(conjuncts(found.this)) if found is not None else []


def _without_true(nodes: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Return the conjuncts without `true` and `1 = 1`, which every row meets."""
    return [node for node in nodes if not _is_true(node.unnest())]


def _is_true(node: exp.Expr) -> bool:
    if isinstance(node, exp.EQ):
        one, other = node.this.unnest(), node.expression.unnest()
        return isinstance(one, exp.Literal) and structure(one) == structure(other)
    return isinstance(node, exp.Boolean) and bool(node.this)


def _add(columns: dict[str, exp.Expr], name: str, value: exp.Expr) -> None:
    if not name or name.lower() in {known.lower() for known in columns}:
        raise NotUnderstood
    columns[name] = value


def _name_of(node: exp.Expr) -> str:
    if not isinstance(node, (exp.Alias, exp.Column)):
        raise NotUnderstood  # Spark derives the name from the text
    return str(node.alias_or_name)


def _is_star(node: exp.Expr, alias: str) -> bool:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        if node.table.lower() != alias:
            raise NotUnderstood
        return True
    return isinstance(node, exp.Star)


def _left_out(node: exp.Expr) -> set[str]:
    """Return the columns that `* except (…)` excludes."""
    star = node.this if isinstance(node, exp.Column) else node
    if any(value and name != "except_" for name, value in star.args.items()):
        raise NotUnderstood
    names = star.args.get("except_") or []
    return {found.name.lower() for found in names}


def _is_several(node: exp.Expr) -> bool:
    """Return true if an item of a select list may make several rows or columns."""
    return isinstance(node, exp.Aliases) or any(
        found.name.lower() in _SEVERAL for found in node.find_all(exp.Anonymous)
    )


def _bracketed(node: exp.Expr) -> exp.Expr:
    return node if isinstance(node, _ATOMS) else exp.Paren(this=node)
