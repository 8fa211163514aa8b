"""What Spark stores of a value in a column of another type, by the names of the types: pure."""

from __future__ import annotations

import re

from headwaters.analysis import parts_of_type
from headwaters.platform.delta_version import WIDER_TYPES

_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def same_type(one: str, other: str) -> bool:
    """Return true if two types are equal; a query gives a `varchar(n)` as a string."""
    return _plain(one) == _plain(other)


def loss(given: str, held: str) -> str | None:
    """Return what happens to values of the first type in a column of the second, or None.

    Spark fails at a number without room for its digits and at a text that is too long. It does not
    fail if it rounds a number, cuts the time from a timestamp, or puts the fields of a struct
    into those of another by their positions.
    """
    fields, others = parts_of_type(given), parts_of_type(held)
    if not fields or not others:
        return "which cannot hold all of its values" if _is_cut(given, held) else None
    if list(fields) != list(others):
        return "which has other fields, or the same ones in another order"
    found = (loss(part, others[name]) for name, part in fields.items())
    return next(filter(None, found), None)


def is_wider(before: str, after: str) -> bool:
    """Return true if Delta widens the first type to the second."""
    if after in WIDER_TYPES.get(before, ()):
        return True
    to = _DECIMAL.fullmatch(after)
    if to is None:
        return False
    precision, scale = int(to[1]), int(to[2])
    if before in _DIGITS:
        return precision - scale >= _DIGITS[before]
    found = _DECIMAL.fullmatch(before)
    return (
        found is not None
        and scale >= int(found[2])
        and precision - scale >= int(found[1]) - int(found[2])
    )


def _is_cut(given: str, held: str) -> bool:
    given, held = _plain(given), _plain(held)
    if given == held or is_wider(given, held):
        return False
    if given.startswith("timestamp"):
        return held == "date"
    if held == "float":
        return given == "double" or given in ("int", "bigint") or given.startswith("decimal")
    if held == "double":
        return given == "bigint" or given.startswith("decimal")
    room = 0 if held in _DIGITS else _scale(held)
    if room is None:
        return False
    return given in ("float", "double") or (_scale(given) or 0) > room


def _scale(name: str) -> int | None:
    """Return the digits of a decimal after its point, or None for another type."""
    found = _DECIMAL.fullmatch(name)
    return int(found[2]) if found else None


def _plain(name: str) -> str:
    return re.sub(r"^(?:var)?char\(\d+\)$", "string", name.replace(" ", "").lower())
