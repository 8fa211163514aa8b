"""A check of queries that the analysis cannot read: replace the table if nothing changes by itself.

It checks only words, so it refuses more than necessary: unknown functions, the time of the run, and
texts that Spark may read as a moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwaters.analysis.moments import moment_of
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.sql_text import Token, relations_in, tokens
from headwaters.analysis.used_names import READ_IT, READS_TABLE
from headwaters.platform import spark_version

# Words before a bracket that do not call a function.
_NO_CALLS = spark_version.names(
    "aggregate all and anti any array as bernoulli between bucket by case cast char",
    "character cluster cross cube dec decimal delete distinct distribute drop else except",
    "exists extend extract filter for from full group having if in inner insert intersect",
    "interval into is join lateral left like limit map match minus natural not numeric",
    "offset on or order outer over overlay partition percent pivot position qualify range",
    "recursive rename respect right rollup rows select semi set setminus sets some sort",
    "string struct substr substring table then time timestamp to trim try_cast union",
    "unpivot using values varchar when where window with within",
)
_TABLES = {"tablesample", "_metadata"}
_NOT_PROVEN = (
    "Take the moment from a column of an input, make it a table model, or say "
    "allow_nondeterministic: [{name}] if rows may keep the answer of the run that wrote them"
)


def refuse_changing_words(
    sql: str, inputs: Sequence[Input], allowed: Sequence[str], bodies: Mapping[str, str]
) -> None:
    """Refuse words whose value may differ between runs. Raises Refused.

    `allowed` are the functions of `allow_nondeterministic`; `bodies` those of SQL functions, by
    name.
    """
    columns = {name.lower() for source in inputs for name in source.columns}
    code, lines, line = list[Token](), list[int](), 1
    for token in tokens(sql):
        if token.kind not in ("blank", "comment", "marker"):
            code.append(token)
            lines.append(line)
        line += token.text.count("\n")
    called = set[str]()
    for place, token in enumerate(code):
        before = code[place - 1].word if place else ""
        after = code[place + 1].word if place + 1 < len(code) else ""
        name = token.name
        if token.kind == "text":
            moment = moment_of(_content(token.text))
            if moment is not None and moment not in allowed:
                raise _changing(token.text, moment, lines[place])
        elif name in _TABLES and name not in allowed:
            raise _changing(token.text, name, lines[place])
        elif name and after == "(":
            is_word = token.kind == "word" and before != "." and name in _NO_CALLS
            if is_word or _is_named(code, place):
                continue
            if name in spark_version.READING_FUNCTIONS and name not in allowed:
                raise Refused("HW_FUNCTION_READS_TABLE", name, lines[place], READS_TABLE, READ_IT)
            called.add(name)
            is_known = name in bodies or (before != "." and name in spark_version.STABLE_IN_QUERIES)
            is_moment = spark_version.is_moment(name, [] if code[place + 2].word == ")" else [name])
            if name not in allowed and (not is_known or is_moment):
                raise _changing(token.text, name, lines[place])
        elif (
            name in spark_version.BARE_FUNCTIONS
            and name not in allowed
            and name not in columns
            and before not in (".", "as")
            and after != "."
        ):
            raise _changing(token.text, name, lines[place])
    for name in sorted(called & bodies.keys()):
        if relations_in(f"select {bodies[name]}"):
            raise Refused("HW_FUNCTION_READS_TABLE", name, None, READS_TABLE)
        others = {other: body for other, body in bodies.items() if other != name}
        refuse_changing_words(bodies[name], (), allowed, others)


def _content(text: str) -> str:
    """Return a literal's text without its quotes."""
    return text.lstrip("rR")[1:-1]


def _is_named(code: Sequence[Token], place: int) -> bool:
    """Return true if the brackets after a name list the columns of an alias."""
    before = code[place - 1].word if place else ""
    if before in ("as", "with", "recursive", ")"):
        return True
    depth = 0
    for end in range(place + 1, len(code)):
        depth += {"(": 1, ")": -1}.get(code[end].word, 0)
        if depth == 0:
            return [token.word for token in code[end + 1 : end + 3]] == ["as", "("]
    return False


def _changing(text: str, name: str, line: int) -> Refused:
    reason = f"nothing proves that {name} is the same in every run"
    return Refused("HW_NONDETERMINISTIC", text, line, reason, _NOT_PROVEN.format(name=name))


def unlisted(plan: str, sql: str, inputs: Sequence[str]) -> str | None:
    """Return the first relation that a query reads besides its inputs, by Spark's plan, or None.

    `plan` is the output of `explain extended`; `inputs` are names of tables.
    """
    parsed, _, analyzed = plan.partition("== Analyzed Logical Plan ==")
    known = {_plain(name) for name in inputs}
    queries = {name for name in _relations(parsed) if "." not in name} - known
    bare = {_plain(name) for name in relations_in(sql)}
    for name in _relations(parsed):
        if name not in known and (name not in queries or name in bare):
            return name
    for sign in ("UnresolvedIdentifier", "variablereference("):
        if sign in parsed or sign in analyzed:
            return "a table or a value by a variable"
    return None


def _relations(plan: str) -> list[str]:
    found = []
    for piece in plan.split("UnresolvedRelation [")[1:]:
        parts = piece.partition("]")[0].split(", ")
        parts = parts[1:] if parts[0] == "spark_catalog" and len(parts) == 3 else parts
        found.append(".".join(parts).lower())
    return found


def _plain(name: str) -> str:
    return name.replace("`", "").lower()
