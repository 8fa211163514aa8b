"""The analysis of a model's SQL by tokens, without a syntax tree.

The tokens are Spark's: nested comments, hints, strings in single and double quotes, raw strings,
and names in backquotes. An input macro writes a comment, its marker, before its relation
(headwaters.runs.inputs). Within another comment it marks nothing.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<word>\w+)
    | (?P<symbol>\|>|::|.)
    """,
    re.DOTALL | re.VERBOSE,
)
# The markers of headwaters.runs.inputs and of views; the first names its kind twice.
_MARKER = re.compile(r'/\* (?:view \{.*\}|(\w+) \{.*"kind": "\1".*\}) \*/', re.DOTALL)

# These words follow a relation in a FROM clause and are never its alias.
_SET_OPERATIONS = {"except", "intersect", "minus", "setminus", "union"}
_JOINS = {"anti", "cross", "full", "inner", "join", "lateral", "left", "natural", "right", "semi"}
_CLAUSES = {*_SET_OPERATIONS, *_JOINS, "having", "on", "select", "using", "where", "window"}
_BY = {"cluster", "distribute", "group", "order", "sort"}
_FOLLOWED_BY = {  # as do these, if such a token follows
    **dict.fromkeys(_BY, re.compile("by", re.I)),
    **dict.fromkeys(["limit", "offset"], re.compile(r"\d+|all", re.I)),
    **dict.fromkeys(["pivot", "unpivot"], re.compile(r"\(")),
}
_ENDS_FROM = {*_SET_OPERATIONS, *_BY, "having", "limit", "offset", "qualify", "select", "where"}
_ENDS_FROM |= {"window", "with", "|>"}

# Words that only name clauses, operators or literals, so that their case does not matter.
_KEYWORDS = {
    *("all", "and", "as", "asc", "between", "by", "case", "cross", "desc", "distinct", "else"),
    *("end", "except", "exists", "false", "from", "full", "group", "having", "in", "inner"),
    *("intersect", "is", "join", "left", "like", "limit", "not", "null", "on", "or", "order"),
    *("outer", "over", "partition", "right", "select", "then", "true", "union", "using", "when"),
    *("where", "with"),
}
# These end an item of a select list that is two names. Those cannot be its second name.
_ENDS_ITEM = {",", "from", "(", ")"}
_NO_NAMES = _KEYWORDS | _CLAUSES | _ENDS_FROM
_TWO_NAMES = re.compile(r"([\w.]*[^\W\d]\w*)[^\S\n]*\n\s*([^\W\d]\w*)")
# Blanks around these do not matter. Around `-` (`1e-3`) and `.` they do.
_APART = {*"(),=<>*/%"}


@dataclass(frozen=True)
class Token:
    """A piece of SQL; `kind` is blank, comment, marker, text, quoted, word or symbol."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """Return a word in lower case or a symbol; '' for other tokens."""
        return self.text.lower() if self.kind in ("word", "symbol") else ""

    @property
    def name(self) -> str:
        """Return an identifier in lower case; '' for other tokens."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`").lower()
        return self.text.lower() if self.kind == "word" else ""


def missing_commas(sql: str) -> Iterator[tuple[str, str]]:
    """Yield column and name of each select item that names a column on the next line, without AS.

    Spark takes `customer`, a line break and `amount` for the column `customer` by another name.
    """
    code = [token for token in tokens(sql) if token.kind not in ("comment", "marker")]
    lists = [False]  # for each open bracket, true inside of a select list
    for place, token in enumerate(code):
        if token.word == "(":
            lists.append(False)
        elif token.word == ")":
            lists = lists[:-1] or [False]
        elif token.word in ("select", "from"):
            lists[-1] = token.word == "select"
        if lists[-1] and token.word in ("select", "distinct", ","):
            rest = itertools.islice(code, place + 1, None)
            item = itertools.takewhile(lambda one: one.word not in _ENDS_ITEM, rest)
            found = _TWO_NAMES.fullmatch("".join(one.text for one in item).strip())
            if found and not _NO_NAMES & {found[1].lower(), found[2].lower()}:
                yield found[1], found[2]


@dataclass(frozen=True)
class Name:
    """A dotted name; `is_relation` if a FROM clause reads it."""

    parts: tuple[str, ...]
    is_relation: bool
    start: int = field(default=0, compare=False)  # its position in the SQL
    end: int = field(default=0, compare=False)


def tokens(sql: str) -> Iterator[Token]:
    """Yield all tokens of the text, in order."""
    place = 0
    while place < len(sql):
        if sql.startswith("/*", place) and not sql.startswith("/*+", place):
            end = _end_of_comment(sql, place)
            kind = "marker" if _MARKER.fullmatch(sql[place:end]) else "comment"
            yield Token(kind, sql[place:end])
        else:
            found = _TOKEN.match(sql, place)
            assert found is not None and found.lastgroup is not None
            end = found.end()
            yield Token(found.lastgroup, found[0])
        place = end


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(sql)


def without_format(sql: str) -> str:
    """Return the SQL in a form that ignores blanks and the case of keywords."""
    kept: list[str] = []
    for token in tokens(sql):
        if token.kind == "blank":
            if kept and kept[-1] not in _APART:
                kept.append(" ")
            continue
        if token.text in _APART and kept and kept[-1] == " ":
            kept.pop()
        kept.append(token.word if token.word in _KEYWORDS else token.text)
    return "".join(kept).strip()


def prepared(sql: str) -> str:
    """Return a compiled model as the engine reads it: as a subquery with replaceable inputs.

    It has no comments except markers, and no semicolons at its end. An input without an alias gets
    the name of its table as one, because its replacement has no name.
    """
    kept = [
        Token("blank", " ") if token.kind == "comment" else token
        for token in tokens(sql)
        if not (token.kind == "comment" and token.text.startswith("--"))
    ]
    while kept and (kept[-1].kind == "blank" or kept[-1].word == ";"):
        kept.pop()
    aliases = dict(_missing_aliases(kept))
    return "".join(token.text + aliases.get(place, "") for place, token in enumerate(kept)).strip()


def line_in(code: str, line: int) -> int:
    """Return the line of a compiled model for a line of the `prepared` text."""
    at = place = 1
    has_begun = False
    for token in tokens(code):
        if at >= line and has_begun and token.kind not in ("blank", "comment"):
            break
        lines = token.text.count("\n")
        has_begun = has_begun or token.kind not in ("blank", "comment")
        place += lines
        at += lines if has_begun and token.kind != "comment" else 0
    return place


def _missing_aliases(code: list[Token]) -> Iterator[tuple[int, str]]:
    """Yield the token to append to and ` as `name`` for each input without an alias."""
    there = [place for place, token in enumerate(code) if token.kind != "blank"]
    for number, place in enumerate(there):
        if code[place].kind != "marker":
            continue
        name, last = _input_at(code, there, number + 1)
        after = [code[place].word for place in there[last + 1 : last + 3]] + ["", ""]
        if after[:2] == ["tablesample", "("]:
            last = _closing(code, there, last + 2)
            after = [code[place].word for place in there[last + 1 : last + 3]] + ["", ""]
        is_last = last + 1 == len(there)
        follows = _FOLLOWED_BY.get(after[0])
        if name and (
            is_last
            or after[0] in _CLAUSES
            or after[0] in (")", ",", "|>")
            or (follows is not None and follows.fullmatch(after[1]))
        ):
            yield there[last], f" as `{name}`"


def _input_at(code: list[Token], there: list[int], number: int) -> tuple[str, int]:
    """Return the table name of the input after a marker, and the number of its last token.

    An input is `schema.table version as of 7`, or a subquery over that. Inputs without a name, such
    as a sample that dbt takes, give ''.
    """
    source = json.loads(code[there[number - 1]].text[3:-3].partition(" ")[2])["source"]
    name = [token.text for token in tokens(source)][-1].strip("`")
    if number == len(there):
        return "", number - 1
    if code[there[number]].word == "(":
        return ("" if source.startswith("(") else name), _closing(code, there, number)
    while number + 2 < len(there) and code[there[number + 1]].word == ".":
        number += 2
    if [code[place].word for place in there[number + 1 : number + 4]] == ["version", "as", "of"]:
        number += 4
    return name, number


def _closing(code: list[Token], there: Sequence[int], number: int) -> int:
    """Return the number of the token that closes the bracket with this number."""
    depth = 0
    for other in range(number, len(there)):
        depth += {"(": 1, ")": -1}.get(code[there[other]].word, 0)
        if depth == 0:
            return other
    return len(there) - 1


@dataclass
class _Level:
    """The state between two brackets: after a select list, within a FROM clause."""

    is_query: bool = False
    in_from: bool = False
    expects: bool = False  # the name of a relation


def dotted_names(sql: str) -> list[Name]:
    """Return dotted names in order, without functions; single words only if they are relations."""
    code, starts = _code_of(sql)
    words = ["", *(token.word for token in code), ""]  # the word of token n is words[n + 1]
    levels = [_Level()]
    found: list[Name] = []
    number = 0
    while number < len(code):
        level, word, before = levels[-1], code[number].word, words[number]
        if word == "(":
            levels.append(_Level(in_from=level.expects, expects=level.expects))
            level.expects = False
        elif word == ")":
            if len(levels) > 1:
                levels.pop()
        elif word == "from" and (level.is_query or before in ("", "(")) and before != "distinct":
            level.in_from = level.expects = True
        elif word in ("join", "table") or (word == "," and level.in_from):
            level.expects = True
        elif word == "lateral" and level.expects:
            pass
        elif word in _ENDS_FROM:
            # a pipe may begin behind common table expressions: `with k as (…) from k |> …`
            level.is_query = level.is_query or word in ("select", "with")
            level.in_from = level.expects = False
        elif code[number].name:
            parts, start = [code[number].name], starts[number]
            while words[number + 2] == "." and number + 2 < len(code):
                number += 2
                parts.append(code[number].name or code[number].text)
            if words[number + 2] != "(" and (level.expects or len(parts) > 1):
                end = starts[number] + len(code[number].text)
                found.append(Name(tuple(parts), level.expects, start, end))
            level.expects = False
        else:
            level.expects = False
        number += 1
    return found


def _code_of(sql: str) -> tuple[list[Token], list[int]]:
    """Return the tokens without blanks and comments, and the start of each."""
    code: list[Token] = []
    starts: list[int] = []
    place = 0
    for token in tokens(sql):
        if token.kind not in ("blank", "comment", "marker"):
            code.append(token)
            starts.append(place)
        place += len(token.text)
    return code, starts


def source_of(name: Name) -> str:
    """Return a relation's name in the form of inputs, without Spark's default catalog."""
    parts = name.parts[1:] if name.parts[0] == "spark_catalog" else name.parts
    return ".".join(part if re.fullmatch(r"\w+", part) else f"`{part}`" for part in parts)


def relation_names(sql: str) -> list[Name]:
    """Return the relations that the SQL reads, without its common table expressions."""
    within = list(_queries(sql))
    return [
        name
        for name in dotted_names(sql)
        if name.is_relation
        and not (
            len(name.parts) == 1
            and any(name.parts[0] == query and name.start in seen for query, seen in within)
        )
    ]


def _queries(sql: str) -> Iterator[tuple[str, range]]:
    """Yield common table expressions, each with the range of the text that sees it.

    The range begins after the expression, or at its name if it is recursive, and ends at the
    enclosing bracket.
    """
    code, starts = _code_of(sql)
    words = [token.word for token in code]
    every = range(len(code))
    around: list[int] = []  # open brackets
    is_recursive = False
    for place, (before, word) in enumerate(itertools.pairwise(["", *words])):
        if word == "(":
            around.append(place)
        elif word == ")" and around:
            around.pop()
        if before in ("with", "recursive"):
            is_recursive = before == "recursive"
        if before in ("with", ",", "recursive") and words[place + 1 : place + 3] == ["as", "("]:
            first = place if is_recursive else _closing(code, every, place + 2)
            end = starts[_closing(code, every, around[-1])] if around else len(sql)
            yield code[place].name, range(starts[first], end)


def parts_of(source: str) -> tuple[str, ...]:
    """Return the last two parts of a relation's name, schema and table, in lower case."""
    names = [token.name for token in tokens(source) if token.kind in ("word", "quoted")]
    return tuple(names[-2:])


def relations_in(sql: str) -> list[str]:
    """Return the relations that the SQL reads, each once, in the order of the text."""
    return list(dict.fromkeys(source_of(name) for name in relation_names(sql)))


def with_relations(sql: str, replacements: Mapping[str, str]) -> str:
    """Return the SQL with relations replaced by other text."""
    for name in reversed(relation_names(sql)):
        if source_of(name) in replacements:
            sql = sql[: name.start] + replacements[source_of(name)] + sql[name.end :]
    return sql


def called(sql: str) -> list[str]:
    """Return the names before a bracket, in lower case, each once."""
    code, _ = _code_of(sql)
    found = set[str]()
    for place, token in enumerate(code):
        if token.word != "(" or place == 0 or not code[place - 1].name:
            continue
        first = place - 1
        while first > 1 and code[first - 1].word == "." and code[first - 2].name:
            first -= 2
        found.add("".join(part.text for part in code[first:place]).lower())
    return sorted(found)


def with_names(sql: str, texts: Mapping[str, str]) -> str:
    """Return the SQL with placeholder names, such as `hw_input_0`, replaced by texts."""
    return re.sub(r"\bhw_(?:input|stage)_\d+\b", lambda found: texts.get(found[0], found[0]), sql)
