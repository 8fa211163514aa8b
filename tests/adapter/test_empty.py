"""Run the published tests of `empty`."""

from __future__ import annotations

from .spark import classes

SEEDS = "dbt 1.11 loads seeds whole with `--empty`; `dbt seed` has the option from dbt 1.12 on."

classes(
    __name__,
    "empty",
    without={
        "TestEmptySeedFlag.test_seed_empty_creates_table_with_zero_rows": SEEDS,
        "TestEmptySeedFlag.test_seed_empty_preserves_column_types": SEEDS,
        "TestEmptySeedFlag.test_build_empty_with_seed": SEEDS,
    },
)
