"""The meaning of names in a query, independent of its operators: for queries that no rule reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.scopes import arguments_of, parts_of
from headwaters.platform import spark_version
from headwaters.platform.names import nearest

# The names of tables with those of their columns, all in lower case.
Tables = Mapping[str, frozenset[str]]
READS_TABLE = "changes of a table that a function reads would be missed"
READ_IT = (
    "Read the table in the model's SQL, as an input, in place of the call, or make the model a "
    "table (materialized: table)"
)
_OF_FILES = "maintenance moves a row into another file, which is no change of the input"
_KEEP_FILE = (
    "Ingestion keeps the file as the column _source_file: select that, or make the model a table "
    "(materialized: table)"
)
_OF_VARIABLES = "a variable of the session may have another value in each run"
_OF_INPUTS = "Take the value from a column of an input, or make the model a table"
# A query that selects `*` and has only these clauses hands each column on under its name.
_HANDED_ON = {"with_", "expressions", "from_", "joins", "laterals", "where", "hint"}


def query_of(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression that a table name refers to; None for other tables."""
    if table.args.get("db"):
        return None
    inner: exp.Expr = table
    outer = table.parent
    while outer is not None:
        if isinstance(outer, exp.With):
            # a query sees those before it, and itself if it is recursive
            place = next(n for n, query in enumerate(outer.expressions) if query is inner)
            known = outer.expressions[: place + bool(outer.args.get("recursive"))]
        elif isinstance(inner, exp.With):
            known = []
        else:
            clause = outer.args.get("with_")
            known = clause.expressions if clause is not None else []
        for query in reversed(known):
            if query.alias.lower() == table.name.lower():
                assert isinstance(query, exp.CTE)
                return query
        inner, outer = outer, outer.parent
    return None


def refuse_unmarked(nodes: Iterable[exp.Expr], known: Iterable[str]) -> None:
    """Refuse tables other than inputs, because a replaced table would miss their changes."""
    for table in _unmarked(nodes, frozenset(known)):
        raise dialect.refused(table, "HW_UNMARKED_INPUT", "it is no input of the model")


def _unmarked(nodes: Iterable[exp.Expr], names: frozenset[str]) -> Iterator[exp.Table]:
    for table in nodes:
        if not isinstance(table, exp.Table):
            continue
        is_function = isinstance(table.this, exp.Anonymous)
        if is_function or table.name.lower() in names or query_of(table) is not None:
            continue
        if table.find_ancestor(exp.Hint) is None:
            yield table


@contextmanager
def body_of(call: exp.Expr, body: str) -> Iterator[dialect.Text]:
    """Parse the body of a SQL function as the one column of a query.

    A refusal names the call, which is the part that the model contains. Raises Refused.
    """
    try:
        text = dialect.read(f"select {body}")
        for table in _unmarked(text.nodes, frozenset()):
            raise dialect.refused(table, "HW_FUNCTION_READS_TABLE", READS_TABLE, READ_IT)
        yield text
    except Refused as refused:
        name = dialect.name_of(call)
        while isinstance(call.parent, exp.Dot) and call.arg_key == "expression":
            call = call.parent
        clause, _ = refused.place
        reason = f"in the body of {name}, `{clause}`: {refused.reason}"
        raise dialect.refused(call, refused.code, reason, refused.remedy) from None


def is_column(node: exp.Column, tables: Tables) -> bool:
    """Return true if a bare name is a column of its query or of one around it, not a function."""
    name = parts_of(node)[0]
    query = _query_around(node)
    while query is not None:
        if any(_has(source, name, tables) for source in _sources(query)):
            return True
        query = _query_around(query)
    return False


def _query_around(node: exp.Expr) -> exp.Select | None:
    """Return the query whose columns are visible to an expression, or to a subquery within one."""
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        is_relation = isinstance(parent, exp.From) or (
            isinstance(parent, exp.Join) and node.arg_key == "this"
        )
        if isinstance(parent, exp.CTE) or (is_relation and not isinstance(node, exp.Lateral)):
            return None
        node, parent = parent, parent.parent
    return parent


def refuse_unknown(nodes: Sequence[exp.Expr], tables: Tables) -> None:
    """Refuse unknown names, such as session variables and the metadata of a file."""
    columns = [node for node in nodes if isinstance(node, exp.Column)]
    called = [node for node in nodes if isinstance(node, exp.Anonymous)]
    others = [node for node in nodes if not isinstance(node, (exp.Column, exp.Anonymous))]
    known = frozenset[str]().union(*tables.values(), tables, _given(others))
    # their columns may have names that Spark chooses
    is_open = any(dialect.name_of(node) in spark_version.TABLE_FUNCTIONS for node in called) or any(
        isinstance(node, (exp.Lateral, exp.Pivot, exp.Values)) for node in others
    )
    no_columns = {id(part) for node in called for part in _units(node)}
    for node in others:
        if isinstance(node, exp.Hint):
            no_columns.update(map(id, dialect.walked(node)))
    for column in columns:
        if id(column) in no_columns or isinstance(column.this, exp.Star):
            continue
        parts = parts_of(column)
        if len(parts) == 1 and parts[0] in known:
            continue
        is_bare = len(parts) == 1 and parts[0] in spark_version.BARE_FUNCTIONS
        is_hidden = "_metadata" in parts[:2] and "_metadata" not in known
        is_unknown = parts[0] not in known and not is_bare
        if is_hidden:
            raise dialect.refused(column, "HW_NONDETERMINISTIC", _OF_FILES, _KEEP_FILE)
        if is_unknown and parts[0] in spark_version.VARIABLE_PREFIXES:
            raise dialect.refused(column, "HW_NONDETERMINISTIC", _OF_VARIABLES, _OF_INPUTS)
        if is_unknown and not is_open:
            near = nearest(parts[0], {name for names in tables.values() for name in names})
            reason = "there is no such column in its inputs"
            reason += f", did you mean '{near}'" if near else ""
            raise dialect.refused(column, "HW_NO_SUCH_COLUMN", reason, "Correct the name")


def keeps_meaning(tree: exp.Query, added: Iterable[str]) -> bool:
    """Return true if added columns of the inputs do not change the result of the query.

    They do not if the query contains none of their names, and `*` only hands them on.
    """
    new = {name.lower() for name in added}
    for node in dialect.walked(tree):
        if isinstance(node, exp.Identifier) and node.name.lower() in new:
            return False
        if isinstance(node, exp.Join) and node.args.get("method"):
            return False
        if isinstance(node, exp.Pivot) or _counts_columns(node):
            return False
        if isinstance(node, exp.Star) and not _hands_on(node):
            return False
        if isinstance(node, exp.Anonymous) and node.name.lower() == "identifier":
            return False  # a text names a column
    return True


def used_columns(tree: exp.Query, table: str, columns: Sequence[str]) -> list[str]:
    """Return the columns of a table that the query needs for the same result.

    The query names them, or `*` hands them on to its result. If that is unclear, return all of
    them.
    """
    found = {node.name.lower() for node in dialect.walked(tree) if type(node) is exp.Identifier}
    others = [name for name in columns if name.lower() not in found]
    if not keeps_meaning(tree, others):
        return list(columns)
    tables = {table: frozenset(name.lower() for name in columns)}
    unused = {name for name in others if not _has(tree, name.lower(), tables)}
    return [name for name in columns if name not in unused]


def _counts_columns(node: exp.Expr) -> bool:
    """Return true if an alias names all columns of a table, or of a query that selects `*`."""
    if not isinstance(node, exp.TableAlias) or not node.columns:
        return False
    named = node.parent
    if isinstance(named, (exp.CTE, exp.Subquery)):
        return named.find(exp.Star) is not None
    return isinstance(named, exp.Table)


def _hands_on(star: exp.Star) -> bool:
    """Return true if the select list of the star only hands columns on, or counts rows."""
    holder = star.parent
    if isinstance(holder, exp.Anonymous):
        return holder.name.lower() == "count"
    query = holder.parent if isinstance(holder, exp.Column) else holder
    if not isinstance(query, exp.Select):
        return False
    around = query.parent
    if isinstance(around, exp.Exists):
        return True
    if any(value and name not in _HANDED_ON for name, value in query.args.items()):
        return False
    if isinstance(around, exp.Subquery):
        return isinstance(around.parent, (exp.From, exp.Join))
    return around is None or isinstance(around, (exp.CTE, exp.From, exp.Join))


def _sources(query: exp.Select) -> Iterator[exp.Expr]:
    """Yield the relations of a FROM clause."""
    clause = query.args.get("from_")
    for item in [*([clause] if clause else []), *(query.args.get("joins") or [])]:
        yield item.this
    yield from query.args.get("laterals") or []


def _has(source: exp.Expr, name: str, tables: Tables) -> bool:
    """Return true if a relation is known to have a column of this name."""
    if source.args.get("pivots"):
        return False
    joins = [] if isinstance(source, exp.Select) else source.args.get("joins") or []
    if any(_has(join.this, name, tables) for join in joins):
        return True
    alias = source.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return name in {column.name.lower() for column in alias.columns}
    if isinstance(source, exp.Table):
        query = query_of(source)
        if query is not None:
            return _has(query, name, tables)
        return name in tables.get(source.name.lower(), ())
    if isinstance(source, (exp.CTE, exp.Subquery, exp.SetOperation)):
        return _has(source.this, name, tables)
    if isinstance(source, exp.Select):
        return any(_selects(source, found, name, tables) for found in source.expressions)
    return False


def _selects(query: exp.Select, selected: exp.Expr, name: str, tables: Tables) -> bool:
    if not selected.is_star:
        return selected.alias_or_name.lower() == name
    star = selected.this if isinstance(selected, exp.Column) else selected
    left_out = {found.name.lower() for found in star.args.get("except_") or []}
    of = selected.table.lower() if isinstance(selected, exp.Column) else ""
    return name not in left_out and any(
        _has(source, name, tables)
        for source in _sources(query)
        if not of or source.alias_or_name.lower() == of
    )


def _given(nodes: Iterable[exp.Expr]) -> Iterator[str]:
    """Yield the names that a query gives to columns, tables, and parameters of lambdas."""
    for node in nodes:
        if isinstance(node, (exp.Alias, exp.CTE, exp.Table)):
            yield node.alias_or_name.lower()
        elif isinstance(node, exp.TableAlias):
            yield from (name.name.lower() for name in (node.this, *node.columns) if name)
        elif isinstance(node, exp.Lambda):
            yield from (name.name.lower() for name in node.expressions)
        elif isinstance(node, exp.Aliases):
            yield from (name.name.lower() for name in node.args["expressions"])


def _units(call: exp.Anonymous) -> Sequence[exp.Expr]:
    """Return the units among the arguments of a function, which are not columns."""
    return call.expressions[: len(call.expressions) - len(arguments_of(call))]
