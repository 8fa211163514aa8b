"""Test the facts of small lakes, read from their files alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headwaters.platform import metastore
from headwaters.platform.errors import WorkError
from headwaters.report.facts import (
    Backlog,
    Batch,
    Behind,
    Evaluation,
    ExpectationHistory,
    Freshness,
    Lake,
    Need,
    Operation,
    ReportedModel,
    ReportedOutcome,
    ReportedRun,
    ReportedStream,
    ReportedTable,
    TableChange,
    prediction,
)
from headwaters.report.gather import Gatherer
from headwaters.report.page import _in_order
from headwaters.tables.delta_log import Snapshot, State, snapshot, state
from report.small import NOW, SmallLake, ago, size

HOUR = {"count": 1, "period": "hour"}
DAY = {"count": 1, "period": "day"}


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


def test_a_stream_its_quarantine_and_its_batches(lake: SmallLake) -> None:
    lake.stream("orders", warn_after=HOUR, error_after=DAY)
    lake.write("bronze.orders", {"id": [1, 2, 3]}, ago(hours=3))
    lake.write("bronze.orders", {"id": [4]}, ago(hours=2))
    lake.write("bronze.orders_quarantine", {"reason": ["type", "type", "malformed"]}, ago(hours=3))
    landing = lake.lake / "landing" / "orders"
    landing.mkdir(parents=True)
    (landing / "a.json").write_text("x" * 10)
    (landing / "b.json").write_text("x" * 5)
    (lake.lake / "logs").mkdir()
    lines = [
        {"at": "2026-11-25T09:00:00+00:00", "stream": "orders", "batch": 0, "rows": 3}
        | {"quarantined": {"type id": 2, "malformed": 1}, "seconds": 2.0},
        {"at": "2026-11-25T09:30:00+00:00", "stream": "orders", "failed": "no broker"},
        {"at": "2026-11-25T10:00:00+00:00", "stream": "orders", "batch": 1, "rows": 1}
        | {"quarantined": {}, "seconds": 1.0},
    ]
    journal = "part of a line\n" + "".join(f"{json.dumps(line)}\n" for line in lines)
    (lake.lake / "logs" / "ingest.jsonl").write_text(journal + '{"at": "2026-11-2')
    found = lake.read()
    assert found.streams == (
        ReportedStream(
            name="orders",
            table="bronze.orders",
            source="files landing/orders",
            rows=4,
            quarantine={"type": 2, "malformed": 1},
            backlog=Backlog(2, "files", 15),
            interrupted=False,
            error=None,
            last_batch=None,
            batches=(
                Batch(ago(hours=3), 3, 3, 2.0),
                Batch(ago(hours=2), 1, 0, 1.0),
            ),
        ),
    )
    assert (found.streams[0].quarantined, found.streams[0].latency) == (3, 1.5)
    assert found.freshness == (Freshness("bronze.orders", ago(hours=2), 3600, 86400),)
    assert found.freshness[0].state(NOW) == "warn"
    assert found.problems == ()


def test_settled_records_of_a_quarantine_are_counted_apart(lake: SmallLake) -> None:
    lake.stream("orders")
    lake.write("bronze.orders", {"id": [1]}, ago(hours=3))
    settled: dict[str, list[Any]] = {
        "reason": ["type", "type", "malformed"],
        "settled": ["sent again", None, "lost"],
    }
    lake.write("bronze.orders_quarantine", settled, ago(hours=3))
    (stream,) = lake.read().streams
    assert (stream.quarantine, stream.quarantined, stream.settled) == ({"type": 1}, 1, 2)


def test_a_table_and_a_model_that_reads_it(lake: SmallLake) -> None:
    lake.stream("orders")
    lake.model("silver.paid", ["source.orders"], runs_every="6 hours")
    bronze = lake.write("bronze.orders", {"id": [1, 2, 3]}, ago(days=10))
    lake.write("bronze.orders", {"id": [4, 5]}, ago(days=9))
    lake.write("bronze.orders", {"id": [6]}, ago(days=8))
    silver = lake.write("silver.paid", {"id": [1, 3]}, ago(days=10))
    lake.applied("silver.paid", ago(days=10), bronze__orders=0)
    found = lake.read()
    paid = size(silver)
    assert found.models == (
        ReportedModel(
            name="paid",
            table="silver.paid",
            strategy="change_feed",
            owner="shop",
            is_built=True,
            rows=2,
            runs=(ReportedRun(0, ago(days=10), "append", 2, paid),),
            behind=(Behind("bronze.orders", 0, 2, 3, ago(days=9)),),
            runs_every=21600.0,
            reads=("bronze.orders",),
        ),
    )
    assert found.models[0].waiting_since == ago(days=9)
    assert found.edges == (("bronze.orders", "silver.paid"),)
    changes = found.tables[0].changes
    assert [(c.version, c.at, c.rows) for c in changes] == [
        (0, ago(days=10), 3),
        (1, ago(days=9), 2),
        (2, ago(days=8), 1),
    ]
    assert sum(c.bytes for c in changes) == size(bronze)
    week = 7 * 86400.0
    assert found.tables == (
        ReportedTable(
            name="bronze.orders",
            place=str(bronze),
            kind="stream",
            owner="",
            version=2,
            rows=6,
            deleted_rows=0,
            files=3,
            small_files=3,
            bytes=size(bronze),
            last_change=ago(days=8),
            retention=week,
            needs=(Need("silver.paid", ago(days=9)),),
            columns=(("id", "long"),),
            changes=changes,
        ),
        ReportedTable(
            name="silver.paid",
            place=str(silver),
            kind="model",
            owner="shop",
            version=1,
            rows=2,
            deleted_rows=0,
            files=1,
            small_files=1,
            bytes=paid,
            last_change=ago(days=10),
            retention=week,
            columns=(("id", "long"),),
            changes=(TableChange(0, ago(days=10), 2, paid),),
        ),
    )


def test_maintenance_that_the_policy_requires_and_what_is_kept_for_readers(lake: SmallLake) -> None:
    lake.model("silver.a", maintenance={"compact_above": 2})
    lake.model("gold.b", ["model.a"])
    lake.write("silver.a", {"id": [1, 2, 3]}, ago(days=30))
    lake.write("silver.a", {"id": [4]}, ago(days=20))
    lake.delete("silver.a", "id = 4", ago(days=19))
    lake.write("gold.b", {"id": [1]}, ago(days=30))
    lake.applied("gold.b", ago(days=30), silver__a=2)
    small = ("compact", "2 files are smaller than 16 MB, 3 came since the last time")
    vacuum = ("vacuum", "files that left the table are needed by nobody")
    lake.write("silver.a", {"id": [5]}, ago(days=18))
    lake.applied("gold.b", ago(days=17), silver__a=3)

    def of_a() -> ReportedTable:
        return next(one for one in lake.read().tables if one.name == "silver.a")

    assert (of_a().due, of_a().kept) == (
        (small, vacuum),
        None,
    )
    # a reader has not read the deletion: its files are older than the retention
    lake.applied("gold.b", ago(days=17), silver__a=0)
    assert (of_a().due, of_a().kept, of_a().needs) == (
        (small,),
        "not vacuumed, since readers need its files: gold.b",
        (Need("gold.b", ago(days=20)),),
    )


def test_tables_of_reviews_are_not_shown_and_what_they_need_is(lake: SmallLake) -> None:
    rows = {"id": [1]}
    lake.write("silver.a", rows, ago(days=9))
    lake.write("silver.a", rows, ago(days=8))
    for schema in ("review_fix__head_silver", "review_fix__records", "review_of_sales"):
        lake.write(f"{schema}.a", rows, ago(days=8))
    lake.set("review_fix__head_silver.a", ago(days=8), headwaters__clone="silver.a,0")
    made = {table.name: table for table in lake.read().tables}
    assert list(made) == ["review_of_sales.a", "silver.a"]
    assert [(need.reader, need.since) for need in made["silver.a"].needs] == [
        ("the clone review_fix__head_silver.a", ago(days=8))
    ]


def test_hidden_tables_have_the_policy_of_their_model(lake: SmallLake) -> None:
    rows = {"id": [1]}
    lake.model("gold.a", maintenance={"compact_above": 2})
    for name in ("a", "b", "a__hw_stage_1", "a__hw_stage_2", "b__hw_stage_1", "gone__hw_stage_1"):
        lake.write(f"gold.{name}", rows, ago(days=2))
        lake.write(f"gold.{name}", {"id": [2] * 99}, ago(days=1))
    noted = json.dumps({"stages": {"tables": [{}]}})
    lake.set("gold.a", ago(days=1), headwaters__proof=noted)
    lake.set("gold.b", ago(days=1), headwaters__proof="not JSON")
    found = lake.read()
    compact = ("compact", "2 files are smaller than 16 MB, 2 came since the last time")
    drop = ("drop", "no table uses this hidden table")
    assert {one.name: (one.kind, one.owner, one.due) for one in found.tables} == {
        "gold.a": ("model", "shop", (compact,)),
        "gold.a__hw_stage_1": ("hidden", "shop", (compact,)),
        "gold.a__hw_stage_2": ("hidden", "shop", (drop,)),
        "gold.b": ("other", "", ()),
        "gold.b__hw_stage_1": ("hidden", "", ()),
        "gold.gone__hw_stage_1": ("hidden", "", (drop,)),
    }
    assert len(found.problems) == 1
    assert "gold.b" in found.problems[0]
    grown = [replace(one, bytes=one.bytes + 5 * (one.name == "gold.b")) for one in found.tables]
    assert [one.name for one in _in_order(replace(found, tables=tuple(grown)))] == [
        *("gold.b", "gold.b__hw_stage_1"),
        *("gold.a", "gold.a__hw_stage_1", "gold.a__hw_stage_2"),
        "gold.gone__hw_stage_1",
    ]


def test_runs_and_what_was_expected_of_them(lake: SmallLake) -> None:
    lake.model("gold.c")
    for day, count in ((9, 10), (8, 10), (7, 20), (6, 10)):
        mode = "error" if day == 9 else "append"  # the first one creates the table
        lake.write("gold.c", {"id": list(range(count))}, ago(days=day), mode)
    lake.delete("gold.c", "id = 0", ago(days=5))
    (model,) = lake.read().models
    assert [(run.version, run.way, run.rows) for run in model.runs] == [
        (0, "replace", 10),
        (1, "append", 10),
        (2, "append", 20),
        (3, "append", 10),
        (4, "delete", 46),
    ]
    first, second, third = model.runs[1:4]
    # two earlier runs of the same way, by the bytes that they wrote for each row
    assert [run.expected_bytes for run in (first, second)] == [None, None]
    usual = (first.bytes / 10 + second.bytes / 20) / 2
    assert third.expected_bytes == pytest.approx(10 * usual)


def test_a_prediction_takes_the_usual_run_and_no_outlier() -> None:
    def run(rows: int, size: int) -> ReportedRun:
        return ReportedRun(1, NOW, "merge", rows, size)

    earlier = [run(10, 100), run(10, 110), run(10, 90_000)]
    assert prediction(earlier, "merge", 5) == 55.0
    assert prediction(earlier, "append", 5) is None
    assert prediction(earlier[:1], "merge", 5) is None


def test_operations_with_who_and_why(lake: SmallLake) -> None:
    def row(state: str, at: datetime, **more: object) -> dict[str, list[object]]:
        one: dict[str, object] = {
            "at": at,
            "operation_id": "o1",
            "state": state,
            "operation": "restore",
            "table_name": "gold.c",
            "user": "ada",
            "reason": "wrong rates",
            "version_before": 4,
            "version_after": None,
            "undo": "restore table gold.c to version as of 4",
        }
        return {name: [value] for name, value in (one | more).items()}

    lake.write("ops.operations", row("started", ago(hours=2), version_after=0), ago(hours=2))
    lake.write("ops.operations", row("done", ago(hours=1), version_after=5), ago(hours=1))
    other = row("started", ago(minutes=5), operation_id="o2", operation="maintain", version_after=0)
    lake.write("ops.operations", other, ago(minutes=5))
    undo = "restore table gold.c to version as of 4"
    restored = Operation(
        *("o1", ago(hours=2), "restore", "gold.c", "ada", "wrong rates"),
        *("done", ago(hours=1), 4, 5, undo),
    )
    running = replace(
        restored,
        id="o2",
        at=ago(minutes=5),
        operation="maintain",
        state="started",
        ended=None,
        version_after=0,
    )
    assert lake.read().operations == (running, restored)


def test_operations_of_an_older_release_have_fewer_columns(lake: SmallLake) -> None:
    rows: dict[str, list[Any]] = {
        "at": [ago(hours=2)],
        "operation_id": ["o1"],
        "state": ["started"],
    }
    rows |= {"operation": ["drop"], "table_name": ["gold.c"], "user": ["ada"]}
    lake.write("ops.operations", rows, ago(hours=2))
    (found,) = lake.read().operations
    assert found == Operation("o1", ago(hours=2), "drop", "gold.c", "ada", "", "started")


def test_expectations_that_were_evaluated_and_those_that_never_were(lake: SmallLake) -> None:
    rules = [
        {"name": "positive", "expression": "amount > 0"},
        {"name": "known", "expression": "currency is not null", "on_failure": "fail"},
    ]
    lake.model("gold.c", expectations=rules)
    for hours, broken in ((3, 0), (2, 7)):
        rows: dict[str, list[Any]] = {
            "at": [ago(hours=hours)],
            "table_name": ["gold.c"],
            "expectation": ["positive"],
        }
        rows |= {"expression": ["amount > 0"], "on_failure": ["warn"]}
        counts = {"rows_asked": [100], "rows_broken": [broken]}
        lake.write("ops.expectations", rows | counts, ago(hours=hours))
    evaluations = (Evaluation(ago(hours=3), 100, 0), Evaluation(ago(hours=2), 100, 7))
    assert lake.read().expectations == (
        ExpectationHistory("gold.c", "known", "currency is not null", "fail"),
        ExpectationHistory("gold.c", "positive", "amount > 0", "warn", evaluations),
    )


def test_what_dbt_said_of_a_model(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBT_TARGET_PATH", raising=False)
    lake.model("gold.c")
    timing = [{"name": "execute", "completed_at": "2026-11-25T11:00:00.000000Z"}]
    result = {"unique_id": "model.c", "status": "error", "execution_time": 1.5}
    said = {
        "metadata": {"generated_at": "2026-11-25T11:01:00.000000Z"},
        "results": [
            result | {"message": "no such column", "timing": timing},
        ],
    }
    target = lake.project.root / "target"
    target.mkdir()
    (target / "run_results.json").write_text(json.dumps(said))
    (model,) = lake.read().models
    assert model.outcome == ReportedOutcome("error", ago(hours=1), 1.5, "no such column")
    assert model.outcome.failed
    (target / "run_results.json").write_text("{")
    found = lake.read()
    assert [one.outcome for one in found.models] == [None]
    (problem,) = found.problems
    assert problem.startswith("[HW_REPORT] dbt's run_results.json cannot be read: Expecting")


# --- lakes with incomplete facts


def test_a_lake_that_is_not_there(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    (lake.lake / "lake.json").unlink()
    lake.lake.rmdir()
    lake.model("gold.c")
    place = str(lake.lake)
    text = (
        f"[HW_NO_LAKE] there is no lake at {place} yet: `headwaters ingest` and `dbt run` make it"
    )
    assert lake.read() == Lake("bare", "dev", "lake", NOW, problems=(text,))
    assert not lake.lake.exists()


def test_a_lake_that_is_empty(lake: SmallLake) -> None:
    assert lake.read() == Lake("bare", "dev", "lake", NOW)


def test_a_lake_that_is_half_built(lake: SmallLake) -> None:
    lake.stream("orders")
    lake.model("silver.paid", ["source.orders"])
    # its first commit met a full disk
    (lake.folder("silver.paid") / "_delta_log").mkdir(parents=True)
    lake.write("bronze.orders", {"id": [1]}, ago(hours=1))
    found = lake.read()
    assert [table.name for table in found.tables] == ["bronze.orders"]
    assert [(model.table, model.is_built, model.rows) for model in found.models] == [
        ("silver.paid", False, None)
    ]
    assert [(one.name, one.rows, one.backlog) for one in found.streams] == [("orders", 1, None)]
    # the stream's input is missing: the report shows it with the stream, whose error it is
    assert "[HW_NO_INPUT]" in str(found.streams[0].error)
    assert found.problems == ()


def cut_a_commit(log: Path) -> None:
    newest = max(log.glob("*.json"))
    newest.write_text(newest.read_text()[:100])


def lose_a_commit(log: Path) -> None:
    min(log.glob("*.json")).unlink()


def no_columns(log: Path) -> None:
    first = min(log.glob("*.json"))
    lines = [line for line in first.read_text().splitlines() if "metaData" not in line]
    first.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (cut_a_commit, "cannot be read ("),
        (lose_a_commit, "has no version 0"),
        (no_columns, "does not say which columns the table has"),
    ],
)
def test_a_damaged_table_is_one_line_and_the_rest_is_shown(
    lake: SmallLake, damage: Callable[[Path], None], what: str
) -> None:
    lake.model("gold.c")
    lake.model("gold.d")
    folder = lake.write("gold.c", {"id": [1]}, ago(hours=2))
    lake.write("gold.c", {"id": [2]}, ago(hours=1))
    lake.write("gold.d", {"id": [1]}, ago(hours=1))
    damage(folder / "_delta_log")
    found = lake.read()
    assert [table.name for table in found.tables] == ["gold.d"]
    (problem,) = found.problems
    assert problem.startswith(f"[HW_TABLE_DAMAGED] the log of {folder} {what}")
    assert problem.endswith(": put its _delta_log back from a copy, as it was")


def test_a_table_with_a_property_that_says_nothing_hides_no_other(lake: SmallLake) -> None:
    lake.model("gold.c")
    lake.model("gold.d", ["model.c"])
    lake.write("gold.c", {"id": [1]}, ago(days=2))
    lake.write("gold.d", {"id": [1]}, ago(days=2))
    lake.set("gold.d", ago(days=2), headwaters__inputs="{no")
    lake.set("gold.c", ago(days=2), delta__deletedFileRetentionDuration="interval 1 month")
    found = lake.read()
    assert [(one.name, one.retention) for one in found.tables] == [
        ("gold.c", 7 * 86400.0),  # Delta's own value replaces an invalid length of time
        ("gold.d", 7 * 86400.0),
    ]
    assert [model.table for model in found.models] == ["gold.c"]
    (problem,) = found.problems
    assert problem.startswith("[HW_REPORT] gold.d cannot be read: Expecting property name")


def test_a_damaged_checkpoint_is_the_error_of_its_stream(lake: SmallLake) -> None:
    lake.stream("orders")
    lake.write("bronze.orders", {"id": [1]}, ago(hours=1))
    (lake.lake / "landing" / "orders").mkdir(parents=True)
    checkpoint = lake.lake / "checkpoints" / "orders"
    (checkpoint / "sources" / "0").mkdir(parents=True)
    (checkpoint / "sources" / "0" / "0").write_text("v1\n{no")
    (stream,) = lake.read().streams
    assert stream.rows == 1
    assert stream.backlog is None
    assert str(stream.error).startswith("[HW_CHECKPOINT_DAMAGED]")


def test_a_lake_of_another_place(lake: SmallLake) -> None:
    lake.write("gold.c", {"id": [1]}, ago(hours=1))
    (lake.lake / "lake.json").write_text(json.dumps({"made_at": "/elsewhere/lake"}))
    found = lake.read()
    assert [table.name for table in found.tables] == ["gold.c"]
    (problem,) = found.problems
    assert problem.startswith("[HW_LAKE_MOVED]")


def test_a_file_that_cannot_be_read(lake: SmallLake) -> None:
    folder = lake.write("gold.c", {"id": [1]}, ago(hours=1))
    lake.write("gold.d", {"id": [1]}, ago(hours=1))
    # an error of the system that root meets as well
    commit = folder / "_delta_log" / f"{1:020}.json"
    commit.mkdir()
    found = lake.read()
    assert [table.name for table in found.tables] == ["gold.d"]
    text = f"[HW_FILE] gold.c: {commit} cannot be used: Is a directory"
    assert found.problems == (text,)


def test_a_lake_that_another_process_has_is_read(lake: SmallLake) -> None:
    lake.write("gold.c", {"id": [1]}, ago(hours=1))
    metastore.hold(lake.lake, "dbt run")
    try:
        found = lake.read()
    finally:
        metastore.release(lake.lake)
    assert ([table.name for table in found.tables], found.problems) == (["gold.c"], ())


def test_what_did_not_change_is_not_read_again(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write("gold.c", {"id": [1]}, ago(hours=3))
    lake.write("gold.d", {"id": [1]}, ago(hours=3))
    read: list[str] = []

    def noted(folder: Path) -> State | None:
        read.append(folder.name)
        return state(folder)

    monkeypatch.setattr("headwaters.report.gather.state", noted)
    gatherer = Gatherer(lake.project, lake.declared)
    gatherer.lake(NOW)
    assert sorted(read) == ["c", "d"]
    lake.write("gold.d", {"id": [2]}, ago(hours=1))
    tables = {one.name: one.rows for one in gatherer.lake(NOW).tables}
    assert (sorted(read), tables) == (["c", "d", "d"], {"gold.c": 1, "gold.d": 2})


def test_a_log_with_a_checkpoint_whose_older_commits_expired(lake: SmallLake) -> None:
    folder = lake.write("gold.c", {"id": [1, 2]}, ago(days=3))
    lake.set("gold.c", ago(days=3), headwaters__run="x")
    lake.write("gold.c", {"id": [3]}, ago(days=2))
    DeltaTable(folder).create_checkpoint()
    lake.write("gold.c", {"id": [4]}, ago(days=1))
    for old in sorted((folder / "_delta_log").glob("*.json"))[:3]:
        old.unlink()
    found, short = state(folder), snapshot(folder)
    assert found and short
    assert (found.version, found.rows, len(found.sizes)) == (3, 4, 3)
    assert (short.version, short.rows, short.files, short.bytes) == (3, 4, 3, size(folder))
    assert found.properties == {"headwaters.run": "x"}
    assert [(one.commit.operation, one.rows) for one in found.commits] == [("WRITE", 1)]


def test_a_checkpoint_of_version_2_has_its_files_in_sidecars(lake: SmallLake) -> None:
    folder = lake.write("gold.c", {"id": [1, 2]}, ago(days=3))
    lake.write("gold.c", {"id": [3]}, ago(days=2))
    DeltaTable(folder).create_checkpoint()
    lake.write("gold.c", {"id": [4]}, ago(days=1))
    before = snapshot(folder)
    log = folder / "_delta_log"
    (log / "_sidecars").mkdir()
    checkpoint = next(log.glob("*.checkpoint.parquet"))
    version = checkpoint.name.split(".")[0]
    checkpoint.rename(log / "_sidecars" / "files.parquet")
    (log / f"{version}.checkpoint.1ef34a8b.json").write_text(
        json.dumps({"checkpointMetadata": {"version": int(version)}})
        + "\n"
        + json.dumps({"sidecar": {"path": "files.parquet", "sizeInBytes": 1}})
    )
    for old in sorted(log.glob("*.json")):
        if old.stem < version:
            old.unlink()
    assert snapshot(folder) == before == Snapshot(2, 4, 3, size(folder))


def test_what_is_no_table_has_no_state(tmp_path: Path) -> None:
    assert state(tmp_path) is None
    (tmp_path / "_delta_log").mkdir()
    assert state(tmp_path) is None
    (tmp_path / "_delta_log" / f"{7:020}.json").write_text("")
    with pytest.raises(WorkError, match="has no version 0"):
        state(tmp_path)


def test_moments_are_utc(lake: SmallLake) -> None:
    lake.write("gold.c", {"id": [1]}, datetime(2026, 3, 29, 1, 30, tzinfo=UTC))
    (table,) = lake.read().tables
    assert table.last_change == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert table.last_change.utcoffset() == timedelta(0)
