"""The cut of a query at the limit of key locality: hidden tables below, the rest above.

A *hidden query* is a query below a cut that groups rows or makes them distinct. The rules for keys,
or those of traced rows, prove that it can be maintained incrementally. The *rest* is the query that
reads the tables of its hidden queries instead, and is computed in full.
There are five cuts:

- a query in brackets that groups or is DISTINCT becomes a hidden query unchanged;
- aggregates of all rows become aggregates over a hidden query, which groups them by a column;
- a grouping query with a window or a subquery in its select list or HAVING, or with a LIMIT, reads
  its groups from a hidden query;
- so does one with grouping sets, which aggregates the groups of all columns again;
- a grouping query aggregates finer groups, by another column as well, if nothing else can be cut.

A LIMIT is in the rest, so its rows are chosen among all groups, as in a full refresh. Where rows
tie, the choice is that of one computation of the whole table, and so one that Spark could make.

Texts are cut out of the query's own text, at positions that the tree knows. If a text does not
parse to its part of the tree, it is not cut. No SQL is generated from a tree, because that would
have to match Spark in every detail. A piece shares its parts, and the common table expressions that
it reads, with the query's tree. None of them is parsed or read again for each piece.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import decimal_of, is_exact
from headwaters.analysis.query_parts import (
    OF_SETS,
    bracket_pairs,
    clauses_of,
    columns_of_groups,
    grouping_columns,
    is_seen,
    is_wrapped,
    name_of_result,
    names_in_calls,
    names_in_having,
    names_of_results,
    new_names,
    results_of,
    tables_by_name,
    tables_of_query,
    tables_outside_with,
)
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input, Relation
from headwaters.analysis.scopes import (
    aggregates,
    is_grouped,
    parts_of,
    parts_of_sets,
    sets_of,
)
from headwaters.platform.spark_version import ANY_AGGREGATES
from headwaters.platform.sql import identifier

# The prefix of a hidden query's name in the rest. Its columns are `hw_1`, `hw_2`, …
STAGE = "hw_stage_"
_ALIAS = "hw_s"
# Limits: queries that are tried as hidden queries, and ways to group all rows.
_MOST_TRIED = 12
_MOST_WAYS = 6
# Candidate ends of a branch on each side of its first and last name.
_MOST_EDGES = 4
_OPERATORS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_ALL_OR_DISTINCT = {TokenType.ALL, TokenType.DISTINCT}
# Clauses of a select that allow a cut within it.
_CLAUSES = {"with_", "expressions", "from_", "joins", "where", "group", "having", "order"}
_CLAUSES |= {"limit", "offset"}
_WHOLE_NUMBERS = {"tinyint", "smallint", "int"}
# Averages of decimals with more digits are not cut. A quotient has at least 24 - 14 digits more
# than the average, so that rounding it once more gives the same for 4 billion rows.
_MOST_DIGITS_OF_AVERAGE = 14
# Aggregates of all rows, from those of the groups.
_AGAIN = {
    "count": "coalesce(sum({part}), 0)",
    "count_if": "coalesce(sum({part}), 0)",
    "max": "max({part})",
    "min": "min({part})",
    # the sum of a group with values is NULL after an overflow; the total is then NULL as well
    "sum": "cast(if(count_if({part} is null and {count} > 0) > 0, null, sum({part})) as {type})",
}


@dataclass(frozen=True)
class Stage:
    """A query below a cut. Its columns are `hw_1` and so on; `unique_key` names some of them.

    With `leads`, the changed rows of its inputs are traced to its columns `key`.
    """

    sql: str
    unique_key: tuple[str, ...]
    inputs: tuple[Input, ...]
    leads: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cut:
    """A query with its hidden queries cut out."""

    rest: str
    stages: tuple[Stage, ...]


# `Prove` returns a hidden query and its relation, or None without a proof. `Read` returns the
# relation of a query by rules that allow everything, or raises Refused. Both get the tree and the
# inputs that it may read. Trees may share common table expressions.
Prove = Callable[[str, exp.Query, Sequence[Input]], tuple[Stage, Relation[object]] | None]
Read = Callable[[exp.Query, Sequence[Input]], Relation[object]]


def cut(
    text: dialect.Text,
    relation: Relation[object],
    inputs: Sequence[Input],
    constant: Collection[str],
    prove: Prove,
    read: Read,
) -> Cut | None:
    """Return the query with everything possible in hidden queries; None if that gains nothing.

    `relation` is the result of `read` for the query. `constant` names inputs that seldom change.
    """
    try:
        cutter = _Cutter(text, inputs, prove, read)
        found = cutter.cut(relation, constant)
        if found is not None or not cutter.may_be_finer:
            return found
        return cutter.cut(relation, constant, is_finer=True)
    except Refused:
        return None


class _Cutter:
    def __init__(
        self,
        text: dialect.Text,
        inputs: Sequence[Input],
        prove: Prove,
        read: Read,
    ) -> None:
        # groups that cannot be hidden are made of finer ones
        self._is_finer = False
        # a query was found whose groups may be made of finer ones
        self.may_be_finer = False
        self._sql, self._tree, self._nodes = text.sql, text.tree, text.nodes
        self._inputs = {source.name.lower(): source for source in inputs}
        self._prove, self._read = prove, read
        # several callers parse and read the same texts
        self._parsed = functools.cache(dialect.parsed)
        self._pieces: dict[tuple[int, str, str], exp.Query] = {}
        self._proofs: dict[str, tuple[Stage, Relation[object]] | None] = {}
        self._tokens = text.tokens
        # positions of brackets, and of possible starts of clauses
        marks = {TokenType.L_PAREN, TokenType.R_PAREN, *_BEGINS}
        self._marks = [token for token in self._tokens if token.token_type in marks]
        self._places: dict[int, tuple[int, int] | None] = {}
        # types of the columns of hidden queries, by their SQL; empty if unknown
        self._types: dict[str, dict[str, str]] = {}
        # ids of nodes that contain queries or tables, windows, DISTINCT, and aggregates
        self._around = text.holders(exp.Query, exp.Table)
        self._around_windows = text.holders(exp.Window)
        self._around_distinct = text.holders(exp.Distinct)
        self._around_calls = text.around(
            node for node in text.nodes if dialect.name_of(node) in ANY_AGGREGATES
        )
        queries = [node for node in text.nodes if isinstance(node, exp.CTE)]
        self._ctes = {query.alias.lower(): query for query in queries}
        self._named_by = tables_by_name(queries, self._around)
        self._stages: list[Stage] = []
        # replacements: begin, end and text
        self._edits: list[tuple[int, int, str]] = []
        self._visited: set[str] = set()
        self._tried = 0

    @functools.cached_property
    def _at(self) -> dict[int, int]:
        """Return the index of each token by its start."""
        return {token.start: place for place, token in enumerate(self._tokens)}

    @functools.cached_property
    def _brackets(self) -> dict[int, int]:
        """Return the position of the closing bracket for each opening one."""
        return dict(bracket_pairs(self._marks))

    def cut(
        self, relation: Relation[object], constant: Collection[str], is_finer: bool = False
    ) -> Cut | None:
        """Return the cut; None unless only hidden queries read some input.

        With `is_finer`, groups that cannot be hidden are made of finer ones. The second search
        knows the proofs of the first.
        """
        self._is_finer, self._tried = is_finer, 0
        self._stages, self._edits, self._visited = [], [], set()
        nodes = self._nodes
        names = [query.alias.lower() for query in nodes if isinstance(query, exp.CTE)]
        if len(set(names)) < len(names) or set(names) & set(self._inputs):
            return None  # an ambiguous name
        for found in nodes:
            if type(found) not in dialect.NAMES:
                continue
            name = found.args["this"].lower()
            if "hw_" in name and (name not in self._inputs or isinstance(found, exp.Literal)):
                return None  # the text replaces names of hidden queries and inputs
        self._visit(self._tree)
        read = self._still_read(lambda node: tables_outside_with(node, self._around))
        below = {source.name.lower() for stage in self._stages for source in stage.inputs}
        if not below - read - {name.lower() for name in constant}:
            return None  # the rest reads all grouped inputs in full anyway
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
        """Return the edits, and those that remove common table expressions without readers."""
        clause = self._tree.args.get("with_")
        queries: list[exp.CTE] = clause.expressions if clause is not None else []
        # nested common table expressions stay in the text, used or not
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
        """Return the table names outside of edits, and those in the queries that they name."""
        found: set[str] = set()
        waiting = list(clauses_of(self._tree))
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

    def _visit(self, query: exp.Expr) -> None:
        """Cut a query, or the queries that it reads."""
        if isinstance(query, exp.Select) and self._tried < _MOST_TRIED:
            if query is not self._tree and (query.args.get("group") or query.args.get("distinct")):
                self._tried += 1
                if self._cut_whole(query):
                    return
            if is_grouped(query):
                self._tried += 1
                if self._cut_within(query):
                    for part in results_of(query):
                        self._visit_parts(part)
                    return
        self._visit_parts(query)

    def _visit_parts(self, node: exp.Expr) -> None:
        """Cut the queries within a clause, and those that it reads by name."""
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

    def _cut_whole(self, query: exp.Select) -> bool:
        """Make the query a hidden query; return true on success."""
        place, names = self._place_of_query(query), names_of_results(query)
        if place is None or names is None:
            return False
        own = [f"hw_{number}" for number in range(1, len(names) + 1)]
        listed, body = ", ".join(own), self._sql[slice(*place)]
        rows = f"select {listed} from (\n{{}}\n) as hw_q({listed})"
        stage = self._proven(query, rows.format(body), rows.format("select 1"))
        if stage is None:
            return False
        columns = [
            f"{column} as {identifier(name)}" if name is not None else column
            for column, name in zip(own, names, strict=True)
        ]
        read = f"select {', '.join(columns)} from {self._named(stage)} as {_ALIAS}"
        self._edits.append((*place, read))
        return True

    def _cut_within(self, query: exp.Select) -> bool:
        """Make a hidden query of its groups, or of parts of them; true on success."""
        if any(value for name, value in query.args.items() if name not in _CLAUSES):
            return False
        clauses, orders = self._clauses(query), _orders(query)
        results = list(results_of(query))
        every = [*results, *orders]
        calls = [call for part in every for call in aggregates(part, self._around_calls)]
        calls = [call for call in calls if dialect.name_of(call) not in OF_SETS]
        selected = [name.lower() for node in query.expressions if (name := name_of_result(node))]
        ordered = [column for node in orders for column in columns_of_groups(node)]
        by_alias = [c for c in ordered if not c.table and c.name.lower() in selected]
        if (
            clauses is None
            or any(is_wrapped(call) or id(call) in self._around for call in calls)
            or (is_seen(query) and any(name_of_result(node) is None for node in query.expressions))
            or names_in_having(query) & new_names(query)
            or names_in_calls(orders) & new_names(query)
            or any(id(node) in self._around for node in orders)
            or self._tells_sets_apart(query.args.get("having"))
            or any(selected.count(column.name.lower()) > 1 for column in by_alias)
            or not all(self._is_alone(found) for part in results for found in self._queries(part))
        ):
            return False
        group = query.args.get("group")
        plain = [column for part in results for column in columns_of_groups(part)]
        plain += [column for column in ordered if not any(column is one for one in by_alias)]
        if group is None:
            return (
                bool(calls)
                and not plain
                and all(map(self._may_be_of_parts, calls))
                and not any(id(part) in self._around_windows for part in every)
                and any(
                    self._cut_parts(query, clauses, by, calls)
                    for by in self._ways(query, clauses, calls)
                )
            )
        keys = grouping_columns(query)
        of_sets = bool(sets_of(group))
        known = {"expressions", "rollup", "cube"} if of_sets else {"expressions"}
        if any(value for name, value in group.args.items() if name not in known) or any(
            node.is_star for node in query.expressions
        ):
            return False
        is_cut = (
            bool(keys)
            and {tuple(parts_of(column)) for column in plain} <= keys.keys()
            and (
                of_sets
                or query is not self._tree
                or _is_limited(query)
                or any(
                    id(part) in self._around or id(part) in self._around_windows for part in results
                )
            )
            and self._cut_groups(query, clauses, keys, plain, calls)
        )
        if is_cut or of_sets or not all(map(self._may_be_of_parts, calls)):
            return is_cut
        self.may_be_finer = True
        return self._is_finer and self._cut_finer(query, clauses, plain, calls)

    def _cut_groups(
        self,
        query: exp.Select,
        clauses: _Clauses,
        keys: Mapping[tuple[str, ...], exp.Column],
        plain: Sequence[exp.Column],
        calls: Sequence[exp.Expr],
    ) -> bool:
        """Make a hidden query of the query's groups; of the finest ones for grouping sets.

        A group of a grouping set consists of whole groups of all columns, because it leaves out
        columns, so its aggregates are those of parts.
        """
        of_sets = bool(sets_of(query.args["group"]))
        by = {name: self._text_of(key) for name, key in keys.items()}
        parts = [self._parts(query, clauses, call, is_again=of_sets) for call in calls]
        meant: dict[str, exp.Expr] = {self._text_of(key): key for key in keys.values()}
        made = self._made_of_parts(query, clauses, list(by.values()), meant, calls, parts)
        if made is None:
            return False
        stage, columns, edits = made
        for column in plain:
            name = f" as {identifier(column.name)}" if column.parent is query else ""
            text = f"{columns[by[tuple(parts_of(column))]]}{name}"
            edits.append((*self._place_of(column), text))
        if of_sets:
            for node in query.args["group"].expressions:
                for key in parts_of_sets(node):
                    if isinstance(key, exp.Column):
                        text = columns[by[tuple(parts_of(key))]]
                        edits.append((*self._place_of(key), text))
        elif "having" in clauses:
            begin = clauses["having"][0]
            edits.append((begin, begin + len("having"), "where"))
        self._edits += edits
        self._read_stage(query, clauses, stage, is_grouped_again=of_sets)
        return True

    def _cut_parts(
        self, query: exp.Select, clauses: _Clauses, by: Sequence[str], calls: Sequence[exp.Expr]
    ) -> bool:
        """Make a hidden query of parts of the one group, which are grouped by columns."""
        parts = [self._parts(query, clauses, call, is_again=True, by=by) for call in calls]
        made = self._made_of_parts(query, clauses, by, {}, calls, parts)
        if made is None:
            return False
        stage, _, edits = made
        self._edits += edits
        self._read_stage(query, clauses, stage, is_grouped_again=False)
        return True

    def _cut_finer(
        self,
        query: exp.Select,
        clauses: _Clauses,
        plain: Sequence[exp.Column],
        calls: Sequence[exp.Expr],
    ) -> bool:
        """Make a hidden query of parts of the query's groups, by another column as well.

        The parts are grouped by all columns and expressions of the query's groups. So a group
        consists of whole parts, and its aggregates are those of parts. The groups may depend on
        several rows, as a customer's first order does, if the rules prove the parts by the other
        column.
        """
        keys = self._keys_of_groups(query, clauses)
        if keys is None:
            return False
        within = {id(column) for key in keys for column in key.within}
        plain = [column for column in plain if id(column) not in within]
        by_name = {tuple(parts_of(key.tree)): key for key in keys if type(key.tree) is exp.Column}
        if not {tuple(parts_of(column)) for column in plain} <= by_name.keys():
            return False
        texts, meant = [key.text for key in keys], {key.text: key.tree for key in keys}
        used = (column for key in keys for column in dialect.found(key.tree, exp.Column))
        columns_of_keys = [*dict.fromkeys(map(self._text_of, used))]
        for by in self._ways(query, clauses, calls, columns_of_keys):
            parts = [self._parts(query, clauses, call, is_again=True, by=by) for call in calls]
            made = self._made_of_parts(query, clauses, [*texts, *by], meant, calls, parts)
            if made is None:
                continue
            stage, columns, edits = made
            types = self._types[stage.sql]
            if not all(is_exact(types[columns[text]]) for text in (*texts, *by)):
                return False  # a run would refuse a hidden table with such a column
            for column in plain:
                name = f" as {identifier(column.name)}" if column.parent is query else ""
                text = f"{columns[by_name[tuple(parts_of(column))].text]}{name}"
                edits.append((*self._place_of(column), text))
            edits += [(*place, columns[key.text]) for key in keys for place in key.places]
            self._edits += edits
            self._read_stage(query, clauses, stage, is_grouped_again=True)
            return True
        return False

    def _keys_of_groups(self, query: exp.Select, clauses: _Clauses) -> list[_Key] | None:
        """Return what a query groups by; None if a text is not found.

        `_proven_groups` compares each text with its tree.
        """
        place = self._place_of_query(query)
        assert place is not None
        nodes, grouped = query.expressions, query.args["group"].expressions
        listed = self._items(place[0], clauses["rows"][0], TokenType.SELECT)
        groups = self._items(*clauses["group"], TokenType.GROUP_BY)
        if len(listed) != len(nodes) or len(groups) != len(grouped):
            return None
        # without their aliases
        items = [
            (tokens[0].start, tokens[-1 - _length_of_alias(node, tokens)].end + 1)
            for node, tokens in zip(nodes, listed, strict=True)
        ]
        found = []
        for node, tokens in zip(grouped, groups, strict=True):
            tree, places = node, [(tokens[0].start, tokens[-1].end + 1)]
            if isinstance(node, exp.Literal):
                number = int(node.name) - 1 if node.name.isdigit() and not node.is_string else -1
                if not 0 <= number < len(nodes):
                    return None
                tree, places = nodes[number].unalias(), []
            if isinstance(tree, exp.Literal):
                return None  # the hidden query would group by the column of that number
            if isinstance(tree, exp.Column):
                found.append(_Key(self._text_of(tree), tree, places, ()))
                continue
            same = [n for n, item in enumerate(nodes) if item.unalias() == tree]
            if not all(isinstance(nodes[n], exp.Alias) for n in same) or not (places or same):
                return None
            begin, end = places[0] if places else items[same[0]]
            columns = [part for n in same for part in dialect.found(nodes[n], exp.Column)]
            every = [*places, *(items[n] for n in same)]
            found.append(_Key(self._sql[begin:end], tree, every, columns))
        return found

    def _items(self, begin: int, end: int, after: TokenType) -> list[list[Token]]:
        """Return the tokens of each item of a list that follows a word, outside of brackets."""
        starts = [token.start for token in self._tokens]
        depth, items = 0, list[list[Token]]()
        for token in self._tokens[bisect_left(starts, begin) : bisect_left(starts, end)]:
            depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
            if depth == 0 and token.token_type is after:
                items = [[]]
            elif depth == 0 and token.token_type is TokenType.COMMA and items:
                items.append([])
            elif items:
                items[-1].append(token)
            depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        return items if all(items) else []

    def _made_of_parts(
        self,
        query: exp.Select,
        clauses: _Clauses,
        by: Sequence[str],
        keys: Mapping[str, exp.Expr],
        calls: Sequence[exp.Expr],
        parts: Sequence[_Parts | None],
    ) -> tuple[Stage, Mapping[str, str], list[tuple[int, int, str]]] | None:
        """Return a hidden query of groups, its columns by their texts, and the aggregates' edits.

        `keys` are the trees of the columns in `by` that the rest names. Return None without a
        proof, or for sums of floating point numbers or of an unknown type.
        """
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        meant = {**keys, **_meant(known)}
        columns = _numbered([*by, *meant])
        stage = self._proven_groups(query, clauses, by, columns, meant)
        if stage is None:
            return None
        edits = []
        for call, part in zip(calls, known, strict=True):
            text = part.text(columns, self._types[stage.sql])
            if text is None:
                return None
            edits.append((*self._place_of(call), text))
        return stage, columns, edits

    def _tells_sets_apart(self, node: exp.Expr | None) -> bool:
        """Return true if a HAVING asks for the grouping set of a column.

        Spark finds the column only if the select list has it under its own name, and the rest
        selects it under another.
        """
        calls = aggregates(node, self._around_calls) if node is not None else ()
        return any(dialect.name_of(call) in OF_SETS and call.expressions for call in calls)

    def _may_be_of_parts(self, call: exp.Expr) -> bool:
        """Return false for an aggregate of all rows that no parts can make."""
        name = dialect.name_of(call)
        if id(call) in self._around_distinct:
            return name == "count" and bool(_distinct_of(call))
        return name in _AGAIN or name in ("avg", "mean")

    def _parts(
        self,
        query: exp.Select,
        clauses: _Clauses,
        call: exp.Expr,
        is_again: bool,
        by: Sequence[str] = (),
    ) -> _Parts | None:
        """Return how an aggregate is made of columns of a hidden query; None if it cannot be.

        With `is_again`, the rest aggregates rows of the hidden query; otherwise each is a group.
        """
        name, text = dialect.name_of(call), self._text_of(call)
        argument = text[text.index("(") + 1 : -1]
        if id(call) in self._around_distinct:
            if not is_again:
                return _Parts("", {text: call}, "{0}")
            # the parts by a column are its distinct values
            is_counted = name == "count" and bool(by) and tuple(by) == _distinct_of(call)
            return _Parts("", {}, "count({0})", by) if is_counted else None
        if name in ("avg", "mean") and len(call.expressions) == 1:
            return self._parts_of_average(query, clauses, call, argument, is_again)
        if not is_again:
            return _Parts("", {text: call}, "{0}")
        if name not in _AGAIN:
            return None
        if not _is_sum(call):
            return _Parts("", {text: call}, _AGAIN[name].format(part="{0}"))
        return _Parts(text, {text: call, **_call("count", argument, call)}, _AGAIN["sum"])

    def _parts_of_average(
        self,
        query: exp.Select,
        clauses: _Clauses,
        call: exp.Expr,
        argument: str,
        is_again: bool,
    ) -> _Parts | None:
        """Return an average as a quotient of a sum and a count.

        Spark divides the sums of whole numbers as doubles. It rounds a quotient of decimals to four
        digits more than they have; a quotient with more digits rounds to the same.
        """
        try:
            select = f"select {argument}"
            rows = self._sql[slice(*clauses["rows"])]
            type = self._read_piece(query, f"{select}\n{rows}", select).columns[0].type
        except Refused:
            return None
        meant = _call("sum", argument, call) | _call("count", argument, call)
        added, counted = (
            ("sum({0})", "nullif(sum({1}), 0)") if is_again else ("{0}", "nullif({1}, 0)")
        )
        if type in _WHOLE_NUMBERS:
            return _Parts("", meant, f"(cast({added} as double) / {counted})")
        if not is_again:
            return _Parts("", {self._text_of(call): call}, "{0}")
        number = decimal_of(type)
        if number is None or number[0] > _MOST_DIGITS_OF_AVERAGE:
            return None
        digits, scale = number
        added = f"cast({added} as decimal({digits + 10},{scale}))"
        quotient = f"cast({added} / {counted} as decimal({digits + 4},{scale + 4}))"
        return _Parts("", meant, quotient)

    def _proven_groups(
        self,
        query: exp.Select,
        clauses: _Clauses,
        by: Iterable[str],
        columns: Mapping[str, str],
        meant: Mapping[str, exp.Expr],
    ) -> Stage | None:
        """Prove a hidden query whose `columns` map texts to names; each must parse as `meant`."""
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

    def _read_stage(
        self, query: exp.Select, clauses: _Clauses, stage: Stage, is_grouped_again: bool
    ) -> None:
        """Replace the relations that the query reads and groups by a hidden query."""
        begin, end = clauses["rows"]
        if not is_grouped_again:
            end = clauses.get("group", clauses["rows"])[1]
        self._edits.append((begin, end, f"from {self._named(stage)} as {_ALIAS} "))
        if "order" in clauses and not _is_limited(query):
            self._edits.append((*clauses["order"], " "))

    def _ways(
        self,
        query: exp.Select,
        clauses: _Clauses,
        calls: Sequence[exp.Expr],
        grouped: Sequence[str] = (),
    ) -> Iterator[Sequence[str]]:
        """Yield columns that group rows into fewer parts than there are rows.

        They are equated columns, a key of several columns without its last one, and dates. There
        are few dates, and runs skip files without the affected ones. Distinct values of a column
        need parts by this column. The query groups by the columns `grouped` already.
        """
        distinct = [call for call in calls if id(call) in self._around_distinct]
        rows = f"\n{self._sql[slice(*clauses['rows'])]}"
        conditions = [query.args["where"]] if query.args.get("where") else []
        joins = query.args.get("joins") or ()
        conditions += [join.args["on"] for join in joins if join.args.get("on")]
        found: dict[tuple[str, ...], None] = {}
        for condition in conditions:
            for equal in dialect.found(condition, exp.EQ):
                if isinstance(equal.this, exp.Column) and isinstance(equal.expression, exp.Column):
                    for column in (equal.this, equal.expression):
                        found[(".".join(map(identifier, parts_of(column))),)] = None
        try:
            relation = self._read_piece(query, f"select *{rows}", "select *")
            names = [column.name.lower() for column in relation.columns]
            for key in relation.unique:
                places = [n for n, column in enumerate(relation.columns) if column.id in key]
                own = [names[place] for place in places[:-1]]
                if own and all(names.count(name) == 1 for name in own):
                    found[tuple(map(identifier, own))] = None
            for name, made in zip(names, relation.columns, strict=True):
                if made.type == "date" and names.count(name) == 1:
                    found[(identifier(name),)] = None
        except Refused:
            pass
        if distinct:
            counted = _distinct_of(distinct[0])
            found = {counted: None} if counted else {}
        for by in list(found)[:_MOST_WAYS]:
            try:
                listed = f"select {', '.join((*by, *grouped))}"
                relation = self._read_piece(query, f"{listed}{rows}", listed)
            except Refused:
                continue
            if not any(key <= relation.ids for key in relation.unique):
                yield by

    def _proven(self, query: exp.Select, body: str, around: str = "") -> Stage | None:
        """Return SQL made of parts of a query as a hidden query; None without a proof."""
        tree = self._piece(query, body, around)
        sql = f"{self._with(query)}{body}"
        if sql not in self._proofs:
            self._proofs[sql] = self._prove(sql, tree, self._used(tree))
        proven = self._proofs[sql]
        if proven is None:
            return None
        stage, relation = proven
        self._types[stage.sql] = {column.name: column.type or "" for column in relation.columns}
        return stage

    def _named(self, stage: Stage) -> str:
        """Return the name that the rest uses for a hidden query."""
        if stage not in self._stages:
            self._stages.append(stage)
        return f"{STAGE}{self._stages.index(stage) + 1}"

    def _queries(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """Yield the outermost subqueries of an expression."""
        for child in dialect.within(node) if id(node) in self._around else ():
            if isinstance(child, exp.Query) and not isinstance(child, exp.Subquery):
                yield child
            else:
                yield from self._queries(child)

    def _is_alone(self, query: exp.Expr) -> bool:
        """Return true if a subquery reads no column of the queries around it.

        The rest puts it into other queries, which might resolve a name further out.
        """
        place = self._place_of_query(query)
        try:
            return bool(place and self._read_piece(query, self._sql[slice(*place)]))
        except Refused:
            return False

    def _piece(self, query: exp.Expr, body: str, around: str = "") -> exp.Query:
        """Return the tree of SQL made of parts of a query, with the WITH queries that it reads.

        `around` is the same SQL without its known parts, which may be long. It omits FROM and WHERE
        if they are those of the query, or has another query in brackets instead of this one.
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
            # do not change their parents: they remain parts of the query
            tree.args["with_"] = exp.With()
            tree.args["with_"].args["expressions"] = read
            tree.args["with_"].parent = tree
        return tree

    def _read_piece(self, query: exp.Expr, body: str, around: str = "") -> Relation[object]:
        """Return the relation of a piece by rules that allow everything. Raises Refused."""
        tree = self._piece(query, body, around)
        return self._read(tree, self._used(tree))

    def _used(self, tree: exp.Query) -> list[Input]:
        """Return the inputs that a piece reads, directly or through common table expressions."""
        names = tables_of_query(tree, self._named_by)
        return [source for name, source in self._inputs.items() if name in names]

    def _read_by(self, query: exp.Expr) -> list[exp.CTE]:
        """Return the common table expressions around a query that it reads."""
        read = tables_of_query(query, self._named_by, self._around) & self._ctes.keys()
        if not read:
            return []
        inner = {id(found) for node in clauses_of(query) for found in dialect.found(node, exp.CTE)}
        return [
            found for name, found in self._ctes.items() if name in read and id(found) not in inner
        ]

    def _with(self, query: exp.Expr) -> str:
        """Return them as a WITH clause."""
        texts = []
        for found in self._read_by(query):
            place = self._place_of_query(found.this)
            if place is None:
                raise dialect.refused(found, "HW_NOT_UNDERSTOOD", "its text is not found")
            columns = [identifier(column.name) for column in found.args["alias"].columns]
            listed = f"({', '.join(columns)})" if columns else ""
            texts.append(f"{identifier(found.alias)}{listed} as (\n{self._sql[slice(*place)]}\n)")
        return f"with {', '.join(texts)}\n" if texts else ""

    def _place_of_query(self, query: exp.Expr) -> tuple[int, int] | None:
        """Return begin and end of a query: the whole text, the inside of brackets, or a branch."""
        if query is self._tree:
            return 0, len(self._sql)
        if id(query) not in self._places:
            self._places[id(query)] = self._found(query)
        return self._places[id(query)]

    def _place_after_as(self, query: exp.CTE) -> tuple[int, int] | None:
        """Return begin and end of the query in brackets after AS of a common table expression."""
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
        """Return the positions at which branches of set operations may begin and end."""
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
        """Return begin and end of clauses: `rows` (FROM to WHERE), `group`, `having`, `order`."""
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
        """Return begin and end of a column or a function call. Raises Refused."""
        words = [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]
        first = node.parts[0] if isinstance(node, exp.Column) else node
        at = self._at.get(first.meta_get("start", -1))
        found = self._tokens[at : at + 2 * len(words)] if at is not None else []
        # a name consists of words with a dot between them
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
    TokenType.LIMIT: "limit",
    TokenType.OFFSET: "offset",
}


@dataclass(frozen=True)
class _Parts:
    """An aggregate as an expression over the columns of a hidden query.

    `meant` maps their texts to their trees, in the order of the numbers in `made`, which `by` names
    if the column groups the hidden query. `sum` is the text of a sum whose type it repeats.
    """

    sum: str
    meant: Mapping[str, exp.Expr]
    made: str
    by: Sequence[str] = ()

    def text(self, columns: Mapping[str, str], types: Mapping[str, str]) -> str | None:
        """Return the expression; None if the type of the sum is unknown or inexact."""
        names = [columns[text] for text in (*self.by, *self.meant)]
        if not self.sum:
            return self.made.format(*names)
        type = types[columns[self.sum]]
        return self.made.format(part=names[0], count=names[1], type=type) if type else None


@dataclass(frozen=True)
class _Key:
    """A column or an expression that a query groups by.

    `places` are those of its texts in GROUP BY, and of an expression in the select list, where its
    columns are `within`.
    """

    text: str
    tree: exp.Expr
    places: Sequence[tuple[int, int]]
    within: Sequence[exp.Column]


def _length_of_alias(node: exp.Expr, tokens: Sequence[Token]) -> int:
    """Return the number of tokens of the alias at the end of an item of the select list."""
    if not isinstance(node, exp.Alias) or len(tokens) < 3:
        return 0
    return 2 if tokens[-2].token_type is TokenType.ALIAS else 1


def _meant(parts: Iterable[_Parts]) -> dict[str, exp.Expr]:
    """Return the texts of all parts with their trees, the first of each part first."""
    every = [list(part.meant.items()) for part in parts]
    return dict([*(own[0] for own in every if own), *itertools.chain.from_iterable(every)])


def _call(name: str, argument: str, call: exp.Expr) -> dict[str, exp.Expr]:
    """Return another aggregate of the same argument, by its text."""
    arguments = [found.copy() for found in call.expressions]
    return {f"{name}({argument})": exp.Anonymous(this=name, expressions=arguments)}


def _distinct_of(call: exp.Expr) -> tuple[str, ...]:
    """Return the column whose distinct values are aggregated, as `by`; empty for others."""
    (argument,) = call.expressions if len(call.expressions) == 1 else [call]
    values = argument.expressions if isinstance(argument, exp.Distinct) else []
    if len(values) != 1 or not isinstance(values[0], exp.Column):
        return ()
    return (".".join(map(identifier, parts_of(values[0]))),)


def _is_limited(query: exp.Select) -> bool:
    """Return true if the order of the query decides which rows it has."""
    return bool(query.args.get("limit") or query.args.get("offset"))


def _orders(query: exp.Select) -> list[exp.Expr]:
    """Return the expressions of an order that decides which rows the query has."""
    order = query.args.get("order")
    return [found.this for found in order.expressions] if order and _is_limited(query) else []


def _hidden(number: int, stage: Stage, types: Mapping[str, str]) -> Input:
    """Return a hidden query as an input of the rest."""
    return Input(f"{STAGE}{number}", "", "lookup", types, [frozenset(stage.unique_key)])


def _is_sum(call: exp.Expr) -> bool:
    return call.name.lower() == "sum"


def _numbered(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts mapped to `hw_1`, `hw_2` and so on."""
    return {text: f"hw_{number}" for number, text in enumerate(dict.fromkeys(texts), 1)}
