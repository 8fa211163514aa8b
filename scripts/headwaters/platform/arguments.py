"""The arguments of `dbt run-operation`, checked against the operation's YAML.

dbt passes on any YAML: `dry_run: 0` would run, `allow_all: 'false'` would permit. The adapter
checks each operation before it begins, new ones included (dbt/adapters/headwaters/impl.py), and a
rule of the project requires the types.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from headwaters.platform.errors import UserError
from headwaters.platform.names import did_you_mean


def check_arguments(operation: str, declared: Mapping[str, str | None], given: Any) -> None:
    """Raise UserError for the first argument that violates its operation's declaration.

    `declared` has each argument's type from the YAML of macros (`string`, `bool`, `int`, `any`,
    `list[…]`, `optional[…]`), None if unknown. `given` is the parsed `--args`.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise UserError(
            "HW_ARGUMENT",
            f"{operation}: --args is {shown(given)}: write a mapping, {{name: value}}.",
        )
    for name, value in given.items():
        if name not in declared:
            meant = did_you_mean(name, declared)
            allowed = f" Arguments: {', '.join(declared)}." if declared else " It takes none."
            said = f"{operation}: there is no argument {shown(name)}{meant or '.'}{allowed}"
            raise UserError("HW_ARGUMENT", f"{said} Nothing was changed.")
        wanted = _wanted(str(declared[name] or "any"), value)
        if wanted is None and name in _MORE:
            wanted = _MORE[name](value)
        if wanted is not None:
            raise UserError(
                "HW_ARGUMENT",
                f"{operation}: {name} is {shown(value)}: {wanted}. Nothing was changed.",
            )


def shown(value: Any) -> str:
    """Return a value for an error: one line of YAML, shortened."""
    words = {"None": "empty", "True": "true", "False": "false"}
    text = words.get(repr(value), repr(value))
    return text if len(text) <= 100 else f"{text[:99]}…"


def _wanted(kind: str, value: Any) -> str | None:
    """Return the requirement of a type that a value violates, or None."""
    kind = kind.replace(" ", "")
    if kind.startswith("optional["):
        kind = kind.removeprefix("optional[").removesuffix("]")
    if value is None:
        return "give it a value, or leave it out"
    if kind == "bool":
        return None if isinstance(value, bool) else "it must be true or false, without quotes"
    if kind in ("int", "integer"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return None if whole else "it must be a whole number, without quotes"
    if kind in ("str", "string"):
        # YAML parses some texts as dates
        text = isinstance(value, str | datetime.date)
        if not text:
            return "it must be a text: write it in quotes"
        return None if str(value).strip() else "give it a value, or leave it out"
    if kind.startswith("list["):
        if not isinstance(value, list):
            return "it must be a list, [a, b]"
        within = kind.removeprefix("list[").removesuffix("]")
        return next((wanted for item in value if (wanted := _wanted(within, item))), None)
    return None if value not in ("", [], {}) else "give it a value, or leave it out"


def _selection_problem(value: Any) -> str | None:
    items = value if isinstance(value, list) else [value]
    named = all(isinstance(item, str) and item.strip() for item in items)
    return None if named else "it must be a name or a list of names"


# Tokens of Spark's lexer whose contents are not SQL.
_PIECES = re.compile(
    r"""(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`)"""
    r"""|(?P<comment>--|/\*)|(?P<word>\w+)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_QUERIES = {"select", "table", "values", "from", "with"}
# Their rows differ between the plan and its execution.
_RANDOM = {
    *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
    *("monotonically_increasing_id", "spark_partition_id"),
}


def predicate_problem(predicate: str) -> str | None:
    """Return the requirement that a condition violates, or None for one expression over a row.

    Statements contain it between other words, so nothing may end it early (a superfluous bracket, a
    comment, a semicolon). Delta's DELETE does not support subqueries.
    """
    depth, opened = 0, False
    for piece in _PIECES.finditer(predicate):
        kind, text = piece.lastgroup, piece.group()
        if kind == "space":
            continue
        if kind == "comment":
            return "a predicate has no comments"
        if text == ";":
            return "it must be one condition, without ';'"
        if text in ("'", '"', "`"):
            return f"a {text} is not closed"
        if opened and text.lower() in _QUERIES:
            return "it must be a condition on the table's own columns, without a subquery"
        if text.lower() in _RANDOM and predicate[piece.end() :].lstrip().startswith("("):
            return f"{text}() takes other rows each time"
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth < 0:
            break
        opened = text == "("
    return "its brackets do not match" if depth else None


# Requirements of arguments by name, in addition to their types.
_MORE: dict[str, Callable[[Any], str | None]] = {
    "predicate": predicate_problem,
    "select": _selection_problem,
}
