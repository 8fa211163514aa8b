"""Run the published tests of `persist_docs`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "persist_docs")
