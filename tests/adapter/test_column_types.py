"""Run the published tests of `column_types`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "column_types")
