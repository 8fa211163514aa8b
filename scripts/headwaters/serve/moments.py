"""Dates and times of JSON texts, by the grammar that ingestion reads them with.

Patterns are those of `formats/texts.py`; what they leave to Spark, the time and its zone, is said
here. A text that is no such moment is None.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from headwaters.formats.texts import PATTERNS

_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in PATTERNS.items()}
_DAY = re.compile(r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", re.ASCII)
_CLOCK = re.compile(
    r"[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?( *[^ 0-9].*)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(r"([-+])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?", re.ASCII)
# what most programs write, and certainly a moment
_PLAIN = re.compile(
    r"[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:Z|[-+](?:0[0-9]|1[0-7]):[0-5][0-9])?",
    re.ASCII,
).fullmatch
_AREAS = (
    *("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia"),
    *("Europe", "Indian", "Pacific"),
)


def is_timestamp(text: str) -> bool:
    """Whether a text is a moment, or a local time where it names no zone."""
    return _PLAIN(text) is not None or timestamp(text) is not None


def day(text: str) -> date | None:
    """The day of a text, with midnight as its only time."""
    return _day(text) if _PATTERNS["date"].fullmatch(text) else None


def timestamp(text: str) -> datetime | None:
    """The moment of a text; without a zone, it is UTC."""
    if not _PATTERNS["timestamp"].fullmatch(text):
        return None
    return _moment(text, zoned=True)


def timestamp_ntz(text: str) -> datetime | None:
    """The local time of a text, which names no zone."""
    if not _PATTERNS["timestamp_ntz"].fullmatch(text):
        return None
    found = _moment(text.rstrip(" "), zoned=False)
    return None if found is None else found.replace(tzinfo=None)


def _day(text: str) -> date | None:
    found = _DAY.match(text)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:  # no such day
        return None


def _moment(text: str, zoned: bool) -> datetime | None:
    begin, found = _DAY.match(text), _day(text)
    if begin is None or found is None:
        return None
    rest = text[begin.end() :].rstrip(" ")
    if not rest:
        return datetime.combine(found, time(), UTC)
    clock = _CLOCK.fullmatch(rest)
    if clock is None:
        return None
    hour, minute, second, fraction, zone = clock.groups()
    try:
        at = time(
            int(hour), int(minute or 0), int(second or 0), int((fraction or "")[:6].ljust(6, "0"))
        )
        where = _zone(zone.strip(" ")) if zone else UTC
        if where is None or (zone and not zoned):
            return None
        return datetime.combine(found, at, where).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str) -> tzinfo | None:
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if offset := _OFFSET.fullmatch(text):
        sign, hours, minutes, seconds = offset.groups()
        # Java reads +hmm as no offset
        if minutes and len(hours) == 1 and ":" not in text:
            return None
        if int(minutes or 0) > 59 or int(seconds or 0) > 59:
            return None
        size = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        return timezone(-size if sign == "-" else size) if size <= timedelta(hours=18) else None
    return _region(text)


@cache
def _regions() -> frozenset[str]:
    return frozenset(one for one in available_timezones() if one.split("/")[0] in _AREAS)


def _region(text: str) -> tzinfo | None:
    try:
        return ZoneInfo(text) if text in _regions() else None
    except ZoneInfoNotFoundError:
        return None
