"""A plugin of sqlfluff that lints SQL with headwaters' macros without Spark, dbt or a profile.

If both are installed, sqlfluff loads it through the entry point in pyproject.toml. It provides the
setting `library_path`, which a `.sqlfluff` may override.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlfluff.core.plugin import hookimpl

# sqlfluff imports everything in this folder: keep the package alone in it
STAND_INS = Path(__file__).parent / "headwaters_macros"


@hookimpl
def load_default_config() -> dict[str, Any]:
    """Return the stand-ins as a library of the Jinja templater."""
    return {"templater": {"jinja": {"library_path": str(STAND_INS)}}}
