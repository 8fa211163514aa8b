"""Run the published tests of `python_model`."""

from __future__ import annotations

from .spark import classes

classes(__name__, "python_model", auto=("TestPythonIncrementalTests",))
