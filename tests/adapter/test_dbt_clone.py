"""Run the published tests of `dbt_clone`."""

from __future__ import annotations

from .spark import classes

classes(
    __name__,
    "dbt_clone",
    without={
        "TestCloneNotPossible": "Delta clones tables, so dbt makes no views in their place.",
    },
)
