"""Test the plans of next runs from tables' logs, over made logs and without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from dbt_common.exceptions import DbtRuntimeError

from headwaters.report.log_session import LogSession, LogTables
from headwaters.report.planned_runs import (
    PendingChanges,
    PlannedRun,
    planned_load,
    planned_run,
)
from headwaters.runs import decisions
from headwaters.runs.explaining import explain
from headwaters.runs.inputs import inputs_of, with_inputs
from headwaters.runs.layout import layout_note
from headwaters.runs.model import Model
from headwaters.runs.pinned_inputs import pinned
from headwaters.runs.settling import settle
from headwaters.runs.state import state_properties

SPARK = "Apache-Spark/4.1.0 Delta-Lake/4.1.0"
FEED = {"delta.enableChangeDataFeed": "true"}
COLUMNS = {"id": "integer", "n": "long"}
MILLION = 1_000_000


@dataclass(frozen=True)
class Relation:
    """A table as dbt names it."""

    identifier: str
    schema: str = "gold"
    is_view: bool = False
    is_delta: bool = True

    def incorporate(self, **changes: Any) -> Relation:
        return replace(self, **changes["path"])

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


class MadeLake:
    """Tables of logs without data files, and a project that declares them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions: dict[str, int] = {}
        self.graph: dict[str, dict[str, Any]] = {"nodes": {}, "sources": {}}
        self.settings: dict[str, str] = {}
        self.create("raw.orders", rows=MILLION)
        source = {"schema": "raw", "identifier": "orders", "resource_type": "source"}
        source |= {"name": "orders", "source_name": "raw", "unique_id": "source.raw.orders"}
        self.graph["sources"]["source.raw.orders"] = source | {"config": {}, "columns": {}}

    def commit(
        self,
        table: str,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        metrics: Mapping[str, int] | None = None,
        *actions: Mapping[str, Any],
        engine: str = SPARK,
    ) -> None:
        """Add a commit, a second after the one before."""
        version = self.versions[table] = self.versions.get(table, -1) + 1
        schema, name = table.split(".")
        log = self.folder / f"{schema}.db" / name / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        info: dict[str, Any] = {
            "operation": operation,
            "operationParameters": dict(parameters or {}),
        }
        info |= {"timestamp": 1, "engineInfo": engine}
        counted = {name: str(count) for name, count in (metrics or {}).items()}
        lines = [{"commitInfo": info | {"operationMetrics": counted}}, *actions]
        file = log / f"{version:020}.json"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        os.utime(file, (version + 1, version + 1))

    def create(
        self,
        table: str,
        rows: int,
        properties: Mapping[str, str] = FEED,
        columns: Mapping[str, str] = COLUMNS,
    ) -> None:
        """Create or replace a table with rows."""
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in columns.items()
        ]
        metadata: dict[str, Any] = {
            "id": table,
            "partitionColumns": [],
            "configuration": dict(properties),
        }
        metadata["schemaString"] = json.dumps({"type": "struct", "fields": fields})
        told = {"partitionBy": "[]", "properties": json.dumps(dict(properties))}
        self.commit(
            table,
            "CREATE OR REPLACE TABLE AS SELECT",
            told,
            {"numOutputRows": rows, "numOutputBytes": 10 * rows},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}},
            {"metaData": metadata},
            self._added(table, rows),
        )

    def append(self, table: str, rows: int) -> None:
        """Append rows, of ten bytes each."""
        mode = {"mode": "Append"}
        self.commit(table, "WRITE", mode, {"numOutputRows": rows}, self._added(table, rows))

    def _added(self, table: str, rows: int) -> dict[str, Any]:
        stats = json.dumps({"numRecords": rows})
        path = f"{self.versions.get(table, -1) + 1}.parquet"
        return {"add": {"path": path, "size": 10 * rows, "dataChange": True, "stats": stats}}

    def session(self, noted_sql: str | None = None) -> LogSession:
        folders = {
            f"{schema.name.removesuffix('.db')}.{table.name}": table
            for schema in self.folder.iterdir()
            for table in schema.iterdir()
        }
        return LogSession(
            LogTables(folders),
            self.graph,
            lambda node: dict(node["config"]),
            noted_sql,
            self.settings,
        )

    def model(self, name: str, **config: Any) -> dict[str, Any]:
        """Declare a model, or declare it again."""
        node: dict[str, Any] = {"unique_id": f"model.{name}", "name": name, "alias": name}
        node |= {"schema": "gold", "resource_type": "model", "language": "sql"}
        node |= {"columns": {}, "constraints": [], "depends_on": {"nodes": []}}
        node |= {"original_file_path": f"models/{name}.sql"}
        node["config"] = {"materialized": "incremental", **config}
        self.graph["nodes"][node["unique_id"]] = node
        return node

    def build(self, node: Mapping[str, Any], sql: str, rows: int = MILLION) -> None:
        """Build a model's table as its first run does."""
        target: Any = Relation(node["name"])
        session = self.session()
        settled = settle(session, node, at_newest(session, sql), {})
        made = Model(node, target, None, settled.code, settled.config, session)
        properties = state_properties(made, inputs_of(made.sql))
        detail: dict[str, Any] = {"partitionColumns": [], "clusteringColumns": []}
        properties["headwaters.layout"] = layout_note(detail | {"description": None})
        sizes = {
            spec["source"]: session.rows_by_log(spec["source"]) for spec in inputs_of(made.sql)
        }
        properties["headwaters.size"] = json.dumps({"inputs": sizes, "rows": 0})
        self.create(str(target), rows, {**FEED, **properties})

    def next_run(self, node: Mapping[str, Any], sql: str) -> PlannedRun:
        target: Any = Relation(node["name"])
        state = self.session().tables.state(str(target))
        noted = state.properties.get("headwaters.sql") if state else None
        return planned_run(self.session(noted), node, target, sql)

    def explained(self, node: Mapping[str, Any], sql: str) -> list[str]:
        """Return the lines of `explain_refresh` about the inputs and the next run."""
        target: Any = Relation(node["name"])
        state = self.session().tables.state(str(target))
        session = self.session(state.properties["headwaters.sql"] if state else None)
        lines = explain(session, node, at_newest(session, sql), target).splitlines()
        return [line for line in lines[1:] if not line.startswith("  proof:")]


def at_newest(session: LogSession, sql: str) -> str:
    """Return SQL as dbt compiles it with a connection."""
    texts = {
        spec["text"]: pinned(session, spec["kind"], spec["source"], options_of(spec))
        for spec in inputs_of(sql)
    }
    return with_inputs(sql, texts)


def options_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    known = ("kind", "source", "version", "at", "text")
    return {name: value for name, value in spec.items() if name not in known}


def marked(kind: str, source: str = "raw.orders", **options: Any) -> str:
    """Return an input as dbt compiles it without a connection."""
    spec = {"kind": kind, "source": source, "version": None, "at": None, **options}
    return f"/* {kind} {json.dumps(spec, sort_keys=True)} */ {source}"


COPY = f"select id, n from {marked('changes')}"
SUMS = f"select id, sum(n) as n from {marked('affected', key={'id': 'id'})} group by id"
BY_FEED = {"incremental_strategy": "change_feed", "unique_key": "id"}
BY_KEYS = {"incremental_strategy": "affected_keys", "unique_key": "id"}


@pytest.fixture
def lake(tmp_path: Path) -> MadeLake:
    return MadeLake(tmp_path)


def told(run: PlannedRun) -> tuple[str, str]:
    return run.action, run.reason


def test_a_first_build_and_a_run_without_changes(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED)
    assert lake.next_run(copy, COPY) == PlannedRun(
        "model.copy", "change_feed", "first build", "first run", None, ("raw.orders",), (), True
    )
    lake.build(copy, COPY)
    assert lake.next_run(copy, COPY) == PlannedRun(
        "model.copy", "change_feed", "no changes", "no changes", 0, ("raw.orders",)
    )


def test_a_first_build_before_its_inputs_and_one_without_a_proof(lake: MadeLake) -> None:
    copy, later = lake.model("copy", **BY_FEED), lake.model("later", **BY_FEED)
    read = COPY.replace("raw.orders", "gold.copy")
    assert told(lake.next_run(later, read)) == ("first build", "first run")
    run = lake.next_run(copy, f"{COPY} order by rand() limit 3")
    assert run.action == "refused"
    assert run.reason.startswith("[HW_")


def test_appended_rows_are_appended_and_deleted_ones_are_found_by_key(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED)
    lake.build(copy, COPY)
    lake.append("raw.orders", 100)
    pending = PendingChanges("raw.orders", 0, 1, 100)
    assert lake.next_run(copy, COPY) == PlannedRun(
        *("model.copy", "change_feed", "append", "100 rows changed", 100),
        *(("raw.orders",), (pending,)),
    )
    lake.commit("raw.orders", "DELETE", {"predicate": "[]"}, {"numDeletedRows": 7})
    run = lake.next_run(copy, COPY)
    assert (told(run), run.rows) == (("merge", "107 rows changed"), 107)
    keyless = lake.model("keyless", incremental_strategy="change_feed")
    lake.build(keyless, COPY)
    lake.commit("raw.orders", "DELETE", {"predicate": "[]"}, {"numDeletedRows": 7})
    assert told(lake.next_run(keyless, COPY)) == ("merge", "7 rows changed")


def test_rows_that_a_commit_does_not_count_are_those_of_its_files(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED)
    lake.build(copy, COPY)
    added = {"add": {"path": "x", "size": 9, "stats": '{"numRecords": 4}', "dataChange": True}}
    lake.commit("raw.orders", "WRITE", {"mode": "Append"}, {}, added, engine="delta-rs:py-1.6.6")
    run = lake.next_run(copy, COPY)
    assert (told(run), run.pending[0].rows) == (("append", "4 rows changed"), 4)


def test_large_changes_are_compared_with_the_share_that_the_logs_know(lake: MadeLake) -> None:
    copy, sums = lake.model("copy", **BY_FEED), lake.model("sums", **BY_KEYS)
    lake.build(copy, COPY)
    lake.build(sums, SUMS)
    lake.append("raw.orders", 500_000)
    run = lake.next_run(copy, COPY)
    assert told(run) == ("replace", "50 % of the rows changed")
    assert run.is_whole
    run = lake.next_run(sums, SUMS)
    assert told(run) == ("merge", "500000 rows changed: up to 40 %, replaces above")
    assert (run.may_replace, run.is_whole) == (True, False)
    strict = lake.model("sums", **BY_KEYS, replace_above=0.125, refresh="strict")
    run = lake.next_run(strict, SUMS)
    assert told(run) == ("merge", "500000 rows changed: up to 12.5 %, is refused above")


def test_an_input_of_other_columns_replaces_the_table_and_strict_refuses(lake: MadeLake) -> None:
    gap = "raw.orders was replaced by a table of other columns"
    nodes = [
        lake.model("copy", **BY_FEED),
        lake.model("strict", **BY_FEED, refresh="strict"),
        lake.model("kept", **BY_FEED, on_gap="fail"),
    ]
    for node in nodes:
        lake.build(node, COPY)
    lake.create("raw.orders", MILLION, columns={**COLUMNS, "id": "long"})
    runs = [lake.next_run(node, COPY) for node in nodes]
    assert [told(run) for run in runs[:2]] == [
        ("replace", gap),
        ("refused", f"refresh is strict: {gap}"),
    ]
    assert runs[2].action == "refused"
    assert runs[2].reason.startswith("[HW_GAP] The changes that gold.kept has to follow are not")


def test_a_replaced_input_of_the_same_columns_is_followed(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED, replace_above=10)
    lake.build(copy, COPY)
    lake.create("raw.orders", 3000)
    assert told(lake.next_run(copy, COPY)) == ("merge", "3000 rows changed")


def test_a_write_by_others_replaces_the_table(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED)
    lake.build(copy, COPY)
    metrics = {"numTargetRowsUpdated": 3}
    lake.commit("gold.copy", "MERGE", {}, metrics, engine="Trino/470")
    assert told(lake.next_run(copy, COPY)) == (
        "replace",
        "the table was changed by MERGE of version 1 by Trino, which is no run of its model",
    )


def test_changed_sql_and_changed_settings_of_the_profile(lake: MadeLake) -> None:
    lake.settings = {"spark.sql.session.timeZone": "UTC"}
    copy = lake.model("copy", **BY_FEED)
    lake.build(copy, COPY)
    assert told(lake.next_run(copy, f"{COPY} where n > 5")) == (
        "unknown",
        "the SQL changed: patched if Spark gives the same types, else replaced",
    )
    assert told(lake.next_run(copy, f"{COPY}  -- the same")) == ("no changes", "no changes")
    lake.settings = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    assert told(lake.next_run(copy, COPY)) == (
        "replace",
        "changed settings: spark.sql.session.timeZone was UTC and is Asia/Tokyo",
    )


def test_plain_sql_of_small_and_large_tables(lake: MadeLake) -> None:
    small = lake.model("small", incremental_strategy="auto", whole_below=200_000)
    large = lake.model("large", incremental_strategy="auto")
    lake.create("raw.few", 20)
    few = {**lake.graph["sources"]["source.raw.orders"], "identifier": "few", "name": "few"}
    lake.graph["sources"]["source.raw.few"] = few | {"unique_id": "source.raw.few"}
    of_few, of_orders = (f"select id, n from raw.{name} where n > 0" for name in ("few", "orders"))
    lake.build(small, of_few, 10)
    lake.build(large, of_orders)
    lake.append("raw.few", 3)
    lake.append("raw.orders", 3)
    run = lake.next_run(small, of_few)
    assert (told(run), run.is_whole) == (("replace", "computed in full from 23 rows"), True)
    run = lake.next_run(large, of_orders)
    assert (told(run), run.strategy) == (("append", "3 rows changed"), "change_feed")


@pytest.mark.parametrize(
    ("rows", "run"),
    [
        (9, ("replace", "computed in full from 1000003 rows")),
        (10, ("append", "3 rows changed")),
    ],
)
def test_a_table_of_many_bytes_is_not_computed_in_full(
    lake: MadeLake, monkeypatch: pytest.MonkeyPatch, rows: int, run: tuple[str, str]
) -> None:
    monkeypatch.setattr(decisions, "MOST_ROWS_WHOLE", 2 * MILLION)
    monkeypatch.setattr(decisions, "MOST_BYTES_WHOLE", 100)
    model = lake.model("copy", incremental_strategy="auto")
    sql = "select id, n from raw.orders"
    lake.build(model, sql, rows)
    lake.append("raw.orders", 3)
    assert told(lake.next_run(model, sql)) == run


def test_a_table_that_a_stream_reads_is_not_computed_in_full(lake: MadeLake) -> None:
    model = lake.model("copy", incremental_strategy="auto", whole_below=2 * MILLION)
    sql = "select id, n from raw.orders"
    lake.build(model, sql, 9)
    lake.append("raw.orders", 3)
    assert lake.next_run(model, sql).is_whole
    stream = {"from": "delta_changes", "path": "warehouse/gold.db/Copy/"}
    copies = {**lake.graph["sources"]["source.raw.orders"], "config": {"meta": {"stream": stream}}}
    lake.graph["sources"]["source.raw.copies"] = copies | {"unique_id": "source.raw.copies"}
    assert told(lake.next_run(model, sql)) == ("append", "3 rows changed")


def test_a_view_is_read_through_with_the_sql_of_the_project(lake: MadeLake) -> None:
    copy = lake.model("copy", incremental_strategy="auto")
    view = lake.model("seen")
    view |= {"compiled_code": "select id, n from raw.orders"}
    view["config"] = {"materialized": "view"}
    through = "select id, n from gold.seen"
    assert told(lake.next_run(copy, through)) == ("first build", "first run")
    session = lake.session('/* view {"source": "gold.seen"} */ (select `id`, `n` from (\n')
    text = pinned(session, "auto", "gold.seen", {})
    assert text.startswith('/* view {"source": "gold.seen"} */ (select `id`, `n` from (\n')
    assert [(one["source"], one["version"]) for one in inputs_of(text)] == [("raw.orders", 0)]


def test_a_table_that_no_run_built_is_not_judged(lake: MadeLake) -> None:
    copy = lake.model("copy", **BY_FEED)
    lake.create("gold.copy", 3)
    assert told(lake.next_run(copy, COPY)) == (
        "unknown",
        "only Spark knows the loss of replacing a table that no run of the model built",
    )


def test_commits_have_the_times_of_their_files_unless_the_table_dates_them(lake: MadeLake) -> None:
    lake.append("raw.orders", 3)
    commits = lake.session().tables.history("raw.orders", 20)
    assert [(one.version, one.at) for one in commits] == [(1, 2000), (0, 1000)]
    log = lake.folder / "raw.db" / "orders" / "_delta_log" / f"{1:020}.json"
    log.write_text(log.read_text().replace('"timestamp": 1', '"inCommitTimestamp": 77'))
    os.utime(log, (2, 2))
    assert [one.at for one in lake.session().tables.history("raw.orders", 1)] == [2000]
    first = log.with_name(f"{0:020}.json")
    times = '"configuration": {"delta.enableInCommitTimestamps": "true", '
    first.write_text(first.read_text().replace('"configuration": {', times))
    assert [one.at for one in lake.session().tables.history("raw.orders", 1)] == [77]


def test_an_explanation_says_that_nothing_waits_before_a_run_that_is_skipped(
    lake: MadeLake,
) -> None:
    orders = "  changes raw.orders: applied 0, newest"
    explain = "`headwaters explain` also plans the models and seeds before it"
    skipped = f"  next run: skip, no changes; {explain}"
    kept = lake.model("kept", **BY_FEED, on_lookup_change="ignore")
    lake.create("raw.names", 20)
    names = {**lake.graph["sources"]["source.raw.orders"], "identifier": "names", "name": "names"}
    lake.graph["sources"]["source.raw.names"] = names | {"unique_id": "source.raw.names"}
    sql = f"select o.id, x.n from {marked('changes')} as o"
    sql += f" left join {marked('lookup', 'raw.names')} as x on o.id = x.id"
    lake.build(kept, sql)
    lake.append("raw.names", 3)
    for _ in range(2):
        lake.commit("raw.orders", "OPTIMIZE", {}, {"numRemovedFiles": 2, "numAddedFiles": 1})
    assert lake.explained(kept, sql) == [
        f"{orders} 2, nothing waiting: 2 versions without changes of rows",
        "  lookup raw.names: applied 0, newest 1, changed, ignored by on_lookup_change",
        skipped,
    ]
    assert lake.next_run(kept, sql).pending == (PendingChanges("raw.orders", 0, 2, 0),)
    lake.append("raw.orders", 5)
    assert lake.explained(kept, sql)[::2] == [
        f"{orders} 3, 1 commits, 5 rows waiting",
        "  next run: incremental, 5 rows changed",
    ]
    lake.commit("raw.orders", "RENAME COLUMN")
    lake.build(kept, sql)
    lake.commit("raw.orders", "RENAME COLUMN")
    assert lake.explained(kept, sql)[0] == (
        "  changes raw.orders: applied 4, newest 5, its changes cannot be read"
    )


def test_a_seed_is_loaded_if_its_file_or_its_table_changed(lake: MadeLake) -> None:
    node = {"unique_id": "seed.x.names", "name": "names", "schema": "raw", "alias": "names"}

    def load(checksum: str = "a", always: bool = False) -> tuple[str, str]:
        tables = lake.session().tables
        return told(planned_load(tables, node, lambda: checksum, always))

    assert load() == ("load", "first load")
    lake.create("raw.names", 2, {"headwaters.seed.checksum": "a"})
    lake.commit("raw.names", "OPTIMIZE")
    assert load() == ("no changes", "no changes")
    assert load("b") == ("load", "its file or settings changed since its last load")
    assert load(always=True) == ("load", "full_refresh is set")
    lake.append("raw.names", 1)
    assert load() == ("load", "another writer changed its table")
    refused = DbtRuntimeError("[HW_SEED] column_types of the seed names has a column")
    run = planned_load(lake.session().tables, node, Mock(side_effect=refused), always=False)
    assert told(run) == ("refused", "[HW_SEED] column_types of the seed names has a column")
