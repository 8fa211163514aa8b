"""Run the published tests of `relations`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "relations", auto=("TestChangeRelationTypeValidator",))
