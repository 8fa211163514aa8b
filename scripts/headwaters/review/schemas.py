"""The schemas of a review: their names, their marks, and their end."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.errors import WorkError
from headwaters.platform.review_schemas import RECORDS, Part, shortened
from headwaters.platform.sql import identifier, literal
from headwaters.review.spark import Spark

_MARK = "headwaters.review"
_LONGEST = 120  # characters of a schema name; Hive's metastore allows 128
# Seconds after which the next review drops a review's schemas.
KEPT = 86_400


@dataclass(frozen=True)
class Schemas:
    """The schemas of one review: `review_<branch>__<part>_<schema>`."""

    slug: str
    _made: set[str] = field(default_factory=set)

    def name(self, part: Part, schema: str) -> str:
        """Return the review's counterpart of a production schema."""
        return shortened(f"{self.prefix}{part}_{schema}", _LONGEST)

    @property
    def records(self) -> str:
        """Return the schema for the notes that the review's runs write."""
        return f"{self.prefix}{RECORDS}"

    @property
    def prefix(self) -> str:
        """Return the prefix that the names of all the review's schemas share."""
        return f"review_{self.slug}__"

    def make(self, spark: Spark, name: str) -> None:
        """Create an empty schema, marked so that later reviews recognize it."""
        if name in self._made:
            return
        marks = f"{literal(_MARK)} = {literal(self.slug)}, {literal(f'{_MARK}.at')}"
        failed = spark.tried(
            f"create schema if not exists {identifier(name)}"
            f" with dbproperties ({marks} = '{int(time.time())}')"
        )
        if failed:
            raise WorkError(
                "HW_REVIEW_SCHEMA",
                f"the review cannot create {name}: {failed}. Let the profile's user create "
                "schemas, and see that the lake has room",
            )
        self._made.add(name)


def clean(spark: Spark, prefix: str, older_than: int | None = None) -> dict[str, str]:
    """Drop review schemas with a prefix, or older than some seconds. Unmarked schemas stay.

    Returns the schemas that could not be dropped, each with the reason, for example another owner.
    """
    left: dict[str, str] = {}
    of_all = "review_" if older_than is not None else prefix
    for row in spark.rows(f"show schemas like {literal(of_all + '*')}"):
        name = str(row[0])
        made = _made_at(spark, name)
        if made is None:
            continue
        is_old = older_than is not None and time.time() - made > older_than
        if is_old or (prefix and name.startswith(prefix)):
            failed = spark.tried(f"drop schema if exists {identifier(name)} cascade")
            if failed:
                left[name] = failed
    return left


def _made_at(spark: Spark, schema: str) -> int | None:
    """Return when a review made a schema, in seconds since 1970, or None for any other schema."""
    try:
        rows = spark.rows(f"describe schema extended {identifier(schema)}")
    except DbtRuntimeError:
        return None  # another review has just dropped it
    for row in rows:
        if row[0] == "Properties":
            found = re.search(rf"\({re.escape(_MARK)}\.at,\s*(\d+)\)", str(row[1]))
            return int(found[1]) if found else None
    return None
