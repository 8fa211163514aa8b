"""Run the published tests of `concurrency`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "concurrency")
