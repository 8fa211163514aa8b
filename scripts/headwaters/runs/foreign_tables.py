"""The losses of a first run that replaces a table which its model did not build.

A run of a strategy replaces a table that does not name the applied versions of its inputs. That is
right if dbt-spark built the table from the same model. It is wrong for a table made by hand: no
query restores its keys, defaults and rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.platform.delta_version import DEFAULT, GENERATED, IDENTITY, SPARK_ENGINE
from headwaters.platform.nodes import Config, Node, as_tuple
from headwaters.platform.problems import Problem
from headwaters.runs.model import Model
from headwaters.runs.state import TableState, table_detail
from headwaters.runs.strategies import strategy_for
from headwaters.tables.commits import Commit, as_mapping, as_names
from headwaters.tables.drift import created_checks, not_null_check
from headwaters.tables.properties import CONSTRAINT

# Properties of a table that a run of a strategy built, or of a copy of one.
_OF_RUNS = ("headwaters.sql", "headwaters.inputs", "headwaters.clone")
# dbt creates a model's table by these operations; a DataFrame's commit has a mark.
_BUILT = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT")
_OF_FRAMES = "isV1SaveAsTableOverwrite"
# dbt-spark writes rows only by these operations.
_BY_DBT = ("WRITE", "MERGE", "DELETE", *_BUILT)


def loss_of(model: Model, state: TableState | None) -> Problem | None:
    """Return the loss that a replacement of the model's table would cause, or None.

    It runs three statements for a table that no run of the model built, otherwise none.
    """
    existing, place = model.existing, str(model.node["original_file_path"])
    if existing is None or existing.is_view or (state and is_of_model(state.properties)):
        return None
    if not existing.is_delta:
        return other_format(str(existing), model.node).at(place)
    session = model.session
    detail = table_detail(session.connection, existing)
    facts = session.connection.fetch(session.macros("hw_schema_and_rows_sql", existing, detail))[0]
    columns = strategy_for(model).columns_of_full_refresh(model.sql)
    problem = lost_table(
        table=str(existing),
        node=model.node,
        config=model.config,
        columns=[column.name.lower() for column in columns],
        detail=detail,
        schema=facts["schema"],
        commits=session.connection.history(existing, 1000),
        rows=int(facts["rows"] or 0),
    )
    return problem.at(place) if problem else None


def other_format(table: str, node: Node) -> Problem:
    """Return the problem of a table that is not Delta: only a full refresh may drop it."""
    return Problem(
        "HW_FOREIGN_TABLE",
        f"{table} is no Delta table, so the model can only drop it, and nothing restores its rows. "
        f"Nothing was changed. `dbt run --full-refresh --select {node['name']}` drops and builds "
        "it; or give the model another name, or an alias",
    )


@dataclass(frozen=True)
class LoggedColumn:
    """A column of a table, by the schema in its log."""

    name: str
    nullable: bool
    metadata: Mapping[str, Any]

    def losses(self) -> Iterator[str]:
        """Yield the parts of the column that a table from a query lacks."""
        if IDENTITY in self.metadata:
            yield f"the identity column {self.name}"
        if GENERATED in self.metadata:
            yield f"the generated column {self.name}"
        if DEFAULT in self.metadata:
            yield f"the default of {self.name}"


def is_of_model(properties: Mapping[str, str]) -> bool:
    """Return true if a run of a strategy built the table, or it is a copy of such a table."""
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
    """Return the problem of a table that only a full refresh may replace, or None without losses.

    `columns` are those of the model, `detail` and `schema` those of the table, `commits` the newest
    first. If the log no longer has the schema, the losses are unknown.
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
        LoggedColumn(one["name"], one["nullable"], one["metadata"])
        for one in json.loads(schema)["fields"]
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
    """Yield the partitions and clusters of the table if the model declares neither."""
    if as_tuple(config.get("partition_by")) or as_tuple(config.get("cluster_by")):
        return
    for what, key in (("partitioned", "partitionColumns"), ("clustered", "clusteringColumns")):
        if names := as_names(detail[key]):
            yield f"that it is {what} by {', '.join(names)}"


def _is_built_by_dbt(commits: Sequence[Commit]) -> bool:
    """Return true if dbt wrote the rows, and only dbt-spark has changed them since."""
    newest = None  # the last commit whose rows the table has
    for commit in commits:
        if newest is not None and commit.version > newest:
            continue
        if commit.operation == "RESTORE" and commit.parameters.get("version"):
            newest = int(commit.parameters["version"])
        elif commit.operation in _BUILT:
            return _OF_FRAMES not in commit.parameters
        elif commit.effect.rows and not (
            commit.operation in _BY_DBT and commit.engine.startswith(SPARK_ENGINE)
        ):
            return False
    return False
