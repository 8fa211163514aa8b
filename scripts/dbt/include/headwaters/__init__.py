"""The dbt package of the adapter: macros and generic tests for projects of its type."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
