"""The tables that a review reads but does not build: pinned versions, and their clones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.errors import first_line
from headwaters.review.dbt_runs import moved
from headwaters.review.schemas import Schemas
from headwaters.review.spark import COMMITS, Spark


@dataclass(frozen=True)
class Pinned:
    """The versions at which a review reads tables, and why some tables are not pinned.

    `versions` has lower-case names of production's tables, in the form of the var
    `headwaters_pins`.
    """

    versions: Mapping[str, Mapping[str, int]]
    problems: Mapping[str, str]

    def of(self, table: str) -> Mapping[str, int] | None:
        """Return the pinned version of a table, or None if it is not pinned."""
        return self.versions.get(table.lower())


def pin(
    spark: Spark, tables: Iterable[str], applied: Mapping[str, Sequence[Mapping[str, int]]]
) -> Pinned:
    """Pin each table to the version that production's tables have applied, or to the newest.

    `applied` has, by a table's lower-case name, the applied versions of each of its readers.
    """
    versions: dict[str, Mapping[str, int]] = {}
    problems: dict[str, str] = {}
    for table in sorted(set(tables)):
        try:
            noted = applied.get(table.lower(), ())
            commits = spark.history(table, COMMITS if noted else 1)
            versions[table.lower()] = {"version": commits[0].version, "at": commits[0].at}
            are_one = noted and all(one == noted[0] for one in noted)
            if are_one and spark.reads(table, noted[0], commits):
                versions[table.lower()] = noted[0]
        except (DbtRuntimeError, IndexError) as error:
            problems[table] = first_line(error)
    return Pinned(versions, problems)


def clone_inputs(
    spark: Spark,
    schemas: Schemas,
    nodes: Mapping[str, Any],
    pinned: Pinned,
    problems: dict[str, str],
    cloned: set[str],
) -> dict[str, str]:
    """Clone the tables of nodes at their versions, and return the schema of each clone by node id.

    A table that cannot be cloned is left out and read in production; `problems` gets the reason, by
    table. `cloned` has the existing clones and receives the new ones.
    """
    places: dict[str, str] = {}
    for key, node in nodes.items():
        table = str(node.relation_name)
        version = pinned.of(table)
        if version is None or table in problems:
            continue
        schema = schemas.name("in", node.schema)
        place = moved(table, schema)
        if place not in cloned:
            schemas.make(spark, schema)
            failed = spark.tried(
                f"create table if not exists {place}"
                f" shallow clone {table} version as of {version['version']}"
            )
            if failed:
                problems[table] = failed
                continue
            cloned.add(place)
        places[key] = schema
    return places
