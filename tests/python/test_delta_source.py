"""Test Delta sources whose columns, or whose history, change between two runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from ingestion import Ingester, audit, bare_project, node

from headwaters.platform.errors import WorkError
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion.inputs import source_of
from headwaters.streams.sources.base import SourceReplaced
from headwaters.streams.sources.delta import Delta, former_names
from headwaters.streams.stream import Stream


def source_at(folder: Path, version: int, batch: int = 0) -> Delta:
    """Return a source whose checkpoint has read a local table up to a version."""
    stream = Stream.of(
        bare_project(folder),
        parse_contract(node({"id": "int"}, {"from": "delta", "path": "shop"})),
    )
    place = stream.checkpoint.path
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "metadata").write_text('{"id": "c"}')
    offset = {"reservoirVersion": version + 1, "index": -1, "isStartingVersion": False}
    (place / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (place / "commits" / str(batch)).write_text("v1\n{}")
    found = source_of(stream)
    assert isinstance(found, Delta)
    return found


def append(table: Path, *numbers: int) -> None:
    for number in numbers:
        write_deltalake(table, pa.table({"id": [number]}), mode="append")


def test_a_source_knows_the_commits_that_it_has_read(tmp_path: Path) -> None:
    shop, copy = tmp_path / "lake" / "shop", tmp_path / "copy"
    append(shop, 1, 2)
    shutil.copytree(shop, copy)
    source = source_at(tmp_path, 1)
    source.check_identity()
    append(shop, 3, 4)
    source = source_at(tmp_path, 3, 1)
    source.check_identity()
    pending = source.backlog()
    assert pending is not None and pending.nothing

    def put_back(*more: int) -> None:
        shutil.rmtree(shop)
        shutil.copytree(copy, shop)
        append(shop, *more)

    for more in [(), (5,), (5, 6), (5, 6, 7)]:
        put_back(*more)
        with pytest.raises(SourceReplaced, match=r"was created again or put back from a copy"):
            source.backlog()
        with pytest.raises(SourceReplaced):
            source.check_identity()
    source.decide_recreated(None)  # type: ignore[arg-type]  # it asks Spark nothing
    checkpoint = source.stream.checkpoint
    assert checkpoint.begun() == {"from": "recreated", "replaces": "c", "version": 1}
    checkpoint.replace()
    assert not checkpoint.exists and not checkpoint.versions()
    found = source.backlog()
    assert found is not None and found.number == 3

    source = source_at(tmp_path, 4, 2)
    source.check_identity()
    shutil.rmtree(shop)
    append(shop, *range(10))
    source.decide_recreated(None)  # type: ignore[arg-type]  # it asks Spark nothing
    assert checkpoint.begun() == {"from": "earliest", "replaces": "c"}
    # a checkpoint of an earlier release does not know the commits
    checkpoint.replace()
    source = source_at(tmp_path, 20)
    with pytest.raises(SourceReplaced):
        source.backlog()
    with pytest.raises(WorkError, match=r"no version of .* is known that was read"):
        source.decide_recreated(None)  # type: ignore[arg-type]  # it asks Spark nothing


def test_a_column_is_known_by_its_former_names(tmp_path: Path) -> None:
    log = tmp_path / "_schema_log_1"
    log.mkdir()

    def entry(number: int, **columns: str) -> None:
        fields = [
            {"name": name, "metadata": {"delta.columnMapping.physicalName": physical}}
            for name, physical in columns.items()
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        (log / str(number)).write_text(f"v1\n{json.dumps({'dataSchemaJson': schema})}")

    assert former_names(tmp_path) == {}
    entry(0, id="a", name="b", gone="c")
    entry(1, id="a", full_name="b", gone="c")
    entry(10, id="a", name="d", whole_name="b")
    assert former_names(tmp_path) == {
        "id": [],
        "whole_name": ["full_name", "name"],
        "gone": [],
        "name": [],
    }


def sql(ingester: Ingester, *statements: str) -> None:
    for statement in statements:
        answer = ingester.ask(sql=statement.format(shop=f"delta.`{ingester.lake / 'shop'}`"))
        assert "lines" not in answer, answer


PLAIN = "create table {shop} (id int) using delta tblproperties (delta.enableChangeDataFeed = true)"
MAPPED = (
    "create table {shop} (id int, name string, gone string, price float) using delta tblproperties "
    "(delta.enableChangeDataFeed = true, delta.columnMapping.mode = 'name', "
    "delta.enableTypeWidening = true)"
)


@pytest.mark.slow  # many small commits of Spark
def test_renamed_dropped_added_and_widened_columns_follow(ingester: Ingester) -> None:
    columns = {"id": "bigint", "name": "string", "gone": "string", "price": "double"}
    rows = node(columns, {"from": "delta", "path": "shop"}, "rows")
    changes = node(columns, {"from": "delta_changes", "path": "shop"}, "changes")
    after = node(columns, {"from": "delta", "path": "shop"}, "after")
    sql(
        ingester,
        MAPPED,
        "insert into {shop} values (1, 'a', 'x', 0.5)",
        "insert into {shop} values (2, 'b', 'y', null)",
    )
    ingester.run(rows, changes)
    sql(
        ingester,
        "insert into {shop} values (3, 'c', 'z', 1.5)",
        "alter table {shop} rename column name to full_name",
        "insert into {shop} values (4, 'd', 'w', 2.5)",
        "alter table {shop} drop column gone",
        "insert into {shop} values (5, 'e', 3.5)",
        "alter table {shop} add column more string",
        "alter table {shop} alter column id type bigint",
        "alter table {shop} alter column price type double",
        "insert into {shop} values (60000000000, 'f', 1e300, 'new')",
        "alter table {shop} rename column full_name to whole_name",
        "insert into {shop} values (7, 'g', null, null)",
    )
    printed = ingester.run(rows, changes)
    right = [
        [1, "a", "x", 0.5, None],
        [2, "b", "y", None, None],
        [3, "c", "z", 1.5, None],
        [4, "d", "w", 2.5, None],
        [5, "e", None, 3.5, None],
        [7, "g", None, None, None],
        [60_000_000_000, "f", None, 1e300, '{"more":"new"}'],
    ]
    for table in ("rows", "changes"):
        assert ingester.rows(table, "id, name, gone, price, _rescued") == right, printed
        assert ingester.rows(f"{table}_quarantine", "message") == []
    assert ingester.run(rows, changes) == ["rows     nothing new", "changes  nothing new"]
    # a stream that begins now sees the columns of now, and the declared name is no longer there
    ingester.run(after)
    assert ingester.rows("after", "id, name, price, _rescued")[0] == [
        *(1, None, 0.5, '{"whole_name":"a"}')
    ]


@pytest.mark.slow  # many small commits of Spark
def test_a_table_whose_columns_are_mapped_later_is_followed(ingester: Ingester) -> None:
    columns = {"id": "int", "name": "string"}
    rows = node(columns, {"from": "delta", "path": "shop"}, "rows")
    changes = node(columns, {"from": "delta_changes", "path": "shop"}, "changes")
    sql(
        ingester,
        "create table {shop} (id int, name string, day int) using delta partitioned by (day) "
        "tblproperties (delta.enableChangeDataFeed = true)",
        "insert into {shop} values (1, 'a', 1)",
    )
    ingester.run(rows, changes)
    sql(
        ingester,
        "insert into {shop} values (2, 'b', 2)",
        "alter table {shop} set tblproperties (delta.columnMapping.mode = 'name')",
        "alter table {shop} rename column name to full_name",
        "alter table {shop} rename column day to on_day",
        "insert into {shop} values (3, 'c', 3)",
    )
    printed = ingester.run(rows, changes)
    right = [
        [1, "a", '{"day":1}'],
        [2, "b", '{"day":2}'],
        [3, "c", '{"on_day":3}'],
    ]
    for table in ("rows", "changes"):
        assert ingester.rows(table, "id, name, _rescued") == right, printed


@pytest.mark.slow  # many small commits of Spark
def test_a_table_that_was_put_back_from_a_copy_is_told_and_resumes_without_repeats(
    ingester: Ingester,
) -> None:
    streams = [
        node({"id": "int"}, {"from": source, "path": "shop"}, source)
        for source in ("delta", "delta_changes")
    ]
    shop, copy = ingester.lake / "shop", ingester.lake / "copy"
    sql(
        ingester,
        PLAIN,
        "insert into {shop} values (1)",
    )
    ingester.run(*streams)
    sql(ingester, "insert into {shop} values (2)")
    shutil.copytree(shop, copy)
    ingester.run(*streams)
    sql(ingester, "insert into {shop} values (3)", "insert into {shop} values (4)")
    ingester.run(*streams)

    def told() -> None:
        for line in ingester.run(*streams, code=1):
            assert "failed: [HW_SOURCE_RECREATED] the Delta table " in line, line

    shutil.rmtree(shop)
    shutil.copytree(copy, shop)
    told()  # fewer versions than were read
    sql(ingester, *(f"insert into {{shop}} values ({n})" for n in (5, 6, 7)))
    told()  # as many, and others
    ingester.run(*streams, begin="recreated")
    for table in ("delta", "delta_changes"):
        assert ingester.rows(table, "id") == [[1], [2], [3], [4], [5], [6], [7]]
    assert ingester.run(*streams) == [
        f"{name}  nothing new" for name in ("delta        ", "delta_changes")
    ]
    shutil.rmtree(shop)
    sql(
        ingester,
        PLAIN,
        *(f"insert into {{shop}} values ({n})" for n in range(10, 22)),
    )
    told()  # another table
    ingester.run(*streams, begin="recreated")
    for table in ("delta", "delta_changes"):
        assert ingester.rows(table, "id") == [[n] for n in (*range(1, 8), *range(10, 22))]
    for line in audit(ingester, streams[0]):
        assert "cannot be reconciled" in line


@pytest.mark.slow  # many small commits of Spark
def test_a_table_that_is_replaced_or_restored_by_a_statement_is_told(ingester: Ingester) -> None:
    rows = node({"id": "int"}, {"from": "delta", "path": "shop"}, "rows")
    changes = node({"id": "int"}, {"from": "delta_changes", "path": "shop"}, "changes")
    feed = "tblproperties (delta.enableChangeDataFeed = true)"
    sql(
        ingester,
        f"create table {{shop}} (id int) using delta {feed}",
        "insert into {shop} values (1)",
        "insert into {shop} values (2)",
    )
    ingester.run(rows, changes)
    sql(ingester, "restore table {shop} to version as of 1")
    first, second = ingester.run(rows, changes, code=1)
    assert "[HW_SOURCE_CHANGED]" in first
    assert second.startswith("changes  1 rows")
    found = ingester.rows("changes", "_source_version, _source_change, id")
    assert found == [[2, "insert", 1], [2, "insert", 2], [3, "delete", 2]]
    # without a query, Delta commits nothing for a table of a path that has the same columns
    sql(ingester, f"create or replace table {{shop}} using delta {feed} as select 9 as id")
    (line,) = ingester.run(changes, code=1)
    assert line.startswith("changes  failed: [HW_SOURCE_RECREATED] the Delta table ")
    printed = ingester.run(changes, begin="recreated")
    found = ingester.rows("changes", "_source_version, _source_change, id")[3:]
    assert found == [[4, "delete", 1], [4, "insert", 9]], printed
