"""The columns that macros of dbt and of packages get from `adapter.get_columns_in_relation`."""

from __future__ import annotations

import re
from typing import Any

from dbt.adapters.spark.column import SparkColumn

_WHOLE = frozenset(("tinyint", "smallint", "int", "integer", "bigint"))
_FLOATS = frozenset(("float", "real", "double"))


class HeadwatersColumn(SparkColumn):
    """A column whose kind is that of Spark's type; dbt-spark asks for the types of PostgreSQL."""

    def is_string(self) -> bool:
        """Return true for texts of any length."""
        return self._kind in ("string", "varchar", "char")

    def is_integer(self) -> bool:
        """Return true for whole numbers."""
        return self._kind in _WHOLE

    def is_float(self) -> bool:
        """Return true for floating-point numbers."""
        return self._kind in _FLOATS

    def is_numeric(self) -> bool:
        """Return true for decimals."""
        return self._kind in ("decimal", "dec", "numeric")

    def can_expand_to(self, other_column: Any) -> bool:
        """Return false: a run does not make a text longer, since `string` has no length."""
        return False

    @property
    def _kind(self) -> str:
        return re.split(r"[^a-z]", str(self.dtype).lower())[0]
