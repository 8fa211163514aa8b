"""Small plots as paths of SVG: bars of a series, places on an axis of time. Pure.

A plot has its own units and stretches to its box. Letters and numbers are HTML, so that they keep
their size on a telephone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

# The pitch and the width of bars, and the usual height of a plot, in its own units.
PITCH, WIDE, HEIGHT = 4.0, 3.0, 20.0
_LEAST = 1.0  # keeps small values visible

_STEPS = [
    *(timedelta(minutes=n) for n in (1, 5, 15, 30)),
    *(timedelta(hours=n) for n in (1, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 30, 90, 365)),
]
_MOST_BUCKETS = 60


def bars(values: Sequence[float], height: float = HEIGHT, most: float | None = None) -> str:
    """Return a path of one bar for each value; the greatest (or `most`) has the plot's height."""
    top = max(values, default=0) if most is None else most
    parts = []
    for index, value in enumerate(values):
        if value > 0 and top > 0:
            tall = max(_LEAST, min(1.0, value / top) * height)
            parts.append(f"M{index * PITCH:g} {height:g}v-{tall:.4g}h{WIDE:g}v{tall:.4g}z")
    return "".join(parts)


def ticks(values: Sequence[float | None], most: float) -> str:
    """Return a path of one short line for each known value, over the bars of the same place."""
    parts = []
    for index, value in enumerate(values):
        if value is not None and most > 0:
            y = HEIGHT - min(1.0, value / most) * HEIGHT
            parts.append(f"M{index * PITCH - 0.5:g} {y:.4g}h{WIDE + 1:g}")
    return "".join(parts)


def on_log_axis(value: float, low: float, high: float) -> float:
    """Return the place of a value between two others on a logarithmic axis, from 0 to 1."""
    inside = min(max(value, low), high)
    return math.log(inside / low) / math.log(high / low)


def buckets(first: datetime, last: datetime) -> list[datetime]:
    """Return the starts of equal periods that cover both moments, 60 at most, the newest last."""
    length = next((s for s in _STEPS if (last - first) / s < _MOST_BUCKETS - 1), _STEPS[-1])
    origin = datetime(1970, 1, 1, tzinfo=first.tzinfo)
    begin = origin + (first - origin) // length * length
    count = min((last - begin) // length + 1, _MOST_BUCKETS)
    end = origin + (last - origin) // length * length
    return [end - length * back for back in reversed(range(count))]


def bucket_of(at: datetime, begins: Sequence[datetime]) -> int | None:
    """Return the index of the bucket that contains a moment, or None before the first."""
    if at < begins[0]:
        return None
    length = begins[1] - begins[0] if len(begins) > 1 else timedelta.max
    return min((at - begins[0]) // length, len(begins) - 1)
