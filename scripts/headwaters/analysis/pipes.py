"""Pipe syntax as queries that mean the same.

Spark adds each operator to the plan of those before. A query that reads another by name does so
too: `from t |> select a |> where a > 1` is

    with _pipe_1 as (select a from t) select * from _pipe_1 where a > 1

Operators share a query in the order in which Spark evaluates clauses: relations, WHERE,
then a select list or groups or ORDER BY, then LIMIT. So `where` after `limit` is another query.
After the first query Spark still knows the names of its tables and its result does not, so a later
operator that uses such a name is refused, unless all rows are of one table and keep its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from headwaters.analysis.refusal import Refused

# A piece of text, and the line on which it begins.
Part = tuple[str, int]
_NAME = "_pipe_"
_JOINS = {
    *(TokenType.JOIN, TokenType.INNER, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL),
    *(TokenType.CROSS, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI),
}
_SETS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_PIVOTS = {TokenType.PIVOT, TokenType.UNPIVOT}
_LIMITS = {TokenType.LIMIT, TokenType.OFFSET}
# These read the query before them by name in any case.
_ENCLOSING = {TokenType.ALIAS, *_SETS, *_PIVOTS}
# GROUP BY of `aggregate` takes expressions only. A number would be a column of the input.
_NO_GROUPS = {TokenType.NUMBER, TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS}
_NO_GROUPS |= {TokenType.ALL, TokenType.STAR}
_OPENS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.L_BRACKET: 1}
_OPENS |= {TokenType.R_BRACKET: -1}


def unpiped(sql: str, tokens: Sequence[Token]) -> list[Part]:
    """Return the text of a query without pipes, in parts. Raises Refused."""
    if _NAME in sql.lower():
        raise Refused("HW_NOT_UNDERSTOOD", "|>", None, f"its SQL has names with {_NAME}")
    return _Unpiping(sql, tokens).query(0, len(tokens))


@dataclass
class _Query:
    """A query that further operators may extend. `name` is that of its only relation."""

    rows: list[Part]
    name: str = ""
    where: list[list[Part]] = field(default_factory=list)
    selected: list[Part] = field(default_factory=list)
    order: list[Part] = field(default_factory=list)
    limit: list[Part] = field(default_factory=list)
    group: list[Part] = field(default_factory=list)
    whole: list[Part] = field(default_factory=list)

    def text(self, line: int) -> list[Part]:
        """Return the text of the query."""
        if self.whole:
            return self.whole
        parts = [("select ", line), *(self.selected or [("*", line)]), (" from ", line), *self.rows]
        for number, condition in enumerate(self.where):
            is_one = len(self.where) == 1
            parts += [(" where " if number == 0 else " and ", line)]
            parts += condition if is_one else [("(", line), *condition, (")", line)]
        for clause in (self.group, self.order, self.limit):
            parts += [(" ", line), *clause] if clause else []
        return parts


class _Unpiping:
    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql, self._tokens = sql, tokens
        self._many = 0
        self._closing: dict[int, int] = {}
        opened: list[int] = []
        for place, token in enumerate(tokens):
            if token.token_type is TokenType.L_PAREN:
                opened.append(place)
            elif token.token_type is TokenType.R_PAREN and opened:
                self._closing[opened.pop()] = place

    def query(self, begin: int, end: int) -> list[Part]:
        """Return the text of a query within brackets, or of the whole."""
        pipes = self._outside(begin, end, TokenType.PIPE_GT)
        if not pipes:
            return self._text(begin, end)
        first = self._after_with(begin, end)
        queries: list[list[Part]] = []
        names = set[str]()  # of the tables of earlier queries

        def closed(query: _Query, line: int) -> str:
            self._many += 1
            name = f"{_NAME}{self._many}"
            queries.append([(f"{name} as (", line), *query.text(line), ("\n)", line)])
            return name

        query = self._head(first, pipes[0])
        seen = self._names(first, pipes[0])
        for place, after in zip(pipes, [*pipes[1:], end], strict=True):
            line = self._tokens[place].line
            if place + 1 == after:
                raise self._unknown(place, after)
            kind = self._tokens[place + 1].token_type
            if self._needs_next(query, kind):
                kept = "" if query.selected or query.whole else query.name
                name = closed(query, line)
                rows = [(f"{name} as {kept}" if kept else name, line)]
                query = _Query(rows, kept)
                names = (names | seen) - {kept.lower()}
            self._refuse_names(place + 1, after, names)
            if kind in _JOINS or kind is TokenType.ALIAS:
                seen |= self._names(place + 1, after)
            query = self._extended(query, kind, place + 1, after, closed)
            if kind in _ENCLOSING:
                names = (names | seen) - {query.name.lower()}
        last = query.text(self._tokens[pipes[-1]].line)
        parts = self._text(begin, first)
        for number, part in enumerate(queries):
            is_first = number == 0 and first == begin
            parts += [
                ("with " if is_first else ", " if number or first > begin else "", part[0][1])
            ]
            parts += part
        return [*parts, *([("\n", last[0][1])] if parts else []), *last]

    def _needs_next(self, query: _Query, kind: TokenType) -> bool:
        """Return true if a query is complete before an operator."""
        if kind in _ENCLOSING:
            return False
        is_joined = kind in _JOINS and bool(query.where)
        is_ordered = kind not in _LIMITS and bool(query.order)
        return bool(query.whole or query.selected or query.limit) or is_joined or is_ordered

    def _extended(
        self,
        query: _Query,
        kind: TokenType,
        begin: int,
        end: int,
        closed: Callable[[_Query, int], str],
    ) -> _Query:
        """Return the query with an operator."""
        line, word = self._tokens[begin].line, self._tokens[begin].text.lower()
        if kind is TokenType.WHERE:
            query.where.append(self._text(begin + 1, end))
        elif kind is TokenType.SELECT:
            query.selected = self._text(begin + 1, end)
        elif word == "extend":
            query.selected = [("*, ", line), *self._text(begin + 1, end)]
        elif word == "drop":
            listed = self._text(begin + 1, end)
            query.selected = [("* except (", line), *listed, (")", line)]
        elif word == "aggregate":
            self._aggregate(query, begin, end)
        elif kind is TokenType.ORDER_BY:
            if any(self._outside(begin, end, limit) for limit in _LIMITS):
                raise self._unknown(begin, end)  # Spark refuses both in one operator
            query.order = self._text(begin, end)
        elif kind in _LIMITS:
            query.limit = self._text(begin, end)
        elif kind in _JOINS:
            query.rows = [*query.rows, ("\n", line), *self._text(begin, end)]
            query.name = ""
        elif kind is TokenType.ALIAS and end == begin + 2:
            name = closed(query, line)
            query = _Query([(f"{name} as ", line), *self._text(begin + 1, end)])
            query.name = self._tokens[begin + 1].text
        elif kind in _SETS:
            first = next((n for n in range(begin + 1, end) if self._begins_query(n)), None)
            if first is None or (
                self._tokens[first].token_type is TokenType.L_PAREN
                and self._closing.get(first) != end - 1
            ):
                raise self._unknown(begin, end)
            name = closed(query, line)
            query.whole = [(f"select * from {name} ", line), *self._text(begin, end)]
        elif kind in _PIVOTS:
            name = closed(query, line)
            query.whole = [(f"select * from {name} ", line), *self._text(begin, end)]
        else:
            raise self._unknown(begin, end)
        return query

    def _begins_query(self, place: int) -> bool:
        return self._tokens[place].token_type in (TokenType.SELECT, TokenType.L_PAREN)

    def _aggregate(self, query: _Query, begin: int, end: int) -> None:
        """Add groups, whose columns come first."""
        line = self._tokens[begin].line
        by = next(iter(self._outside(begin, end, TokenType.GROUP_BY)), None)
        results = self._text(begin + 1, end if by is None else by)
        if by is None:
            query.selected = results
            return
        commas = self._outside(by, end, TokenType.COMMA)
        items = list(zip([by, *commas], [*commas, end], strict=True))
        if any(
            last == first + 1 or self._tokens[first + 1].token_type in _NO_GROUPS
            for first, last in items
        ):
            raise self._unknown(begin, end)
        query.selected = [*self._text(by + 1, end)]
        query.selected += [(", ", line), *results] if results else []
        numbers = ", ".join(map(str, range(1, len(items) + 1)))
        query.group = [(f"group by {numbers}", line)]

    def _head(self, begin: int, end: int) -> _Query:
        """Return what is before the first operator: `from`, `table`, or a query."""
        kind = self._tokens[begin].token_type
        if kind is TokenType.TABLE or kind is TokenType.FROM:
            if end == begin + 1:
                raise self._unknown(begin, end)
            return _Query(self._text(begin + 1, end), self._name_of(begin + 1, end))
        if not self._begins_query(begin):
            raise self._unknown(begin, end)
        return _Query([], whole=self._text(begin, end))

    def _name_of(self, begin: int, end: int) -> str:
        """Return the name of the relation if there is one and nothing else."""
        tokens = list(self._tokens[begin:end])
        if len(tokens) > 2 and tokens[-2].token_type is TokenType.ALIAS:
            tokens = [*tokens[:-2], tokens[-1]] if len(tokens) == 3 else []
        is_plain = all(token.token_type is TokenType.VAR for token in tokens)
        return tokens[-1].text if tokens and len(tokens) <= 2 and is_plain else ""

    def _names(self, begin: int, end: int) -> set[str]:
        """Return the words that may be names of tables."""
        return {token.text.lower() for token in self._tokens[begin:end]}

    def _refuse_names(self, begin: int, end: int, names: set[str]) -> None:
        for place in range(begin, end - 1):
            token, after = self._tokens[place : place + 2]
            is_first = self._tokens[place - 1].token_type is not TokenType.DOT
            if after.token_type is TokenType.DOT and is_first and token.text.lower() in names:
                raise Refused(
                    "HW_NOT_UNDERSTOOD",
                    f"{token.text}.",
                    token.line,
                    "a table of an earlier operator is named in pipe syntax",
                    "Leave out the name of the table, or give the rows one by `|> as`",
                )

    def _after_with(self, begin: int, end: int) -> int:
        """Return the number of the token after common table expressions."""
        if self._tokens[begin].token_type is not TokenType.WITH:
            return begin
        place = begin
        while True:
            place += 2  # behind the name
            if place < end and self._tokens[place].token_type is TokenType.L_PAREN:
                place = self._closing.get(place, end) + 1
            kinds = [token.token_type for token in self._tokens[place : place + 2]]
            if kinds != [TokenType.ALIAS, TokenType.L_PAREN]:
                raise self._unknown(begin, end)
            place = self._closing.get(place + 1, end) + 1
            if place >= end:
                raise self._unknown(begin, end)
            if self._tokens[place].token_type is not TokenType.COMMA:
                return place

    def _outside(self, begin: int, end: int, kind: TokenType) -> list[int]:
        """Return the numbers of such tokens outside of brackets."""
        depth, found = 0, []
        for place in range(begin, end):
            token = self._tokens[place]
            depth += _OPENS.get(token.token_type, 0)
            if depth == 0 and token.token_type is kind:
                found.append(place)
        return found

    def _text(self, begin: int, end: int) -> list[Part]:
        """Return the text of tokens, with the queries in its brackets."""
        parts: list[Part] = []
        start = begin
        place = begin
        while place < end:
            closed = self._closing.get(place)
            if closed is not None and any(
                token.token_type is TokenType.PIPE_GT for token in self._tokens[place:closed]
            ):
                parts += self._slice(start, place + 1)
                parts += self.query(place + 1, closed)
                start = place = closed
            else:
                place += 1
        return [*parts, *self._slice(start, end)]

    def _slice(self, begin: int, end: int) -> list[Part]:
        if begin >= end:
            return []
        first, last = self._tokens[begin], self._tokens[end - 1]
        return [(self._sql[first.start : last.end + 1], first.line)]

    def _unknown(self, begin: int, end: int) -> Refused:
        token = self._tokens[begin]
        clause = "".join(text for text, _ in self._slice(begin, min(end, begin + 2)))
        reason = "this operator of pipe syntax is not analysed"
        return Refused("HW_NOT_UNDERSTOOD", f"|> {clause}", token.line, reason)
