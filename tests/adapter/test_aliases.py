"""Run the published tests of `aliases`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "aliases")
