"""Text for readers: counts, sizes, durations, and values that may be hostile."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import datetime

LONGEST = 200  # characters of a value
# Control, format (also right-to-left marks), surrogates, unassigned; separators of lines.
_SHOWN_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


def clean(value: str, limit: int = LONGEST, keep: str = "") -> str:
    """Return a value without characters that hide or move text, cut at `limit` characters.

    Characters that have no glyph, right-to-left marks among them, are shown as `\\n` or `\\u202e`,
    except those of `keep`.
    """
    cut = value[:limit]  # first, because the value may be megabytes
    if cut.isascii() and cut.isprintable():
        return cut if len(value) <= limit else f"{cut}…"
    shown = "".join(
        one if one.isascii() and one.isprintable() else _shown(one, keep) for one in cut
    )
    return shown + ("…" if len(value) > limit else "")


def _shown(character: str, keep: str) -> str:
    if character in keep or unicodedata.category(character) not in _SHOWN_ESCAPED:
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    return _escaped(character)


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cut_before(value: str, other: str | None, limit: int, shown: int = 40) -> int:
    """Return how many characters to leave out of two values, so that `limit` show a difference.

    Both values begin with them; `shown` equal characters are left.
    """
    if other is None or value == other:
        return 0
    shortest = min(len(value), len(other))
    equal = next((i for i in range(shortest) if value[i] != other[i]), shortest)
    return equal - shown if equal >= limit - shown else 0


def marked(value: str, other: str | None) -> str:
    """Return a value with marks for what a reader cannot see of its difference from another one.

    Blanks at its ends are `␣`, and blanks of other kinds are escaped. If both values look the same,
    every blank is marked and every character beyond ASCII escaped.
    """
    bare = value.strip(" ")
    head = len(value) - len(value.lstrip(" ")) if bare else 0
    shown = "".join(
        _escaped(one) if unicodedata.category(one) == "Zs" and one != " " else one for one in bare
    )
    if other is not None and value != other and _look(value) == _look(other):
        shown = "".join(one if one.isascii() else _escaped(one) for one in bare).replace(" ", "␣")
    return f"{'␣' * head}{shown}{'␣' * (len(value) - len(bare) - head)}"


def _look(value: str) -> str:
    """Return the text that a reader sees: composed characters, and single blanks."""
    return " ".join(unicodedata.normalize("NFKC", value).split())


def number(count: int | float, unit: str, units: str | None = None) -> str:
    """Return a count with its unit: `1 row`, `1,840,211 rows`."""
    return f"{count:,} {unit if count == 1 else units or unit + 's'}"


def listed(names: Sequence[str], most: int = 2) -> str:
    """Return a list as text: `a`, `a and b`, `a, b and 3 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def size(count: float | None) -> str:
    """Return bytes in the largest decimal unit that fits: `1.2 MB`."""
    if count is None:
        return "?"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return (
                f"{count:,.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.1f} {unit}"
            )
        count /= 1000
    return f"{count:,.1f} TB"


def duration(seconds: float | None) -> str:
    """Return a duration in its largest unit: `0.4 s`, `42 s`, `3.5 min`, `2 d`."""
    if seconds is None:
        return "?"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for unit, length, next_ in (("min", 60, 3600), ("h", 3600, 86400), ("d", 86400, float("inf"))):
        if seconds < next_:
            count = seconds / length
            return f"{count:.1f} {unit}" if count < 9.95 else f"{count:,.0f} {unit}"
    return "?"


def ago(then: datetime | None, now: datetime) -> str:
    """Return the time since a moment, `3.5 min ago`, or `never` for None."""
    return "never" if then is None else f"{duration(max(0, (now - then).total_seconds()))} ago"


def moment(then: datetime | None) -> str:
    """Return a moment in UTC, to the minute."""
    return "" if then is None else f"{then:%Y-%m-%d %H:%M}"
