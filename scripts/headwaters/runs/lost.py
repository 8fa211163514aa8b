"""The losses of a first run that replaces a table which its model did not build: pure.

A run of a strategy replaces a table that does not name the applied versions of its inputs. That is
right for one that dbt-spark built from the same model, and wrong for one that was made by
hand, whose keys, defaults and rows no query gives back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.platform.nodes import Config, Node, as_tuple
from headwaters.platform.problems import Problem
from headwaters.tables.commits import Commit, as_mapping, as_names
from headwaters.tables.drift import created_checks, not_null_check
from headwaters.tables.properties import CONSTRAINT

# Properties of a table that a run of a strategy built, or that is a copy.
_OF_RUNS = ("headwaters.sql", "headwaters.inputs", "headwaters.clone")
# dbt makes the table of a model by these; the one for a DataFrame has a mark.
_BUILT = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")
_OF_FRAMES = "isV1SaveAsTableOverwrite"
# dbt-spark writes rows by these alone.
_BY_DBT = ("WRITE", "MERGE", "DELETE", *_BUILT)
_SPARK = "Apache-Spark/"


def other_format(table: str, node: Node) -> Problem:
    """Return that a table of another format than Delta is dropped by a full refresh alone."""
    return Problem(
        "HW_FOREIGN_TABLE",
        f"{table} is no Delta table, so the model can only drop it, and nothing restores its rows. "
        f"Nothing was changed. `dbt run --full-refresh --select {node['name']}` drops and builds "
        "it; or give the model another name, or an alias",
    )


@dataclass(frozen=True)
class Field:
    """A column of a table, by the schema in its log."""

    name: str
    nullable: bool
    metadata: Mapping[str, Any]

    def losses(self) -> Iterator[str]:
        """Yield what a table from a query does not have of the column."""
        if "delta.identity.start" in self.metadata:
            yield f"the identity column {self.name}"
        if "delta.generationExpression" in self.metadata:
            yield f"the generated column {self.name}"
        if "CURRENT_DEFAULT" in self.metadata:
            yield f"the default of {self.name}"


def is_of_model(properties: Mapping[str, str]) -> bool:
    """Return whether a run of a strategy built the table, or it is a copy of one."""
    return any(name in properties for name in _OF_RUNS)


def lost_table(
    *,
    table: str,
    node: Node,
    config: Config,
    columns: Iterable[str],
    detail: Mapping[str, Any],
    schema: str | None,
    commits: Sequence[Commit],
    rows: int,
) -> Problem | None:
    """Return why a table must not be replaced without a full refresh; None where nothing is lost.

    `columns` are those of the model, `detail` and `schema` those of the table, `commits` the newest
    first. A schema that its log does not have is unknown, and so is what would be lost.
    """
    lost = [*_lost_columns(node, columns, schema, detail), *_lost_layout(config, detail)]
    if rows and not _is_built_by_dbt(commits):
        what = "1 row" if rows == 1 else f"{rows} rows"
        lost.append(f"{what} that no run of dbt is known to have written")
    if not lost:
        return None
    name, version = node["name"], commits[0].version if commits else None
    undo = f"{{table: {table}, version: {version}, reason: undo, dry_run: false}}"
    back = f", and `dbt run-operation restore --args '{undo}'` takes that back"
    return Problem(
        "HW_FOREIGN_TABLE",
        f"{table} was not built by this model, which would replace it and lose {', '.join(lost)}. "
        f"Nothing was changed. `dbt run --full-refresh --select {name}` replaces it"
        f"{back if version is not None else ''}; or give the model another name, or an alias",
    )


def _lost_columns(
    node: Node, columns: Iterable[str], schema: str | None, detail: Mapping[str, Any]
) -> Iterator[str]:
    if schema is None:
        yield "columns that its log no longer describes"
        return
    fields = [
        Field(one["name"], one["nullable"], one["metadata"]) for one in json.loads(schema)["fields"]
    ]
    kept = {name.lower() for name in columns}
    declared = created_checks(node)
    for field in fields:
        special = list(field.losses())
        yield from special
        if field.name.lower() not in kept and not special:
            yield f"the column {field.name}"
        if not field.nullable and CONSTRAINT + not_null_check(field.name)[0] not in declared:
            yield f"NOT NULL of {field.name}"
    for name in as_mapping(detail["properties"]):
        if name.startswith(CONSTRAINT) and name not in declared:
            yield f"the check {name.removeprefix(CONSTRAINT)}"


def _lost_layout(config: Config, detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield partitions and clusters of which the model says nothing."""
    if as_tuple(config.get("partition_by")) or as_tuple(config.get("cluster_by")):
        return
    for what, key in (("partitioned", "partitionColumns"), ("clustered", "clusteringColumns")):
        if names := as_names(detail[key]):
            yield f"that it is {what} by {', '.join(names)}"


def _is_built_by_dbt(commits: Sequence[Commit]) -> bool:
    """Return whether the rows come from a statement of dbt, and from what dbt-spark added since."""
    newest = None  # of the commits whose rows the table has
    for commit in commits:
        if newest is not None and commit.version > newest:
            continue
        if commit.operation == "RESTORE" and commit.parameters.get("version"):
            newest = int(commit.parameters["version"])
        elif commit.operation in _BUILT:
            return _OF_FRAMES not in commit.parameters
        elif commit.effect.rows and not (
            commit.operation in _BY_DBT and commit.engine.startswith(_SPARK)
        ):
            return False
    return False
