"""The common grammar of sizes and durations.

A size is a number and a unit of 1024: `512m`, `16 MB`, `1.5 GB`, `100 b`. A duration is one or more
of a number and a unit: `500ms`, `30s`, `6 hours`, `1 week 2 days`, `interval 30 days`; `m` is a
minute. Months and years are refused, because their length varies. Case does not matter.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = r"\d+(?:\.\d+)?"
_SIZES = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_SIZE = re.compile(rf"\s*({_NUMBER})\s*(?:(b)|([kmg])b?)\s*", re.IGNORECASE | re.ASCII)

# Each unit in milliseconds, by its short name or by its word, which may be plural.
_SHORT = {"ms": Fraction(1), "s": Fraction(1000), "m": Fraction(60_000), "h": Fraction(3_600_000)}
_WORDS = {
    "microsecond": Fraction(1, 1000),
    "millisecond": Fraction(1),
    "second": Fraction(1000),
    "minute": Fraction(60_000),
    "hour": Fraction(3_600_000),
    "day": Fraction(86_400_000),
    "week": Fraction(604_800_000),
}
_TIMES = _SHORT | {"d": _WORDS["day"]} | _WORDS | {f"{word}s": n for word, n in _WORDS.items()}
_TERM = rf"({_NUMBER})\s*({'|'.join(sorted(_TIMES, key=len, reverse=True))})(?![a-z])"
_TIME = re.compile(rf"\s*(?:interval\s+)?((?:{_TERM}\s*)+)", re.IGNORECASE | re.ASCII)
_TERMS = re.compile(_TERM, re.IGNORECASE | re.ASCII)


def bytes_of(text: object) -> int | None:
    """Return a size such as `16 MB` or `512m` in bytes, or None, also for a bare number."""
    found = _SIZE.fullmatch(str(text))
    if found is None:
        return None
    return int(Fraction(found[1]) * _SIZES[(found[2] or found[3]).lower()])


def milliseconds_of(text: object) -> float | None:
    """Return a duration such as `30s` or `interval 1 week 2 days` in milliseconds.

    None for anything else, also for a bare number.
    """
    found = _TIME.fullmatch(str(text))
    if found is None:
        return None
    terms = (Fraction(one[1]) * _TIMES[one[2].lower()] for one in _TERMS.finditer(found[1]))
    return float(sum(terms))
