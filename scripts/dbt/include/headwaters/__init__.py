"""The dbt package of the adapter: macros and generic tests, for every project of its type."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
