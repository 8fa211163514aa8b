"""A plugin of sqlfluff: SQL that calls our macros is linted without Spark, dbt or a profile.

sqlfluff loads it where both are installed (the entry point in pyproject.toml), and takes from it
the setting `library_path`, which a `.sqlfluff` may change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlfluff.core.plugin import hookimpl

# sqlfluff imports what stands beside the package: keep it the only one of its folder
STAND_INS = Path(__file__).parent / "headwaters_macros"


@hookimpl
def load_default_config() -> dict[str, Any]:
    """The stand-ins as a library of the Jinja templater."""
    return {"templater": {"jinja": {"library_path": str(STAND_INS)}}}
