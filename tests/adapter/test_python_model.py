"""Run the published tests of `python_model`."""

from __future__ import annotations

from .spark import classes

classes(
    __name__,
    "python_model",
    auto=("TestPythonIncrementalTests",),
    without={
        "TestPySparkTests": "One of its models imports databricks.koalas, whose last release"
        " supports no Python above 3.8. The other DataFrames are in a test of ours."
    },
)
