"""Run the published tests of `sample_mode`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "sample_mode")
