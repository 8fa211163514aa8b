"""Shared parts of the publishing tests: a Delta table written by delta-rs, and its targets."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from topics import messages

from headwaters.publish.changes import PublishedTable
from headwaters.publish.kafka import KafkaTarget
from headwaters.publish.postgres import PostgresTarget

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(12, 2))])
Row = tuple[Any, ...]


class Gold:
    """A table `gold.value` of id, name and amount."""

    def __init__(self, path: Path, *rows: Row) -> None:
        self.path = path
        self.put(*rows)

    def put(self, *rows: Row, mode: Any = "append", schema: pa.Schema = SCHEMA) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
        data = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)
        write_deltalake(
            self.path, data, mode=mode, schema_mode="overwrite" if mode == "overwrite" else "merge"
        )

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    @property
    def source(self) -> PublishedTable:
        return PublishedTable("gold.value", self.path, ["id"])

    def rows(self) -> list[Row]:
        found = self.table.to_pyarrow_table().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def at(self, version: int) -> list[dict[str, Any]]:
        """Return the rows of a version, by identifier."""
        found = DeltaTable(self.path, version=version).to_pyarrow_table()
        rows: list[dict[str, Any]] = found.sort_by("id").to_pylist()
        return rows

    def step(self, rng: Random) -> str:
        """Make one random change of the table."""
        ids = [row[0] for row in self.rows()]
        some = rng.randrange(1, 60)
        kinds = ["insert", "update", "delete", "merge", "optimize", "restore", "overwrite", "none"]
        kind = rng.choices(kinds, [6, 6, 4, 4, 2, 1, 1, 1])[0]
        if kind == "insert":
            fresh = rng.sample([one for one in range(200) if one not in ids], 5)
            self.put(*[(one, f"n{rng.random()}", None) for one in fresh])
        elif kind == "update":
            self.table.update({"name": f"'u{rng.random()}'"}, predicate=f"id % {some} = 0")
        elif kind == "delete":
            self.table.delete(f"id % {some} = 1")
        elif kind == "merge":
            chosen = rng.sample(range(200), 20)
            data = pa.table({"id": pa.array(chosen, pa.int64()), "name": ["m"] * 20})
            merge = self.table.merge(data, "t.id = s.id", source_alias="s", target_alias="t")
            merge = merge.when_matched_delete("s.id % 3 = 0")
            merge = merge.when_matched_update({"name": "s.name"}, "s.id % 3 = 1")
            merge.when_not_matched_insert({"id": "s.id", "name": "s.name"}).execute()
        elif kind == "optimize":
            self.table.optimize.compact()
        elif kind == "restore":
            self.table.restore(rng.randrange(self.table.version() + 1))
        elif kind == "overwrite":
            self.put(*[(one, "o", None) for one in rng.sample(range(200), 30)], mode="overwrite")
        return kind


def to_postgres(url: str, table: str = "public.value", patience: float = 5.0) -> PostgresTarget:
    return PostgresTarget(table, "HEADWATERS_POSTGRES", lambda: url, patience)


def to_kafka(servers: str, topic: str, patience: float = 20.0) -> KafkaTarget:
    return KafkaTarget(topic, servers, dict, patience, lambda line: None)


def compacted(broker: str, topic: str) -> dict[Any, Any]:
    """Return the records that a reader of the topic ends with, after Kafka's compaction."""
    last = {key: value for _, _, key, value in messages(broker, topic)}
    return {key: json.loads(value) for key, value in last.items() if value is not None}


def as_records(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows of `gold.value` as a compacted topic has them: a decimal is a text."""
    return {
        f'{{"id":{row["id"]}}}': {**row, "amount": row["amount"] and str(row["amount"])}
        for row in rows
    }


def ask(url: str, sql: str) -> list[Row]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql.encode()).fetchall()


def tell(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode())
