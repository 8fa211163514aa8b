"""The time of simulated events: their arrival and their notation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from headwaters.platform.errors import UserError

# Relative activity by hour of the day (UTC) and by day of the week from Monday.
HOURS = [
    0.25, 0.15, 0.10, 0.08, 0.10, 0.20, 0.50, 0.90, 1.20, 1.30, 1.35, 1.50,
    1.70, 1.50, 1.30, 1.30, 1.45, 1.70, 1.80, 1.60, 1.30, 1.00, 0.70, 0.45,
]  # fmt: skip
WEEKDAYS = [0.95, 0.95, 1.00, 1.05, 1.25, 1.15, 0.65]
_WEEK = [day * hour for day in WEEKDAYS for hour in HOURS]
WEEK = [weight * len(_WEEK) / sum(_WEEK) for weight in _WEEK]  # 168 hours from Monday, mean 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


LAST = 253_402_300_799  # the last second of the year 9999
OUT_OF_TIME = (
    "--start, --rows and --rate lead to times outside of the years 1 to 9999: choose others"
)


def milliseconds(moment: datetime) -> int:
    """Convert a moment to this module's times: milliseconds since 1970."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def at(time: int) -> datetime:
    """Convert a time to a moment. Raises UserError for one beyond the calendar."""
    try:
        return EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        raise UserError("HW_ARGUMENT", OUT_OF_TIME) from None


def iso(time: int) -> str:
    """Return a time in the notation of the events."""
    return at(time).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def date(time: int) -> str:
    """Return the day of a time, in UTC."""
    return at(time).date().isoformat()


def arrivals(rng: Random, start: int, rate: float) -> Iterator[int]:
    """Yield endless times of arrival from `start`: a Poisson process with the rhythm of WEEK.

    `rate` is the mean of a whole week, in events a second. Times are milliseconds, and rise.
    """
    now, last = start / 1000, start - 1
    while True:
        needed = rng.expovariate(rate)
        while True:
            if now > LAST:
                raise UserError("HW_ARGUMENT", OUT_OF_TIME)
            hour = int(now // 3600)
            weight = WEEK[(hour + 72) % 168]  # 1970 began on a Thursday
            to_full_hour = (hour + 1) * 3600 - now
            if needed <= to_full_hour * weight:
                now += needed / weight
                break
            needed -= to_full_hour * weight
            now = (hour + 1) * 3600.0
        last = max(last + 1, int(now * 1000))
        yield last


def moment(text: str, option: str) -> datetime:
    """Parse a user's moment as UTC. One without an offset counts as UTC.

    Raises UserError if it is not ISO 8601.
    """
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(
            "HW_ARGUMENT", f"{option} wants a moment such as 2026-01-01T00:00:00Z: '{text}' is none"
        ) from None
