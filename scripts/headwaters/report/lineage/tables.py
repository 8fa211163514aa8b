"""The project's tables with the origins of their columns: from SQL, declarations and seeds."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from pathlib import Path

from headwaters.analysis import (
    ROWS,
    NotAnalysed,
    Origin,
    Origins,
    QueryOrigins,
    as_rows,
    expectations_of,
    joined_origins,
    origins_of,
    strategy_of,
)
from headwaters.platform.nodes import Config, Node, as_tuple, merged_setting, table_name
from headwaters.streams.contract import parse_contract

_EPHEMERAL = "__dbt__cte__"
_TABLES = ("model", "seed", "snapshot", "source")
_OF_SNAPSHOTS = ("dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to")


@dataclass(frozen=True)
class LineageTable:
    """A table, view, ephemeral model, seed or source.

    `key` is its name in columns: schema and table in lower case. If its SQL is not analysed,
    `relation` is None and `reason` explains it. `declared` are its columns in the spelling of the
    YAML.
    """

    key: str
    name: str
    kind: str
    file: str
    reads: tuple[str, ...] = ()
    relation: QueryOrigins | None = None
    reason: str = ""
    declared: Mapping[str, str] = field(default_factory=dict)
    exposures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Return its known columns in lower case."""
        return list(self.relation.columns) if self.relation else list(self.declared)

    def spelled(self, column: str) -> str:
        """Return a column's display name."""
        return self.declared.get(column, column)


def tables_of(
    nodes: Mapping[str, Node],
    exposures: Mapping[str, Node],
    not_compiled: Mapping[str, str],
    root: Path,
) -> dict[str, LineageTable]:
    """Return the tables of a project, by their keys.

    `nodes` are the nodes and sources of dbt's manifest, with the compiled SQL of models.
    `not_compiled` has the reason for each model without compiled SQL. `root` is the project's
    folder.
    """
    chosen = {key: node for key, node in nodes.items() if node["resource_type"] in _TABLES}
    above = {key: _above(node, chosen) for key, node in chosen.items()}
    keys = {key: key_of(node) for key, node in chosen.items()}
    shown: dict[str, list[str]] = {}
    for exposure in exposures.values():
        for key in exposure["depends_on"]["nodes"]:
            shown.setdefault(key, []).append(f"{exposure['name']} ({exposure['type']})")
    found: dict[str, LineageTable] = {}
    for key in TopologicalSorter(above).static_order():
        node = chosen[key]
        columns = node.get("columns") or {}
        table = LineageTable(
            keys[key],
            _shown_name(node),
            "ephemeral" if _is_ephemeral(node) else str(node["resource_type"]),
            str(node["original_file_path"]),
            tuple(sorted(keys[other] for other in above[key])),
            declared={str(name).lower(): str(name) for name in columns},
            exposures=tuple(sorted(shown.get(key, []))),
        )
        try:
            if key in not_compiled:
                raise NotAnalysed(not_compiled[key])
            found[table.key] = _analysed(table, node, found, root)
        except NotAnalysed as refused:
            found[table.key] = replace(table, reason=str(refused))
    return found


def key_of(node: Node) -> str:
    """Return the table's SQL name in lower case."""
    return (f"{_EPHEMERAL}{node['name']}" if _is_ephemeral(node) else table_name(node)).lower()


def _is_ephemeral(node: Node) -> bool:
    return bool(node["config"].get("materialized") == "ephemeral")


def _shown_name(node: Node) -> str:
    if node["resource_type"] == "source":
        return f"{node['source_name']}.{node['name']}"
    return str(node["alias"] if node.get("version") else node["name"])


def _above(node: Node, chosen: Mapping[str, Node]) -> set[str]:
    return {key for key in (node.get("depends_on") or {}).get("nodes", ()) if key in chosen}


def _analysed(
    table: LineageTable, node: Node, known: Mapping[str, LineageTable], root: Path
) -> LineageTable:
    if table.kind == "source":
        return _source(table, node)
    if table.kind == "seed":
        columns = _header(node, root)
        return replace(
            table,
            relation=_leaf([name.lower() for name in columns]),
            declared={name.lower(): name for name in columns},
        )
    if node.get("language") == "python":
        raise NotAnalysed("it is a Python model")

    def columns_of(name: str) -> Sequence[str] | None:
        other = known.get(name)
        return other.columns if other else None

    sql = node.get("compiled_code") or ""
    config = node["config"]
    relation = origins_of(
        sql,
        columns_of,
        left_out=_EPHEMERAL,
        added={name: str(text) for name, text in (config.get("derived") or {}).items()},
        conditions=[
            rule.expression for rule in expectations_of(config) if rule.on_failure == "drop"
        ],
    )
    relation = _by_strategy(relation, sql, node["config"])
    if table.kind == "snapshot":
        relation = _snapshot(relation, node["config"])
    notes = [f"what the function {name} reads itself" for name in sorted(relation.functions)]
    reads = {column.table for column in (*relation.everything, *relation.rows)}
    return replace(table, relation=relation, notes=tuple(notes), reads=tuple(sorted(reads)))


def _leaf(columns: Sequence[str]) -> QueryOrigins:
    return QueryOrigins({name: {} for name in columns})


def _header(node: Node, root: Path) -> list[str]:
    """Return the columns of a seed."""
    file = Path(node.get("root_path") or root) / node["original_file_path"]
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            delimiter = node["config"].get("delimiter") or ","
            return [name.strip() for name in next(csv.reader(lines, delimiter=delimiter), [])]
    except OSError as error:
        raise NotAnalysed(f"its file cannot be read: {error.strerror}") from None


def _source(table: LineageTable, node: Node) -> LineageTable:
    """Return a source with its contract's columns if it is streamed, else the declared ones."""
    if node["config"].get("meta", {}).get("stream") is None:
        if not table.declared:
            raise NotAnalysed("no columns are declared")
        return replace(table, relation=_leaf(list(table.declared)))
    contract = parse_contract(node)
    names = {name.lower(): name for name, _ in contract.bronze_columns()}
    columns: dict[str, Origins] = {name: {} for name in names}
    readable = [*names, *contract.envelope]
    for column in contract.computed_columns:
        computed = f"select {column.expression} as computed from {table.key}"
        origins = origins_of(computed, lambda _: readable).columns["computed"]
        columns[column.name.lower()] = {
            of: kind for of, kind in origins.items() if of.name in names
        }
    return replace(table, relation=QueryOrigins(columns), declared=names)


def _by_strategy(relation: QueryOrigins, sql: str, config: Config) -> QueryOrigins:
    """Add a strategy's own origins to those of the SQL: the latest record, periods of validity."""
    strategy = strategy_of(config) if config.get("materialized") == "incremental" else None
    if strategy is None or strategy.name not in ("latest_by", "history"):
        return relation
    columns = dict(relation.columns)
    keys = _rows_of(columns, [*as_tuple(config.get("unique_key"))])
    if strategy.name == "latest_by":
        return replace(
            relation,
            rows=relation.rows | keys | _rows_of(columns, as_tuple(config.get("latest_by"))),
        )
    # periods begin at a column of the input, or at its commits
    columns.pop("_image", None)
    moments: dict[Origin, str] = {}
    for match in re.finditer(r'/\* images (\{[^\n]*?"kind": "images"[^\n]*?\}) \*/', sql):
        marked = json.loads(match[1])
        source = marked["source"].replace("`", "").lower()
        moments[Origin(source, (marked.get("column") or ROWS).lower())] = "value"
    began: Origins = {column: "rows" if column.name == ROWS else "value" for column in moments}
    for name in ("valid_from", "valid_to", "is_current"):
        columns[name] = began
    return replace(relation, columns=columns, rows=relation.rows | keys | frozenset(moments))


def _rows_of(columns: Mapping[str, Origins], names: Sequence[str]) -> frozenset[Origin]:
    """Return the origins of these columns, in any letter case."""
    wanted = [name.replace("`", "").lower() for name in names]
    return frozenset(joined_origins(*(columns.get(name, {}) for name in wanted)))


def _snapshot(relation: QueryOrigins, config: Config) -> QueryOrigins:
    """Add the columns that dbt adds to a snapshot."""
    settings = merged_setting(config, "snapshot_meta_column_names")
    checked = config.get("check_cols")
    compared = list(relation.columns) if checked == "all" else as_tuple(checked)
    moment = as_tuple(config.get("updated_at"))
    keys = _rows_of(relation.columns, as_tuple(config.get("unique_key")))
    rows = keys | _rows_of(relation.columns, (*moment, *compared))
    added: dict[str, Origins] = {}
    for name in _OF_SNAPSHOTS:
        of_moment = joined_origins(*(relation.columns.get(part.lower(), {}) for part in moment))
        added[settings.get(name) or name] = joined_origins(as_rows(rows), of_moment)
    if config.get("hard_deletes") == "new_record":
        added[settings.get("dbt_is_deleted") or "dbt_is_deleted"] = as_rows(keys)
    columns = {**relation.columns, **{name.lower(): of for name, of in added.items()}}
    return replace(relation, columns=columns, rows=relation.rows | rows)
