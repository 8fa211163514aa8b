"""The common part of the settings of simulations."""

from __future__ import annotations

import hashlib
import math
from dataclasses import fields
from datetime import UTC, datetime
from functools import cached_property
from random import Random
from typing import Any, cast

from headwaters.platform.errors import UserError

# Part of every file name and identifier: raise it when the same settings give other bytes.
FORMAT = 1


class Simulation:
    """The settings of a simulation: the base of dataclasses."""

    seed: int

    @cached_property
    def fingerprint(self) -> str:
        """Return eight characters that identify these values, for identifiers."""
        values = [_plain(getattr(self, one.name), one.type) for one in fields(cast(Any, self))]
        return hashlib.blake2b(repr((FORMAT, *values)).encode(), digest_size=4).hexdigest()

    @property
    def prefix(self) -> str:
        """Return the beginning of the names of its files."""
        return f"seed-{self.seed}-{self.fingerprint}"

    def random(self, purpose: str) -> Random:
        """Return one purpose's generator: a change in one does not move another's draws."""
        return Random(f"{self.seed}:{purpose}")


def _plain(value: Any, declared: Any) -> Any:
    """Normalize a value: equal values are written alike, and 0 and -0.0 become 0.0 in a float."""
    if declared in (float, "float"):
        return value + 0.0
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def check_share(option: str, share: float, of: str, most: float = 0.5) -> None:
    """Raise UserError for an impossible share."""
    if not 0 <= share <= most:
        raise UserError(
            "HW_ARGUMENT", f"--{option} is a share of {of}: {share} is not in 0 to {most:g}"
        )


def check_rate(rate: float, of: str) -> None:
    """Raise UserError for an impossible rate."""
    if not rate > 0 or math.isinf(rate):
        raise UserError("HW_ARGUMENT", f"--rate is {of} a second: {rate} is not above 0")
