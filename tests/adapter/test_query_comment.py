"""Run the published tests of `query_comment`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "query_comment")
