"""Make a small lake with delta-rs in milliseconds; a test sets the age of its commits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from ingestion import bare_project, node

from headwaters.report.declared import Declared, of_nodes
from headwaters.report.facts import Lake
from headwaters.report.gather import Gatherer

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


def ago(**length: float) -> datetime:
    """Return a moment before NOW."""
    return NOW - timedelta(**length)


class SmallLake:
    """A project of a profile alone, and its lake."""

    def __init__(self, folder: Path) -> None:
        self.project = bare_project(folder)
        self.lake = folder / "lake"
        self.lake.mkdir()
        (self.lake / "lake.json").write_text(json.dumps({"made_at": str(self.lake)}))
        self.nodes: dict[str, dict[str, Any]] = {}

    def folder(self, table: str) -> Path:
        schema, name = table.split(".")
        return self.lake / "warehouse" / f"{schema}.db" / name

    def write(
        self, table: str, rows: Mapping[str, Sequence[Any]], at: datetime, mode: Any = "append"
    ) -> Path:
        """Commit rows at a moment."""
        folder = self.folder(table)
        write_deltalake(folder, pa.table(dict(rows)), mode=mode)
        return self._date(folder, at)

    def set(self, table: str, at: datetime, **properties: str) -> Path:
        """Commit table properties; `__` stands for a dot."""
        given = {name.replace("__", "."): value for name, value in properties.items()}
        folder = self.folder(table)
        DeltaTable(folder).alter.set_table_properties(given, raise_if_not_exists=False)
        return self._date(folder, at)

    def applied(self, table: str, at: datetime, **versions: int) -> Path:
        """Note applied versions, as a run does."""
        inputs = {
            name.replace("__", "."): {"version": one, "at": 1} for name, one in versions.items()
        }
        return self.set(table, at, headwaters__inputs=json.dumps(inputs))

    def delete(self, table: str, predicate: str, at: datetime) -> Path:
        """Commit a deletion of rows."""
        folder = self.folder(table)
        DeltaTable(folder).delete(predicate)
        return self._date(folder, at)

    def _date(self, folder: Path, at: datetime) -> Path:
        """Date the newest commit."""
        newest = max((folder / "_delta_log").glob("*.json"))
        lines = []
        for line in newest.read_text().splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = round(at.timestamp() * 1000)
            lines.append(json.dumps(action))
        newest.write_text("\n".join(lines) + "\n")
        return folder

    def stream(self, name: str, **freshness: Any) -> None:
        """Declare a stream of files."""
        source = node({"id": "bigint"}, name=name) | {"freshness": freshness}
        source |= {"resource_type": "source", "depends_on": {"nodes": []}}
        self.nodes[f"source.{name}"] = source

    def model(self, table: str, reads: Sequence[str] = (), **config: Any) -> None:
        """Declare an incremental model; `reads` are ids of nodes."""
        schema, name = table.split(".")
        self.nodes[f"model.{name}"] = {
            "resource_type": "model",
            "original_file_path": f"models/{schema}/{name}.sql",
            "schema": schema,
            "name": name,
            "alias": name,
            "columns": {},
            "depends_on": {"nodes": list(reads)},
            "config": {
                "materialized": "incremental",
                "incremental_strategy": "change_feed",
                "meta": {"owner": "shop"},
                **config,
            },
        }

    @property
    def declared(self) -> Declared:
        return of_nodes(self.nodes)

    def read(self, now: datetime = NOW) -> Lake:
        """Return the facts of the lake."""
        return Gatherer(self.project, self.declared).lake(now)


def size(folder: Path) -> int:
    """Return the size of a table's data files; no file may have been removed."""
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))
