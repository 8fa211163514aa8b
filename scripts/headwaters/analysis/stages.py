"""Cuts a query where it stops being local to a key: hidden tables below, the rest above.

A *hidden query* is one below a cut: it groups rows or makes them distinct, and the rules for keys
prove that it is maintained incrementally. The *rest* is the query with the tables of its hidden
queries in place of what they compute, and is computed in full. There are three cuts:

- a query in brackets that groups or is DISTINCT is a hidden query as it is;
- aggregates of all rows become aggregates of a hidden query's, which are grouped by a column;
- a query that groups and whose select list or HAVING has a window or a subquery reads its groups
  from a hidden query.

Texts are cut out of the query's own text, at the places that the tree knows: what is not found to
be the part of the tree that it was taken for is not cut. No SQL is written from a tree, which would
have to say in all details what Spark understands. The parts of a piece, and the common table
expressions that it reads, are those of the query's own tree, so that none is parsed or read once
more for each piece.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from sqlglot import TokenType, exp
from sqlglot.helper import ensure_list
from sqlglot.tokenizer_core import Token

from headwaters.analysis import dialect
from headwaters.analysis.functions import ANY_AGGREGATES
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input, Relation
from headwaters.analysis.scopes import aggregates, is_grouped, parts_of, unwrapped

# The name of a hidden query in the rest is this and its number. Its columns are `hw_1`, `hw_2`, …
STAGE = "hw_stage_"
_ALIAS = "hw_s"
# Queries that are tried as hidden queries, and ways to group all rows.
_MOST_TRIED = 12
_MOST_WAYS = 6
# Ends of branches on each side of what a branch mentions that are tried.
_MOST_EDGES = 4
_OPERATORS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_ALL_OR_DISTINCT = {TokenType.ALL, TokenType.DISTINCT}
# Clauses of a select that is cut within.
_CLAUSES = {"with_", "expressions", "from_", "joins", "where", "group", "having", "order"}
# Aggregates of all rows, of those of the groups.
_AGAIN = {
    "count": "coalesce(sum({part}), 0)",
    "count_if": "coalesce(sum({part}), 0)",
    "max": "max({part})",
    "min": "min({part})",
    # the part of a group that has values is NULL where it overflowed, and so is the sum
    "sum": "cast(if(count_if({part} is null and {count} > 0) > 0, null, sum({part})) as {type})",
}


@dataclass(frozen=True)
class Stage:
    """A query below a cut. Its columns are `hw_1` and so on, `unique_key` some of them."""

    sql: str
    unique_key: tuple[str, ...]
    inputs: tuple[Input, ...]


@dataclass(frozen=True)
class Cut:
    """A query that is cut."""

    rest: str
    stages: tuple[Stage, ...]


# A hidden query and what it is, if its SQL is proven to be one; a query as a relation by rules that
# allow everything, which raises Refused. Both of the tree and the inputs that it may read. Trees
# may share their common table expressions.
Prove = Callable[[str, exp.Query, Sequence[Input]], tuple[Stage, Relation] | None]
Read = Callable[[exp.Query, Sequence[Input]], Relation]


def cut(
    text: dialect.Text,
    relation: Relation,
    inputs: Sequence[Input],
    constant: Collection[str],
    prove: Prove,
    read: Read,
) -> Cut | None:
    """The query with hidden queries for what can be below cuts; None where nothing is gained.

    `relation` is what `read` gives of it; `constant` are names of inputs that seldom change.
    """
    try:
        return _Cutter(text, inputs, prove, read).cut(relation, constant)
    except Refused:
        return None


class _Cutter:
    def __init__(
        self, text: dialect.Text, inputs: Sequence[Input], prove: Prove, read: Read
    ) -> None:
        self._sql, self._tree, self._nodes = text.sql, text.tree, text.nodes
        self._inputs = {source.name.lower(): source for source in inputs}
        self._prove, self._read = prove, read
        # the same texts are parsed and read for one purpose and another
        self._parsed = functools.cache(dialect.parsed)
        self._pieces: dict[tuple[int, str, str], exp.Query] = {}
        self._tokens = text.tokens
        # where brackets open and close, and clauses may begin
        marks = {TokenType.L_PAREN, TokenType.R_PAREN, *_BEGINS}
        self._marks = [token for token in self._tokens if token.token_type in marks]
        self._places: dict[int, tuple[int, int] | None] = {}
        # of the columns of hidden queries, by their SQL; empty where they are not known
        self._types: dict[str, dict[str, str]] = {}
        # nodes of the tree that have queries or tables within them, and others
        self._around = text.holders(exp.Query, exp.Table)
        self._around_windows = text.holders(exp.Window)
        self._around_distinct = text.holders(exp.Distinct)
        self._around_calls = text.around(
            node for node in text.nodes if dialect.name_of(node) in ANY_AGGREGATES
        )
        queries = [node for node in text.nodes if isinstance(node, exp.CTE)]
        self._ctes = {query.alias.lower(): query for query in queries}
        self._named_by = _named_by(queries, self._around)
        self._stages: list[Stage] = []
        # begin and end of what is replaced, and by what
        self._edits: list[tuple[int, int, str]] = []
        self._visited: set[str] = set()
        self._tried = 0

    @functools.cached_property
    def _at(self) -> dict[int, int]:
        """Of each word by where it begins: the how manieth it is."""
        return {token.start: place for place, token in enumerate(self._tokens)}

    @functools.cached_property
    def _brackets(self) -> dict[int, int]:
        """Where brackets that open at a place close."""
        return dict(_brackets(self._marks))

    def cut(self, relation: Relation, constant: Collection[str]) -> Cut | None:
        """None where no input is read by hidden queries alone."""
        nodes = self._nodes
        names = [query.alias.lower() for query in nodes if isinstance(query, exp.CTE)]
        if len(set(names)) < len(names) or set(names) & set(self._inputs):
            return None  # a name that means two things
        for found in nodes:
            if type(found) not in dialect.NAMES:
                continue
            name = found.args["this"].lower()
            if "hw_" in name and (name not in self._inputs or isinstance(found, exp.Literal)):
                return None  # names of hidden queries and inputs are replaced in the text
        self._visit(self._tree)
        read = self._still_read(lambda node: _outside_with(node, self._around))
        below = {source.name.lower() for stage in self._stages for source in stage.inputs}
        if not below - read - {name.lower() for name in constant}:
            return None  # what is grouped is read in full all the same
        rest = self._sql
        for begin, end, text in sorted(self._left_out(), reverse=True):
            rest = f"{rest[:begin]}{text}{rest[end:]}"
        hidden = [
            _hidden(number, stage, self._types[stage.sql])
            for number, stage in enumerate(self._stages, 1)
        ]
        tree = self._parsed(rest)
        left = self._read(tree, [*self._inputs.values(), *hidden])
        if [column.name for column in left.columns] != [column.name for column in relation.columns]:
            return None
        return Cut(rest, tuple(self._stages))

    def _left_out(self) -> list[tuple[int, int, str]]:
        """The edits, and those that leave out common table expressions which nothing reads then."""
        clause = self._tree.args.get("with_")
        queries: list[exp.CTE] = clause.expressions if clause is not None else []
        # those within brackets stay in the text, whether anything reads them or not
        read = self._still_read(
            lambda node: dialect.found(node, exp.Table) if id(node) in self._around else ()
        )
        kept = [place for place, query in enumerate(queries) if query.alias.lower() in read]
        places = [self._place_after_as(query) for query in queries]
        first = self._at.get(queries[0].args["alias"].this.meta_get("start", -1)) if queries else 0
        if len(kept) == len(queries) or None in places or not first:
            return self._edits
        if self._tokens[first - 1].token_type is not TokenType.WITH:
            return self._edits
        begins = [query.args["alias"].this.meta["start"] for query in queries]
        ends = [place[1] + 1 for place in places if place is not None]
        last = max(kept, default=-1)
        if kept:
            gone = [(begins[n], begins[n + 1]) for n in range(last) if n not in kept]
            gone += [(ends[last], ends[-1])] if last < len(queries) - 1 else []
        else:
            gone = [(self._tokens[first - 1].start, ends[-1])]
        return [(begin, end, "") for begin, end in gone] + [
            edit for edit in self._edits if not any(b <= edit[0] < e for b, e in gone)
        ]

    def _still_read(self, tables_of: Callable[[exp.Expr], Iterable[exp.Table]]) -> set[str]:
        """Names of tables in what no edit replaces, and in the queries that they name."""
        found: set[str] = set()
        waiting = list(_within(self._tree))
        while waiting:
            for table in tables_of(waiting.pop()):
                start = table.this.meta_get("start", -1)
                name = table.name.lower()
                if name in found or any(begin <= start < end for begin, end, _ in self._edits):
                    continue
                found.add(name)
                if name in self._ctes:
                    waiting.append(self._ctes[name].this)
        return found

    # where to cut

    def _visit(self, query: exp.Expr) -> None:
        """Cut a query, or what it reads."""
        if isinstance(query, exp.Select) and self._tried < _MOST_TRIED:
            if query is not self._tree and (query.args.get("group") or query.args.get("distinct")):
                self._tried += 1
                if self._cut_whole(query):
                    return
            if is_grouped(query):
                self._tried += 1
                if self._cut_within(query):
                    for part in _results(query):
                        self._visit_parts(part)
                    return
        self._visit_parts(query)

    def _visit_parts(self, node: exp.Expr) -> None:
        """Cut the queries within a clause, and those that it reads by their names."""
        if isinstance(node, exp.Table) and node.name.lower() in self._ctes:
            name = node.name.lower()
            if name not in self._visited:
                self._visited.add(name)
                self._visit(self._ctes[name].this)
        for child in dialect.within(node):
            if isinstance(child, exp.Query) and not isinstance(child, exp.Subquery):
                self._visit(child)
            elif id(child) in self._around and not isinstance(child, exp.With):
                self._visit_parts(child)

    # a query in brackets

    def _cut_whole(self, query: exp.Select) -> bool:
        """Make it a hidden query. Whether it is one."""
        place, names = self._place_of_query(query), _names(query)
        if place is None or names is None:
            return False
        own = [f"hw_{number}" for number in range(1, len(names) + 1)]
        listed, body = ", ".join(own), self._sql[slice(*place)]
        rows = f"select {listed} from (\n{{}}\n) as hw_q({listed})"
        stage = self._proven(query, rows.format(body), rows.format("select 1"))
        if stage is None:
            return False
        columns = [
            f"{column} as {_quoted(name)}" if name is not None else column
            for column, name in zip(own, names, strict=True)
        ]
        read = f"select {', '.join(columns)} from {self._named(stage)} as {_ALIAS}"
        self._edits.append((*place, read))
        return True

    # within a query

    def _cut_within(self, query: exp.Select) -> bool:
        """Make a hidden query of its groups, or of parts of its one group. Whether it is one."""
        if any(value for name, value in query.args.items() if name not in _CLAUSES):
            return False
        clauses = self._clauses(query)
        results = list(_results(query))
        calls = [call for part in results for call in aggregates(part, self._around_calls)]
        if (
            clauses is None
            or any(_is_wrapped(call) or id(call) in self._around for call in calls)
            or (_is_seen(query) and any(_name(node) is None for node in query.expressions))
            or _names_in_having(query) & _new_names(query)
            or not all(self._is_alone(found) for part in results for found in self._queries(part))
        ):
            return False
        group = query.args.get("group")
        plain = [column for part in results for column in _columns(part)]
        if group is None:
            return (
                bool(calls)
                and not plain
                and not any(id(part) in self._around_windows for part in results)
                and all(dialect.name_of(call) in _AGAIN for call in calls)
                and not any(id(call) in self._around_distinct for call in calls)
                and any(
                    self._cut_parts(query, clauses, by, calls) for by in self._ways(query, clauses)
                )
            )
        keys = _keys(query)
        return (
            bool(keys)
            and not any(value for name, value in group.args.items() if name != "expressions")
            and not any(node.is_star for node in query.expressions)
            and {tuple(parts_of(column)) for column in plain} <= keys.keys()
            and any(
                id(part) in self._around or id(part) in self._around_windows for part in results
            )
            and self._cut_groups(query, clauses, keys, plain, calls)
        )

    def _cut_groups(
        self,
        query: exp.Select,
        clauses: _Clauses,
        keys: Mapping[tuple[str, ...], exp.Column],
        plain: Sequence[exp.Column],
        calls: Sequence[exp.Expr],
    ) -> bool:
        """A hidden query of the query's groups."""
        by = {name: self._text_of(key) for name, key in keys.items()}
        texts = {self._text_of(node): node for node in (*keys.values(), *calls)}
        columns = _numbered([*by.values(), *texts])
        stage = self._proven_groups(query, clauses, by.values(), columns, texts)
        if stage is None:
            return False
        for column in plain:
            name = f" as {_quoted(column.name)}" if column.parent is query else ""
            self._edits.append(
                (*self._place_of(column), f"{columns[by[tuple(parts_of(column))]]}{name}")
            )
        for call in calls:
            self._edits.append((*self._place_of(call), columns[self._text_of(call)]))
        if "having" in clauses:
            begin = clauses["having"][0]
            self._edits.append((begin, begin + len("having"), "where"))
        self._read_stage(clauses, stage)
        return True

    def _cut_parts(
        self, query: exp.Select, clauses: _Clauses, by: Sequence[str], calls: Sequence[exp.Expr]
    ) -> bool:
        """A hidden query of parts of the one group, which are grouped by columns."""
        texts = list(map(self._text_of, calls))
        counts = [_counted(text) for call, text in zip(calls, texts, strict=True) if _is_sum(call)]
        columns = _numbered([*by, *texts, *counts])
        meant = dict(zip(texts, calls, strict=True))
        stage = self._proven_groups(query, clauses, by, columns, meant)
        if stage is None:
            return False
        types = self._types[stage.sql]
        edits = []
        for call, text in zip(calls, texts, strict=True):
            part, count = columns[text], columns.get(_counted(text), "")
            if _is_sum(call) and not types[part]:
                return False  # of floating point numbers, or of who knows what
            again = _AGAIN[call.name.lower()].format(part=part, count=count, type=types[part])
            edits.append((*self._place_of(call), again))
        self._edits += edits
        self._read_stage(clauses, stage)
        return True

    def _proven_groups(
        self,
        query: exp.Select,
        clauses: _Clauses,
        by: Iterable[str],
        columns: Mapping[str, str],
        meant: Mapping[str, exp.Expr],
    ) -> Stage | None:
        """`columns`: texts and names of the select list, some of which are `meant` to be nodes."""
        listed = ", ".join(f"{text} as {name}" for text, name in columns.items())
        rows = self._sql[slice(*clauses["rows"])]
        group = f"\ngroup by {', '.join(by)}"
        body, around = f"select {listed}\n{rows}{group}", f"select {listed}{group}"
        made = self._piece(query, body, around).selects
        if len(made) != len(columns) or any(
            found.unalias() != meant.get(text, found.unalias())
            for text, found in zip(columns, made, strict=True)
        ):
            return None
        return self._proven(query, body, around)

    def _read_stage(self, clauses: _Clauses, stage: Stage) -> None:
        """Put it in place of what the query reads and groups."""
        begin, end = clauses["rows"][0], clauses.get("group", clauses["rows"])[1]
        self._edits.append((begin, end, f"from {self._named(stage)} as {_ALIAS} "))
        if "order" in clauses:
            self._edits.append((*clauses["order"], " "))

    def _ways(self, query: exp.Select, clauses: _Clauses) -> Iterator[Sequence[str]]:
        """Columns by which all rows may be grouped in parts that are fewer than the rows.

        Those that are equated, all but the last of a key of several columns, and dates, of which
        there are few: files that do not have the affected ones are left out.
        """
        rows = f"\n{self._sql[slice(*clauses['rows'])]}"
        conditions = [query.args["where"]] if query.args.get("where") else []
        joins = query.args.get("joins") or ()
        conditions += [join.args["on"] for join in joins if join.args.get("on")]
        found: dict[tuple[str, ...], None] = {}
        for condition in conditions:
            for equal in dialect.found(condition, exp.EQ):
                if isinstance(equal.this, exp.Column) and isinstance(equal.expression, exp.Column):
                    for column in (equal.this, equal.expression):
                        found[(".".join(map(_quoted, parts_of(column))),)] = None
        try:
            relation = self._read_piece(query, f"select *{rows}", "select *")
            names = [column.name.lower() for column in relation.columns]
            for key in relation.unique:
                places = [n for n, column in enumerate(relation.columns) if column.id in key]
                own = [names[place] for place in places[:-1]]
                if own and all(names.count(name) == 1 for name in own):
                    found[tuple(map(_quoted, own))] = None
            for name, made in zip(names, relation.columns, strict=True):
                if made.type == "date" and names.count(name) == 1:
                    found[(_quoted(name),)] = None
        except Refused:
            pass
        for by in list(found)[:_MOST_WAYS]:
            try:
                listed = f"select {', '.join(by)}"
                relation = self._read_piece(query, f"{listed}{rows}", listed)
            except Refused:
                continue
            if not any(key <= relation.ids for key in relation.unique):
                yield by

    # hidden queries

    def _proven(self, query: exp.Select, body: str, around: str = "") -> Stage | None:
        """SQL that is made of parts of a query, as a hidden query."""
        tree = self._piece(query, body, around)
        proven = self._prove(f"{self._with(query)}{body}", tree, self._used(tree))
        if proven is None:
            return None
        stage, relation = proven
        self._types[stage.sql] = {column.name: column.type or "" for column in relation.columns}
        return stage

    def _named(self, stage: Stage) -> str:
        """The name by which the rest reads a hidden query."""
        if stage not in self._stages:
            self._stages.append(stage)
        return f"{STAGE}{self._stages.index(stage) + 1}"

    def _queries(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """The subqueries of an expression, without those within them."""
        for child in dialect.within(node) if id(node) in self._around else ():
            if isinstance(child, exp.Query) and not isinstance(child, exp.Subquery):
                yield child
            else:
                yield from self._queries(child)

    def _is_alone(self, query: exp.Expr) -> bool:
        """Whether a subquery reads no column of the queries around it.

        In the rest there are others around it, and a name might be found in one further out.
        """
        place = self._place_of_query(query)
        try:
            return bool(place and self._read_piece(query, self._sql[slice(*place)]))
        except Refused:
            return False

    def _piece(self, query: exp.Expr, body: str, around: str = "") -> exp.Query:
        """The tree of SQL that is made of parts of a query, with what it reads by WITH.

        `around` is the same without what is known, and may be long: without FROM and WHERE, where
        they are those of the query, or with another query in brackets in place of this one.
        """
        key = id(query), body, around
        if key not in self._pieces:
            self._pieces[key] = self._made_of(query, around or body, bool(around))
        return self._pieces[key]

    def _made_of(self, query: exp.Expr, text: str, is_around: bool) -> exp.Query:
        tree = dialect.parsed(text)
        if is_around and tree.args.get("from_"):
            tree.args["from_"].this.args["this"] = query
        elif is_around:
            rows = ("from_", "joins", "where")
            tree.args |= {name: query.args[name] for name in rows if query.args.get(name)}
        read = self._read_by(query)
        if read and tree.args.get("with_"):
            raise dialect.refused(tree, "HW_NOT_UNDERSTOOD", "it has common table expressions")
        if read:
            # they stay those of the query: what is around them is not changed
            tree.args["with_"] = exp.With()
            tree.args["with_"].args["expressions"] = read
            tree.args["with_"].parent = tree
        return tree

    def _read_piece(self, query: exp.Expr, body: str, around: str = "") -> Relation:
        """What a piece is, by rules that allow everything. Raises Refused."""
        tree = self._piece(query, body, around)
        return self._read(tree, self._used(tree))

    def _used(self, tree: exp.Query) -> list[Input]:
        """The inputs that a piece reads, or common table expressions that it reads do."""
        names = _tables(tree, self._named_by)
        return [source for name, source in self._inputs.items() if name in names]

    def _read_by(self, query: exp.Expr) -> list[exp.CTE]:
        """The common table expressions around a query that it reads."""
        read = _tables(query, self._named_by, self._around) & self._ctes.keys()
        if not read:
            return []
        inner = {id(found) for node in _within(query) for found in dialect.found(node, exp.CTE)}
        return [
            found for name, found in self._ctes.items() if name in read and id(found) not in inner
        ]

    def _with(self, query: exp.Expr) -> str:
        """The same, as a clause."""
        texts = []
        for found in self._read_by(query):
            place = self._place_of_query(found.this)
            if place is None:
                raise dialect.refused(found, "HW_NOT_UNDERSTOOD", "its text is not found")
            columns = [_quoted(column.name) for column in found.args["alias"].columns]
            listed = f"({', '.join(columns)})" if columns else ""
            texts.append(f"{_quoted(found.alias)}{listed} as (\n{self._sql[slice(*place)]}\n)")
        return f"with {', '.join(texts)}\n" if texts else ""

    # places in the text

    def _place_of_query(self, query: exp.Expr) -> tuple[int, int] | None:
        """Where a query begins and ends: all of the text, what is within brackets, or a branch."""
        if query is self._tree:
            return 0, len(self._sql)
        if id(query) not in self._places:
            self._places[id(query)] = self._found(query)
        return self._places[id(query)]

    def _place_after_as(self, query: exp.CTE) -> tuple[int, int] | None:
        """Where what a common table expression has in brackets after AS begins and ends."""
        at = self._at.get(query.args["alias"].this.meta_get("start", -1))
        if at is None:
            return None
        following = self._tokens[at + 1 : at + 3]
        if query.args["alias"].columns and following:
            after = self._at.get(self._brackets.get(following[0].start, -1))
            following = self._tokens[after + 1 : after + 3] if after is not None else []
        if [token.token_type for token in following] != [TokenType.ALIAS, TokenType.L_PAREN]:
            return None
        closed = self._brackets.get(following[1].start)
        return None if closed is None else (following[1].end + 1, closed)

    def _found(self, query: exp.Expr) -> tuple[int, int] | None:
        if isinstance(query.parent, exp.CTE) and (place := self._place_after_as(query.parent)):
            return place
        starts = (node.meta_get("start") for node in dialect.walked(query))
        places = [start for start in starts if start is not None]
        if not places:
            return None
        first, last = min(places), max(places)
        around = [
            (opened + 1, closed)
            for opened, closed in self._brackets.items()
            if opened < first and last < closed
        ]
        around.sort(key=lambda place: place[1] - place[0])
        if isinstance(query.parent, exp.SetOperation):
            begins, ends = self._branches()
            begins, ends = [n for n in begins if n <= first], [n for n in ends if n > last]
            around += itertools.product(begins[-_MOST_EDGES:], ends[:_MOST_EDGES])
        for begin, end in around:
            try:
                if self._parsed(self._sql[begin:end]) == query:
                    return begin, end
            except Refused:
                continue
        return None

    def _branches(self) -> tuple[list[int], list[int]]:
        """Where branches of set operations may begin and end."""
        begins, ends = [0], list[int]()
        for token, after in zip(self._tokens, [*self._tokens[1:], None], strict=True):
            if token.token_type is TokenType.L_PAREN:
                begins.append(token.end + 1)
            elif token.token_type is TokenType.R_PAREN:
                ends.append(token.start)
            elif token.token_type in _OPERATORS:
                is_longer = after and after.token_type in _ALL_OR_DISTINCT
                begins.append((after if after and is_longer else token).end + 1)
                ends.append(token.start)
        return begins, [*ends, len(self._sql)]

    def _clauses(self, query: exp.Select) -> _Clauses | None:
        """Where clauses begin and end: `rows` (FROM and WHERE), `group`, `having` and `order`."""
        place = self._place_of_query(query)
        if place is None or not query.args.get("from_"):
            return None
        depth = 0
        begins: dict[str, int] = {}
        first, last = (bisect_left(self._marks, end, key=attrgetter("start")) for end in place)
        for token in self._marks[first:last]:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            name = _BEGINS.get(token.token_type) if depth == 0 else None
            if name is not None and begins.setdefault(name, token.start) != token.start:
                return None
        ends = [*list(begins.values())[1:], place[1]]
        clauses = dict(zip(begins, zip(begins.values(), ends, strict=True), strict=True))
        if "rows" not in clauses:
            return None
        begin, end = clauses["rows"][0], clauses.get("group", clauses["rows"])[1]
        alone = self._parsed(f"select 1 {self._sql[begin:end]}")
        same = all(
            alone.args.get(name) == query.args.get(name)
            for name in ("from_", "joins", "where", "group")
        )
        return clauses if same else None

    def _place_of(self, node: exp.Expr) -> tuple[int, int]:
        """Where a column, or the call of a function, begins and ends. Raises Refused."""
        words = [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]
        first = node.parts[0] if isinstance(node, exp.Column) else node
        at = self._at.get(first.meta_get("start", -1))
        found = self._tokens[at : at + 2 * len(words)] if at is not None else []
        # a name is one word or sign, and a dot between two of them
        if [token.text for token in found[: 2 * len(words) - 1 : 2]] == words:
            if isinstance(node, exp.Column):
                return found[0].start, found[2 * len(words) - 2].end + 1
            closed = self._brackets.get(found[1].start) if len(found) > 1 else None
            if closed is not None:
                return found[0].start, closed + 1
        raise dialect.refused(node, "HW_NOT_UNDERSTOOD", "its text is not found")

    def _text_of(self, node: exp.Expr) -> str:
        return self._sql[slice(*self._place_of(node))]


_Clauses = dict[str, tuple[int, int]]
_BEGINS = {
    TokenType.FROM: "rows",
    TokenType.GROUP_BY: "group",
    TokenType.HAVING: "having",
    TokenType.ORDER_BY: "order",
}


def _brackets(tokens: Iterable[Token]) -> Iterator[tuple[int, int]]:
    """Where brackets open and close."""
    opened = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token.start)
        elif token.token_type is TokenType.R_PAREN and opened:
            yield opened.pop(), token.start


def _hidden(number: int, stage: Stage, types: Mapping[str, str]) -> Input:
    """A hidden query as what the rest reads."""
    return Input(f"{STAGE}{number}", "", "lookup", types, [frozenset(stage.unique_key)])


def _results(query: exp.Select) -> Iterator[exp.Expr]:
    """What is computed of groups: the select list and HAVING."""
    yield from query.expressions
    if query.args.get("having"):
        yield query.args["having"]


def _keys(query: exp.Select) -> dict[tuple[str, ...], exp.Column]:
    """The columns by which a query groups, by their names; none if it groups by something else.

    A number stands for a column of the select list.
    """
    found = []
    for node in query.args["group"].expressions:
        key = node
        if isinstance(key, exp.Literal) and key.name.isdigit() and not key.is_string:
            key = dict(enumerate(query.expressions, 1)).get(int(key.name), key).unalias()
        if not isinstance(key, exp.Column):
            return {}
        found.append(key)
    return {tuple(parts_of(key)): key for key in found}


def _within(query: exp.Expr) -> Iterator[exp.Expr]:
    """The clauses of a query without its WITH, which stands before it."""
    for name, value in query.args.items():
        if name != "with_":
            yield from (node for node in ensure_list(value) if isinstance(node, exp.Expr))


def _tables(
    node: exp.Expr,
    named_by: Mapping[str, Collection[str]],
    around: Collection[int] | None = None,
) -> set[str]:
    """Names of the tables that are read, also by common table expressions, which name others.

    `around`: as of `_outside_with`.
    """
    parts = _within(node) if isinstance(node, exp.Select) else [node]
    waiting = [table.name.lower() for part in parts for table in _outside_with(part, around)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += named_by.get(name, ())
    return found


def _named_by(queries: Iterable[exp.CTE], around: Collection[int]) -> dict[str, set[str]]:
    """For each common table expression the names of the tables that it reads."""
    return {
        query.alias.lower(): {table.name.lower() for table in _outside_with(query.this, around)}
        for query in queries
    }


def _outside_with(node: exp.Expr, around: Collection[int] | None) -> Iterator[exp.Table]:
    """The tables of a query, without those that its common table expressions read.

    `around` has the ids of all nodes that have tables within them, None where they are not known.
    """
    waiting = [node] if around is None or id(node) in around else []
    while waiting:
        found = waiting.pop()
        if isinstance(found, exp.Table):
            yield found
        waiting += [
            child
            for child in dialect.within(found)
            if (id(child) in around if around is not None else type(child) not in dialect.ATOMS)
            and not isinstance(child, exp.With)
        ]


def _columns(node: exp.Expr, is_windowed: bool = False) -> Iterator[exp.Column]:
    """The columns of groups: neither in aggregates nor in subqueries.

    `is_windowed`: the function of a window, which may have the name of an aggregate and is none.
    """
    if isinstance(node, exp.Column):
        yield node
    elif not isinstance(node, exp.Query) and (
        is_windowed or dialect.name_of(node) not in ANY_AGGREGATES
    ):
        around = isinstance(node, exp.Window) or (is_windowed and unwrapped(node) is not node)
        for child in dialect.within(node):
            if type(child) not in dialect.NAMES:
                yield from _columns(child, around and child is node.this)


def _names_in_having(query: exp.Select) -> set[str]:
    """Names of columns that HAVING mentions, which may be those of the select list."""
    having = query.args.get("having")
    return {column.name.lower() for column in having.find_all(exp.Column)} if having else set()


def _new_names(query: exp.Select) -> set[str]:
    """The names that a select list gives to something else than the column of that name."""
    return {
        node.alias.lower()
        for node in query.expressions
        if isinstance(node, exp.Alias)
        and not (isinstance(node.this, exp.Column) and node.this.name.lower() == node.alias.lower())
    }


def _is_wrapped(call: exp.Expr) -> bool:
    """Whether FILTER and the like belong to an aggregate."""
    return isinstance(call.parent, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls))


def _is_sum(call: exp.Expr) -> bool:
    return call.name.lower() == "sum"


def _counted(sum: str) -> str:
    """How many values a sum has."""
    return f"count{sum[len('sum') :]}"


def _name(node: exp.Expr) -> str | None:
    """The name of a column of the select list; None where it has none, or is several."""
    if isinstance(node, exp.Alias):
        return node.alias
    return node.name if isinstance(node, exp.Column) and not node.is_star else None


def _is_seen(query: exp.Expr) -> bool:
    """Whether the names of a query's columns are those of a relation.

    They are not in an expression, where a list of columns names them, or another branch.
    """
    parent = query.parent
    if isinstance(parent, exp.Subquery):
        if isinstance(parent.parent, (exp.From, exp.Join)):
            return not parent.alias_column_names
        return isinstance(parent.parent, (exp.Lateral, exp.SetOperation, exp.Subquery, exp.CTE))
    if isinstance(parent, exp.CTE):
        return not parent.args["alias"].columns
    return parent is None or (isinstance(parent, exp.SetOperation) and parent.this is query)


def _names(query: exp.Select) -> list[str | None] | None:
    """The names of a query's columns, None for those without; None where they are not known."""
    if any(node.is_star and not isinstance(node, exp.Alias) for node in query.expressions):
        return None
    names = [_name(node) for node in query.expressions]
    if not _is_seen(query):
        return [None] * len(names)
    return None if None in names else names


def _numbered(texts: Iterable[str]) -> dict[str, str]:
    """`hw_1`, `hw_2` and so on for each text."""
    return {text: f"hw_{number}" for number, text in enumerate(dict.fromkeys(texts), 1)}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
