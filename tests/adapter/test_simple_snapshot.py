"""Run the published tests of `simple_snapshot`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "simple_snapshot")
