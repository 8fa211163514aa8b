"""Test that real targets equal the published table after any change of either."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # not in its __all__
from deltalake import DeltaTable, write_deltalake
from ingestion import ROOT
from processes import environment, run_command
from publishing import SCHEMA, Gold, Row, as_records, ask, compacted, tell, to_kafka, to_postgres

from headwaters.devkit import postgres as databases
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.project import Project
from headwaters.publish import kafka
from headwaters.publish.changes import PublishedTable, _parts
from headwaters.publish.target import Done, Target, TargetDifference

Make = Callable[..., Gold]
ALL = "select id, name, amount from value order by id"
ONE, TWO, THREE = (1, "a", Decimal("1.50")), (2, "b", None), (3, "c", Decimal("3.00"))
FIRST = "first publication"
CHANGED = "rows of public.value were changed by others"
TRIGGER = (
    "create function f() returns trigger language plpgsql as "
    "$$ begin if pg_trigger_depth() = 1 then {}; end if; return null; end $$;"
    "create trigger t after insert or update on value for each row execute function f()"
)


@pytest.fixture
def gold(tmp_path: Path) -> Make:
    """Return `gold((1, "a", None), …)`, which makes the table `gold.value`."""
    return lambda *rows: Gold(tmp_path / "gold.db" / "value", *rows)


# -- PostgreSQL ------------------------------------------------------------------------------------


def test_inserts_updates_and_deletes_arrive_once(gold: Make, postgres: str) -> None:
    table, target = gold(ONE, TWO), to_postgres(postgres)
    assert target.compare(table.source) is None
    assert target.publish(table.source) == Done(0, 2, 0, FIRST)
    table.table.update({"name": "'x'"}, predicate="id = 2")
    table.put(THREE)
    table.table.delete("id = 1")
    assert target.publish(table.source) == Done(3, 2, 1)
    assert ask(postgres, ALL) == [(2, "x", None), THREE]
    assert target.publish(table.source) == Done(3, already=True)
    assert target.compare(table.source) == TargetDifference(3, 2, 0, 0)
    state = "select target, model, version from headwaters_published"
    assert ask(postgres, state) == [("value", "gold.value", 3)]


def test_a_change_that_was_undone_is_none(gold: Make, postgres: str) -> None:
    table, target = gold(ONE, TWO), to_postgres(postgres)
    target.publish(table.source)
    table.put(THREE)
    table.table.delete("id = 3")
    table.table.restore(0)
    table.table.optimize.compact()
    assert target.publish(table.source) == Done(table.table.version(), 0, 0)


NESTED = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
TYPES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "tiny": (pa.int8(), -7, -7),
    "small": (pa.int16(), 300, 300),
    "whole": (pa.int32(), 70_000, 70_000),
    "large": (pa.int64(), 2**62, 2**62),
    "single": (pa.float32(), 1.5, 1.5),
    "twice": (pa.float64(), float("inf"), float("inf")),
    "number": (pa.decimal128(28, 2), Decimal("-12345678901234567890.12"), None),
    "text": (pa.string(), 'ä "q", \\N\n\\.\t', 'ä "q", \\N\n\\.\t'),
    "empty": (pa.string(), "", ""),
    "truth": (pa.bool_(), True, True),
    "day": (pa.date32(), date(1, 1, 1), date(1, 1, 1)),
    "moment": (
        pa.timestamp("us", "UTC"),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    "wall": (pa.timestamp("us"), datetime(9999, 12, 31, 23, 59), datetime(9999, 12, 31, 23, 59)),
    "bytes": (pa.binary(), b"\x00\xff", b"\x00\xff"),
    "list": (pa.list_(pa.date32()), [date(2026, 1, 2), None], ["2026-01-02", None]),
    "nested": (NESTED, {"a": 1, "b": ["x", ""]}, {"a": 1, "b": ["x", ""]}),
    "pairs": (pa.map_(pa.string(), pa.float64()), [("k", float("nan"))], {"k": "NaN"}),
}


def typed(path: Path) -> PublishedTable:
    """Write a table of all types: a row of values, and one of nulls, also in its key."""
    schema = pa.schema([("id", pa.int64()), *((name, one[0]) for name, one in TYPES.items())])
    rows = [{"id": 1} | {name: one[1] for name, one in TYPES.items()}, {"id": None}]
    write_deltalake(path, pa.Table.from_pylist(rows, schema))
    return PublishedTable("gold.typed", path, ["id"])


def test_every_type_arrives_as_it_is(tmp_path: Path, postgres: str) -> None:
    source, target = typed(tmp_path / "typed"), to_postgres(postgres, "shop.typed")
    assert target.publish(source) == Done(0, 2, 0, FIRST)
    values = [one[1] if one[2] is None else one[2] for one in TYPES.values()]
    assert ask(postgres, "select * from shop.typed order by id") == [
        (1, *values),
        (None, *[None] * len(TYPES)),
    ]
    assert target.compare(source) == TargetDifference(0, 2, 0, 0)
    DeltaTable(str(source.path)).delete("id is null")
    assert target.publish(PublishedTable("gold.typed", source.path, ["id"])) == Done(1, 0, 1)
    assert ask(postgres, "select id from shop.typed") == [(1,)]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_is_equal_after_any_history(seed: int, gold: Make, postgres: str) -> None:
    rng, table, target = Random(seed), gold(ONE, TWO), to_postgres(postgres)
    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            table.step(rng)
        target.publish(table.source)
        assert ask(postgres, ALL) == table.rows()
    assert target.compare(table.source) == TargetDifference(
        table.table.version(), len(table.rows()), 0, 0
    )


@pytest.mark.slow
def test_tables_of_spark_with_deletion_vectors_arrive(
    spark: Any, tmp_path: Path, postgres: str
) -> None:
    path, target = tmp_path / "value", to_postgres(postgres)
    name = f"delta.`{path}`"
    spark.sql(
        f"create table {name} (id bigint, part int, name string) using delta partitioned by (part) "
        "tblproperties (delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"insert into {name} select id, id % 2, 'a' from range(20)")

    def published() -> tuple[Done, bool]:
        done = target.publish(PublishedTable("gold.value", path, ["id"]))
        rows = spark.sql(f"select id, part, name from {name} order by id").collect()
        return done, ask(postgres, "select * from value order by id") == [tuple(r) for r in rows]

    assert published() == (Done(1, 20, 0, FIRST), True)
    spark.sql(f"delete from {name} where id in (1, 2)")
    spark.sql(f"update {name} set name = 'u' where id in (3, 4)")
    assert published() == (Done(3, 2, 2), True)
    spark.sql(f"delete from {name} where id in (5, 6)")
    spark.sql(
        f"merge into {name} t using (select id, 0 part, 'm' name from range(6, 9)) s on t.id = s.id"
        " when matched and s.id = 8 then delete when matched then update set *"
        " when not matched then insert *"
    )
    spark.sql(f"optimize {name}")
    assert published() == (Done(6, 2, 2), True)
    spark.sql(f"restore table {name} to version as of 3")
    assert published() == (Done(7, 4, 0), True)
    spark.sql(f"replace table {name} using delta partitioned by (part) as select * from {name}"
              " where id < 15")  # fmt: skip
    done, equal = published()
    assert (done.version, equal) == (8, True)


@pytest.mark.slow
def test_a_table_with_column_mapping_arrives_with_a_renamed_and_without_a_dropped_column(
    spark: Any, tmp_path: Path, postgres: str, broker: str
) -> None:
    path, name, topic = tmp_path / "value", f"delta.`{tmp_path}/value`", f"p_{time.time_ns()}"
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, topic)]
    spark.sql(
        f"create table {name} (id bigint, name string, city string) using delta "
        "tblproperties (delta.columnMapping.mode = 'name', delta.enableDeletionVectors = true)"
    )
    spark.sql(f"insert into {name} values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')")

    def published() -> list[Done]:
        """Publish, check that both targets have the table's rows, and return the results."""
        done = [target.publish(PublishedTable("gold.value", path, ["id"])) for target in targets]
        rows = [row.asDict() for row in spark.sql(f"select * from {name} order by id").collect()]
        listed = ", ".join(rows[0])
        assert ask(postgres, f"select {listed} from value order by id") == [
            tuple(row.values()) for row in rows
        ]
        found = compacted(broker, topic).values()
        assert sorted(found, key=lambda row: int(row["id"])) == rows
        return done

    assert published() == [Done(1, 3, 0, FIRST)] * 2
    spark.sql(f"update {name} set name = 'u' where id = 1")
    spark.sql(f"delete from {name} where id = 2")
    assert published() == [Done(3, 1, 1)] * 2
    spark.sql(f"alter table {name} rename column name to title")
    with pytest.raises(UserError, match="name is text and must be dropped"):
        targets[0].publish(PublishedTable("gold.value", path, ["id"]))
    tell(postgres, "alter table value rename name to title")
    changed = "its columns or its key changed"
    assert [one.whole for one in published()] == [changed] * 2
    spark.sql(f"alter table {name} drop column city")
    tell(postgres, "alter table value drop city")
    assert [one.whole for one in published()] == [changed] * 2
    spark.sql(f"insert into {name} values (4, 'd')")
    spark.sql(f"update {name} set title = 'v' where id = 3")
    assert published() == [Done(7, 2, 0)] * 2


def test_the_whole_table_is_sent_where_the_log_does_not_tell_the_change(
    gold: Make, postgres: str, tmp_path: Path
) -> None:
    table, target = gold(ONE, TWO), to_postgres(postgres)
    target.publish(table.source)
    copy = shutil.copytree(table.path, tmp_path / "copy")

    def log(version: int) -> Path:
        return table.path / "_delta_log" / f"{version:020}.json"

    table.put(THREE)
    table.table.create_checkpoint()
    log(0).unlink()
    lost = Done(1, 1, 0, "the log no longer has what followed version 0")
    assert target.publish(table.source) == lost

    table.table.delete("id = 1")
    table.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    removed = target.publish(table.source)
    assert (removed.deletes, removed.whole) == (1, "files of version 1 were removed")

    shutil.rmtree(table.path)
    shutil.copytree(copy, table.path)
    back = target.publish(table.source)
    assert back == Done(0, 1, 1, f"version {removed.version} is not the one that was published")

    shutil.rmtree(table.path)
    table.put(TWO)
    assert target.publish(table.source) == Done(0, 0, 1, "the table was created again")

    tell(postgres, "drop table value")
    again = Done(0, 1, 0, "public.value was created again")
    assert target.publish(table.source) == again
    assert ask(postgres, ALL) == table.rows()


def test_columns_that_are_new_upstream_are_added_and_others_are_told(
    gold: Make, postgres: str
) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    wider = SCHEMA.append(pa.field("city", pa.string()))
    table.put((*ONE, "Bonn"), (*TWO, None), mode="overwrite", schema=wider)
    assert target.publish(table.source) == Done(1, 2, 0, "its columns or its key changed")
    assert ask(postgres, "select * from value order by id") == [(*ONE, "Bonn"), (*TWO, None)]
    other = pa.schema([("id", pa.int64()), ("name", pa.int32())])
    table.put((1, 5), mode="overwrite", schema=other)
    with pytest.raises(UserError) as error:
        target.publish(table.source)
    assert str(error.value) == (
        "[HW_PUBLISH_TABLE] public.value has other columns than gold.value: amount is "
        "numeric(12,2) and must be dropped, city is text and must be dropped, name is text and "
        "must be integer. Alter the table, or publish to another"
    )
    assert ask(postgres, "select version from headwaters_published") == [(1,)]


def test_a_table_that_somebody_made_needs_the_columns_and_an_index(
    gold: Make, postgres: str
) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    tell(postgres, "create table value (id bigint, name text)")
    with pytest.raises(UserError, match=r"HW_PUBLISH_TABLE.*amount is missing and must be"):
        target.publish(table.source)
    tell(postgres, "alter table value add amount numeric(12, 2)")
    with pytest.raises(UserError) as error:
        target.publish(table.source)
    assert str(error.value) == (
        "[HW_PUBLISH_TABLE] public.value has no unique index over the key of gold.value: create "
        'unique index on public.value ("id") nulls not distinct'
    )
    tell(postgres, "create unique index on value (id) nulls not distinct")
    tell(postgres, "insert into value values (9, 'old', 1)")
    assert target.publish(table.source) == Done(0, 1, 1, FIRST)
    assert ask(postgres, ALL) == [ONE]


def test_a_value_that_the_server_refuses_leaves_everything(gold: Make, postgres: str) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    table.put((2, "nul \0", None))
    with pytest.raises(WorkError, match=r"\[HW_PUBLISH_VALUE\] gold.value has a value that"):
        target.publish(table.source)
    table.table.delete("id = 2")
    table.put(THREE, THREE)
    with pytest.raises(WorkError, match=r"\[HW_REPEATED_KEYS\] gold.value has more than one row"):
        target.publish(table.source)
    assert ask(postgres, ALL) == [ONE]


def test_a_locked_table_and_a_second_publisher_are_told(gold: Make, postgres: str) -> None:
    table, target = gold(ONE), to_postgres(postgres, patience=0.3)
    target.publish(table.source)
    table.put(TWO)
    with psycopg.connect(postgres) as other:
        other.execute("lock table value in access exclusive mode")
        with pytest.raises(WorkError, match=r"\[HW_PUBLISH_LOCKED\] public.value is locked"):
            target.publish(table.source)
    with psycopg.connect(postgres) as other:
        name = 'headwaters_published "public"."value"'
        other.execute("select pg_advisory_xact_lock(hashtextextended(%s, 23))", (name,))
        with pytest.raises(WorkError, match=r"\[HW_PUBLISH_IN_USE\] another headwaters"):
            target.publish(table.source)
    assert target.publish(table.source) == Done(1, 1, 0)


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_a_server_that_is_away_is_awaited(
    seconds: int, gold: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    monkeypatch.setenv("HEADWATERS_LAKE", str(lake))
    url = databases.start(Project(ROOT)).url
    try:
        table, target = gold(ONE), to_postgres(url, patience=seconds + 60)
        target.publish(table.source)
        table.put(TWO)
        databases.stop(lake)
        found: list[Done] = []
        waiting = threading.Thread(target=lambda: found.append(target.publish(table.source)))
        waiting.start()
        waiting.join(seconds)
        assert waiting.is_alive()
        databases.start(Project(ROOT))
        waiting.join(60)
        assert found == [Done(1, 1, 0)]
    finally:
        databases.stop(lake)
    with pytest.raises(WorkError) as error:
        to_postgres(url, patience=0).publish(table.source)
    said = str(error.value)
    assert said.startswith("[HW_POSTGRES_AWAY] PostgreSQL (HEADWATERS_POSTGRES) does not answer:")
    assert url.split(":")[2].split("@")[0] not in said


def test_an_address_that_is_none_is_told_without_its_password(gold: Make) -> None:
    with pytest.raises(UserError) as error:
        to_postgres("hunter2 host").publish(gold(ONE).source)
    assert str(error.value) == (
        "[HW_NO_POSTGRES] HEADWATERS_POSTGRES is no address of PostgreSQL: write "
        "postgresql://user:password@host/database"
    )


def test_what_somebody_changed_in_the_target_is_found(gold: Make, postgres: str) -> None:
    table, target = gold(ONE, TWO, THREE), to_postgres(postgres)
    target.publish(table.source)
    table.put((4, "d", None))
    tell(postgres, "delete from value where id = 1; update value set name = 'x' where id = 2")
    tell(postgres, "insert into value values (9, 'z', null)")
    found = target.compare(table.source)
    assert found == TargetDifference(0, 3, 2, 2)
    assert str(found) == (
        "version 0: 3 rows, of which 2 are missing or differ; 2 are there that the table does not "
        "have"
    )


def test_a_key_that_an_unchanged_file_has_is_told_before_anything_is_written(
    gold: Make, postgres: str, broker: str
) -> None:
    """Refuse the row: its later deletion would delete the unchanged file's row from the target."""
    table = gold(ONE, TWO)
    topic = f"p_{time.time_ns()}"
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, topic)]
    for target in targets:
        target.publish(table.source)
    before = compacted(broker, topic)
    said = (
        "[HW_REPEATED_KEYS] gold.value has more than one row of a key (id): 1 keys are repeated. "
        "Nothing was published"
    )
    for row in ((1, "again", None), ONE):
        table.put(row)
        for target in targets:
            with pytest.raises(WorkError) as error:
                target.publish(table.source)
            assert str(error.value) == said
        table.table.restore(0)
    assert ask(postgres, ALL) == [ONE, TWO]
    assert compacted(broker, topic) == before
    for target in targets:
        assert target.publish(table.source) == Done(table.table.version(), 0, 0)


@pytest.mark.parametrize("repeated", [0.0, -0.0, None, float("nan")])
def test_keys_that_are_one_to_the_target_are_repeated(
    repeated: float | None, tmp_path: Path, postgres: str, broker: str
) -> None:
    path = tmp_path / "value"

    def put(*keys: float | None) -> PublishedTable:
        rows = {"id": pa.array(keys, pa.float64()), "other": ["n"] * len(keys)}
        write_deltalake(path, pa.table(rows), mode="append")
        return PublishedTable("gold.value", path, ["id", "other"])

    put(0.0, 1.0)
    source = put(None, float("nan"))
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, f"p_{time.time_ns()}")]
    for target in targets:
        target.publish(source)
    source = put(2.0, repeated)
    for target in targets:
        with pytest.raises(WorkError, match=r"HW_REPEATED_KEYS.*\(id, other\): 1 keys are"):
            target.publish(source)


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Place:
    """Return a target of each kind; a topic takes seconds for each transaction."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return Place(to_postgres(url), lambda: ask(url, "select * from value order by 1"))
    broker, topic = request.getfixturevalue("broker"), f"p_{time.time_ns()}"

    def records() -> dict[Any, Any]:
        return compacted(broker, topic)

    def rows() -> list[Row]:
        return sorted((tuple(row.values()) for row in records().values()), key=str)

    return Place(to_kafka(broker, topic), rows, records)


@dataclass(frozen=True)
class Place:
    """A target with its rows in order; a topic's rows are the last of each key."""

    target: Target
    rows: Callable[[], list[Row]]
    records: Callable[[], dict[Any, Any]] | None = None


def test_zero_of_either_sign_is_one_key(tmp_path: Path, place: Place) -> None:
    path = tmp_path / "value"

    def put(key: float, name: str) -> PublishedTable:
        write_deltalake(path, pa.table({"id": [key], "name": [name]}), mode="overwrite")
        return PublishedTable("gold.value", path, ["id"])

    for key, name in ((0.0, "a"), (-0.0, "b")):
        source = put(key, name)
        assert place.target.publish(source).upserts == 1
        assert place.target.compare(source) == TargetDifference(source.position.version, 1, 0, 0)
    assert place.rows() == [(0.0, "b")]
    if place.records:
        assert place.records() == {'{"id":0.0}': {"id": 0.0, "name": "b"}}


@pytest.mark.parametrize("change", ["delete from value where id = 1", "truncate value",
                                    "insert into value values (9, 'z', null)"])  # fmt: skip
@pytest.mark.parametrize("changed_upstream", [False, True])
def test_rows_that_others_changed_are_reconciled(
    change: str, changed_upstream: bool, gold: Make, postgres: str
) -> None:
    table, target = gold(ONE, TWO), to_postgres(postgres)
    target.publish(table.source)
    tell(postgres, change)
    if changed_upstream:
        table.put(THREE)
    done = target.publish(table.source)
    assert done.whole == CHANGED
    assert ask(postgres, ALL) == table.rows()
    assert target.publish(table.source) == Done(table.table.version(), already=True)


def test_a_column_that_somebody_dropped_is_not_added_without_its_values(
    gold: Make, postgres: str
) -> None:
    table, target = gold(ONE, TWO), to_postgres(postgres)
    target.publish(table.source)
    tell(postgres, "alter table value drop column name")
    for row in (None, THREE):
        if row:
            table.put(row)
        with pytest.raises(UserError, match=r"HW_PUBLISH_TABLE.*name is missing and must be text"):
            target.publish(table.source)


FUNCTION = (
    "create function f() returns trigger language plpgsql as "
    "$$ begin new.name := 'changed'; return new; end $$;"
)
BEFORE = "has a BEFORE trigger, which may change what is written (t): make it an AFTER trigger"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"{FUNCTION} create trigger t before insert on value for each row execute function f()",
         BEFORE),
        ("create rule r as on insert to value do instead nothing",
         "has a rule (r), which changes what is written: drop it"),
        ("alter table value drop name, add name text generated always as ('x') stored",
         "has a column whose values PostgreSQL generates (name)"),
        ("alter table value alter id set not null, alter id add generated always as identity",
         "has a column whose values PostgreSQL generates (id)"),
        ("create collation c (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
         "alter table value alter name type text collate c",
         "has a nondeterministic collation (name), to which different texts are equal"),
        ("drop index value_id_idx; create unique index on value (id)",
         "has no unique index over the key of gold.value: create unique index on public.value "
         '("id") nulls not distinct'),
        ("drop index value_id_idx; create unique index on value (id, lower(name)) nulls not "
         "distinct",
         "has no unique index over the key of gold.value"),
    ],
)  # fmt: skip
def test_a_table_that_would_not_have_what_is_written_is_refused(
    change: str, said: str, gold: Make, postgres: str
) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    tell(postgres, change)
    table.put(TWO)
    with pytest.raises(UserError) as error:
        target.publish(table.source)
    assert str(error.value).startswith(f"[HW_PUBLISH_TABLE] public.value {said}")
    assert ask(postgres, "select id from value") == [(1,)]


def test_a_unique_index_may_have_other_columns_with_it(gold: Make, postgres: str) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    tell(postgres, "create table value (id bigint not null, name text, amount numeric(12, 2))")
    tell(postgres, "create unique index on value (id) include (name)")
    assert target.publish(table.source) == Done(0, 1, 0, FIRST)


@pytest.mark.parametrize(
    "change",
    ["delete from value where id = 1", "update value set name = 'x' where id = new.id"],
)
def test_an_after_trigger_that_changes_what_is_written_is_found(
    change: str, gold: Make, postgres: str
) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    tell(postgres, TRIGGER.format(change))
    table.put(TWO)
    said = r"HW_PUBLISH_TABLE\] public.value has other rows than were written"
    with pytest.raises(WorkError, match=said):
        target.publish(table.source)
    assert ask(postgres, ALL) == [ONE]


def test_rows_that_an_after_trigger_adds_are_deleted_again(gold: Make, postgres: str) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    tell(postgres, TRIGGER.format("insert into value values (new.id + 10, 'x', null)"))
    table.put(TWO)
    assert target.publish(table.source) == Done(1, 1, 1, CHANGED)
    assert ask(postgres, ALL) == [ONE, TWO]


def test_a_trigger_that_leaves_the_table_alone_is_let_be(gold: Make, postgres: str) -> None:
    table, target = gold(ONE), to_postgres(postgres)
    target.publish(table.source)
    tell(
        postgres,
        "create table noted (id bigint);"
        "create function f() returns trigger language plpgsql as "
        "$$ begin insert into noted values (new.id); return null; end $$;"
        "create trigger t after insert on value for each row execute function f()",
    )
    table.put(TWO)
    assert target.publish(table.source) == Done(1, 1, 0)
    tell(postgres, "truncate value")
    whole = target.publish(table.source)  # as a whole, into an empty table with a trigger
    assert (whole.upserts, ask(postgres, ALL)) == (2, [ONE, TWO])
    assert ask(postgres, "select id from noted order by id") == [(1,), (2,), (2,)]


def test_an_empty_text_in_a_partition_is_null_as_in_delta(tmp_path: Path, place: Place) -> None:
    path = tmp_path / "value"

    def put(*names: str | None) -> PublishedTable:
        rows = {"part": pa.array(names, pa.string()), "other": [""] * len(names)}
        write_deltalake(path, pa.table(rows), partition_by=["part"], mode="overwrite")
        return PublishedTable("gold.value", path, ["part"])

    for source, rows in (
        (put("", "a"), [("a", ""), (None, "")]),
        (put("", "b"), [("b", ""), (None, "")]),
        (put("b"), [("b", "")]),
    ):
        place.target.publish(source)
        assert place.rows() == rows
    source = put("", None)
    with pytest.raises(WorkError, match="HW_REPEATED_KEYS"):
        place.target.publish(source)


MAPS = pa.map_(pa.struct([("a", pa.int32())]), pa.map_(pa.bool_(), pa.date32()))
ODD_YEARS: list[tuple[pa.DataType, Any]] = [
    (pa.date32(), 2_932_897),
    (pa.date32(), -719_163),
    (pa.timestamp("us", "UTC"), 253_402_300_800_000_000),
    (pa.timestamp("us"), -62_135_596_800_000_001),
    (pa.list_(pa.date32()), [2_932_897]),
    (pa.struct([("a", pa.map_(pa.string(), pa.timestamp("us", "UTC")))]),
     {"a": [("k", 253_402_300_800_000_000)]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), ODD_YEARS, ids=lambda one: str(one)[:20])
def test_a_year_that_is_not_of_four_digits_is_told(
    kind: pa.DataType, value: Any, tmp_path: Path, postgres: str, broker: str
) -> None:
    path = tmp_path / "value"
    column = pa.array([value], kind)
    write_deltalake(path, pa.table([pa.array([1]), column], ["id", "moment"]))
    source = PublishedTable("gold.value", path, ["id"])
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, f"p_{time.time_ns()}")]
    for target in targets:
        with pytest.raises(WorkError) as error:
            target.publish(source)
        assert str(error.value) == (
            "[HW_PUBLISH_VALUE] gold.value.moment has a date or time outside of the years 1 to "
            "9999: correct it in the model. Nothing was published"
        )


def test_maps_with_keys_of_any_type_are_objects_and_repeated_keys_are_told(
    tmp_path: Path, postgres: str, broker: str
) -> None:
    path, topic = tmp_path / "value", f"p_{time.time_ns()}"

    def put(*pairs: Any) -> PublishedTable:
        column = pa.array([pairs, []], MAPS)
        rows = pa.table([pa.array([1, 2]), column], ["id", "maps"])
        write_deltalake(path, rows, mode="overwrite")
        return PublishedTable("gold.value", path, ["id"])

    source = put(({"a": 1}, [(True, date(2026, 1, 2))]), ({"a": None}, None))
    wanted = {'{"a":1}': {"true": "2026-01-02"}, '{"a":null}': None}
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, topic)]
    for target in targets:
        target.publish(source)
    assert ask(postgres, "select maps from value order by id") == [(wanted,), ({},)]
    assert [one["maps"] for one in compacted(broker, topic).values()] == [wanted, {}]
    source = put(({"a": 1}, None), ({"a": 1}, None))
    for target in targets:
        with pytest.raises(WorkError) as error:
            target.publish(source)
        assert str(error.value) == (
            "[HW_PUBLISH_VALUE] gold.value.maps has a map with a key twice, which an object of "
            "JSON cannot have: correct it in the model. Nothing was published"
        )


def test_a_log_that_says_less_of_files_is_read(tmp_path: Path, postgres: str) -> None:
    """Remove the size and partition of a removed file from the log, which may lack both."""
    for partitioned, name in ((False, "whole"), (True, "parts")):
        path, target = tmp_path / name, to_postgres(postgres, f"public.{name}")
        rows = pa.table({"id": [1, 2], "part": [1, 1]})
        write_deltalake(path, rows, partition_by=["part"] if partitioned else None)
        target.publish(PublishedTable("gold.value", path, ["id"]))
        DeltaTable(path).delete("id = 1")
        log = path / "_delta_log" / f"{1:020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for key in ("size", "partitionValues", "extendedFileMetadata"):
                action.get("remove", {}).pop(key, None)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        why = "the log does not have the partitions of files that were removed"
        done = target.publish(PublishedTable("gold.value", path, ["id"]))
        assert done == Done(1, 0, 1, why if partitioned else None)
        assert ask(postgres, f"select id from {name}") == [(2,)]


def test_a_column_that_was_dropped_and_added_again_is_published_whole(
    tmp_path: Path, postgres: str
) -> None:
    """Write the log by hand: delta-rs does not change columns of a table with column mapping."""
    path, target = tmp_path / "value", to_postgres(postgres)
    log = path / "_delta_log"
    log.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "col-1": ["a", "b"]}), path / "one.parquet")

    def described(stored: str) -> str:
        fields = [
            {
                "name": name,
                "type": kind,
                "nullable": True,
                "metadata": {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": physical,
                },
            }
            for number, (name, kind, physical) in enumerate(
                [("id", "long", "id"), ("name", "string", stored)], 1
            )
        ]
        metadata = {
            "id": "5f2b",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "3",
            },
        }
        return json.dumps({"metaData": metadata}) + "\n"

    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    added = {"path": "one.parquet", "size": (path / "one.parquet").stat().st_size}
    added |= {"partitionValues": {}, "modificationTime": 0, "dataChange": True}
    added["stats"] = json.dumps({"numRecords": 2})
    lines = json.dumps({"protocol": protocol}) + "\n" + described("col-1")
    (log / f"{0:020}.json").write_text(lines + json.dumps({"add": added}) + "\n")
    assert target.publish(PublishedTable("gold.value", path, ["id"])) == Done(0, 2, 0, FIRST)
    (log / f"{1:020}.json").write_text(described("col-2"))
    done = target.publish(PublishedTable("gold.value", path, ["id"]))
    assert done == Done(1, 2, 0, "its columns or its key changed")
    assert ask(postgres, "select id, name from value order by id") == [(1, None), (2, None)]


def test_a_text_that_ends_copy_does_not_end_it(tmp_path: Path, postgres: str) -> None:
    path = tmp_path / "value"

    def put(*names: str | None) -> PublishedTable:
        write_deltalake(path, pa.table({"name": pa.array(names, pa.string())}), mode="overwrite")
        return PublishedTable("gold.value", path, ["name"])

    target = to_postgres(postgres)
    target.publish(put("a", "\\.", None, "", "z"))
    rows = "select name from value order by name"
    assert ask(postgres, rows) == [("",), ("\\.",), ("a",), ("z",), (None,)]
    assert target.publish(put("a")) == Done(1, 0, 4)
    assert ask(postgres, rows) == [("a",)]


def test_a_published_version_that_was_vacuumed_cannot_be_checked(gold: Make, place: Place) -> None:
    table = gold(ONE, TWO)
    place.target.publish(table.source)
    table.table.delete("id = 1")
    table.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(WorkError) as error:
        place.target.compare(table.source)
    assert str(error.value).startswith(
        "[HW_PUBLISH_SOURCE] gold.value cannot be read, the published version 0, of which "
        "vacuum may have removed files: publish, then check. Reason: "
    )
    place.target.publish(table.source)
    assert place.target.compare(table.source) == TargetDifference(table.table.version(), 1, 0, 0)


def test_the_file_of_a_deletion_vector_is_named_as_the_protocol_says() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    assert list(_parts({"path": "a%20b", "deletionVector": vector})) == [
        "a b",
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
    ]


@pytest.mark.parametrize(("user", "password"), [("headwaters", "hunter2"), ("nobody", "hunter2")])
def test_a_wrong_password_is_told_at_once(
    user: str, password: str, gold: Make, postgres: str
) -> None:
    """Refuse the user: the server is not away, so the publisher must not retry for a minute."""
    host = postgres.partition("@")[2]
    begun = time.monotonic()
    with pytest.raises(WorkError) as error:
        to_postgres(f"postgresql://{user}:{password}@{host}", patience=60).publish(gold(ONE).source)
    assert time.monotonic() - begun < 30
    assert str(error.value).startswith(
        "[HW_POSTGRES] PostgreSQL (HEADWATERS_POSTGRES) refuses the connection: "
    )
    assert password not in str(error.value)


# -- Kafka -----------------------------------------------------------------------------------------


def expected(table: Gold) -> dict[str, Any]:
    return as_records(table.at(table.table.version()))


def test_a_topic_that_is_compacted_equals_the_table(gold: Make, broker: str) -> None:
    table, topic = gold(ONE, TWO), f"p_{time.time_ns()}"
    target = to_kafka(broker, topic)
    assert target.compare(table.source) is None
    assert target.publish(table.source) == Done(0, 2, 0, FIRST)
    rng = Random(3)
    for _ in range(4):
        for _ in range(3):
            table.step(rng)
        to_kafka(broker, topic).publish(table.source)
        assert compacted(broker, topic) == expected(table)
    version = table.table.version()
    assert target.publish(table.source) == Done(version, already=True)
    assert target.compare(table.source) == TargetDifference(version, len(table.rows()), 0, 0)

    shutil.rmtree(table.path)
    table.put(ONE, THREE)
    done = target.publish(table.source)
    assert (done.upserts, done.whole) == (2, "the table was created again")
    assert compacted(broker, topic) == expected(table)


def test_a_record_is_json_of_every_type(tmp_path: Path, broker: str) -> None:
    topic = f"p_{time.time_ns()}"
    source, target = typed(tmp_path / "typed"), to_kafka(broker, topic)
    target.publish(source)
    assert compacted(broker, topic)['{"id":1}'] == {
        "id": 1,
        **{name: one[1] for name, one in TYPES.items()},
        "twice": "Infinity",
        "number": "-12345678901234567890.12",
        "day": "0001-01-01",
        "moment": "1969-12-31T23:59:59.999999Z",
        "wall": "9999-12-31T23:59:00",
        "bytes": "AP8=",
        "list": ["2026-01-02", None],
        "pairs": {"k": "NaN"},
    }
    assert target.compare(source) == TargetDifference(0, 2, 0, 0)


def test_repeated_keys_are_in_no_topic(gold: Make, broker: str) -> None:
    table, topic = gold(ONE, ONE), f"p_{time.time_ns()}"
    with pytest.raises(WorkError, match=r"\[HW_REPEATED_KEYS\] gold.value has more than one row"):
        to_kafka(broker, topic).publish(table.source)
    assert compacted(broker, topic) == {}


def test_of_two_publishers_of_a_topic_the_later_one_writes(gold: Make, broker: str) -> None:
    table, topic = gold(ONE), f"p_{time.time_ns()}"
    first, second = to_kafka(broker, topic), to_kafka(broker, topic)
    begun, over = threading.Event(), threading.Event()
    send = first._send

    def slowly(*arguments: Any) -> Done:
        begun.set()
        assert over.wait(60)
        return send(*arguments)

    first._send = slowly  # type: ignore[method-assign, assignment]  # one that takes longer
    failed: list[WorkError] = []

    def publish() -> None:
        try:
            first.publish(table.source)
        except WorkError as error:
            failed.append(error)

    thread = threading.Thread(target=publish)
    thread.start()
    assert begun.wait(60)
    assert second.publish(table.source) == Done(0, 1, 0, FIRST)
    over.set()
    thread.join(60)
    assert [one.code for one in failed] == ["HW_PUBLISH_IN_USE"]
    assert compacted(broker, topic) == expected(table)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (KafkaError._FENCED, "[HW_PUBLISH_IN_USE] another headwaters publishes to topic t"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "[HW_KAFKA] topic t: the broker refuses: reason"),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "[HW_KAFKA] topic t: the broker refuses: reason"),
        (KafkaError._FATAL, "[HW_KAFKA] topic t: the broker refuses: reason"),
        (KafkaError._TRANSPORT, "[HW_BROKER_AWAY] the Kafka broker b does not answer: reason"),
    ],
)
def test_an_error_of_the_producer_is_told_as_what_it_is(
    code: int, said: str, tmp_path: Path
) -> None:
    source = Gold(tmp_path / "value", ONE).source
    error = KafkaError(code, "reason", fatal=True)
    assert str(to_kafka("b", "t")._said(error, source)).startswith(said)


@pytest.mark.slow
def test_a_transaction_that_the_broker_ended_is_no_second_publisher(
    gold: Make, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the broker end the transaction, which looks like a fence; it checks every ten seconds."""
    monkeypatch.setattr(kafka, "_LONGEST", 4000)
    table, topic = gold(ONE), f"p_{time.time_ns()}"
    target = to_kafka(broker, topic, patience=4)
    send = target._send

    def slowly(producer: Any, *arguments: Any) -> Done:
        done = send(producer, *arguments)
        producer.flush(10)
        time.sleep(18)
        return done

    target._send = slowly  # type: ignore[method-assign, assignment]  # one that takes longer
    with pytest.raises(WorkError, match=r"\[HW_KAFKA\] gold.value: the transaction took longer"):
        target.publish(table.source)
    assert compacted(broker, topic) == {}


@pytest.mark.parametrize("work", ["publish", pytest.param("compare", marks=pytest.mark.slow)])
def test_a_broker_that_is_away_is_told(gold: Make, work: str) -> None:
    target, source = to_kafka("127.0.0.1:1", "t", patience=0), gold(ONE).source
    with pytest.raises(WorkError, match=r"\[HW_BROKER_AWAY\] the Kafka broker 127.0.0.1:1 "):
        getattr(target, work)(source)


@pytest.mark.slow
def test_a_topic_follows_the_key_and_the_model_that_is_published(
    gold: Make, tmp_path: Path, broker: str
) -> None:
    table, other, topic = (
        gold(ONE, TWO),
        Gold(tmp_path / "other", TWO, THREE),
        f"p_{time.time_ns()}",
    )
    target = to_kafka(broker, topic)
    target.publish(table.source)
    by_name = PublishedTable("gold.value", table.path, ["name", "id"])
    done = target.publish(by_name)
    assert (done.upserts, done.deletes, done.whole) == (2, 2, "its columns or its key changed")
    assert sorted(compacted(broker, topic)) == ['{"name":"a","id":1}', '{"name":"b","id":2}']

    target.publish(table.source)
    target.publish(PublishedTable("gold.other", other.path, ["id"]))
    assert compacted(broker, topic) == expected(other)
    assert target.publish(table.source).whole == "gold.other was published to the topic"
    assert compacted(broker, topic) == expected(table)


def test_a_topic_with_more_partitions_than_before_is_refused(gold: Make, broker: str) -> None:
    """Refuse more partitions: an updated row would be in two of them, in unknown order."""
    table, topic = gold(ONE), f"p_{time.time_ns()}"
    to_kafka(broker, topic).publish(table.source)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_partitions([NewPartitions(topic, 7)])[topic].result(20)
    until = time.monotonic() + 30
    while len(admin.list_topics(topic, 10).topics[topic].partitions) < 7:
        assert time.monotonic() < until
    table.put(TWO)
    with pytest.raises(UserError, match=r"\[HW_PUBLISH_TOPIC\] topic .* has other partitions"):
        to_kafka(broker, topic).publish(table.source)


# -- the command -----------------------------------------------------------------------------------


def test_the_command_publishes_checks_and_tells(tmp_path: Path, postgres: str) -> None:
    project, lake = tmp_path / "project", tmp_path / "lake"
    table = Gold(lake / "warehouse" / "gold.db" / "value", ONE)
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: bare\nversion: 1.0.0\nprofile: bare\n")
    target = f"{{type: headwaters, schema: gold, lake: '{lake}'}}"
    (project / "profiles.yml").write_text(f"bare: {{target: dev, outputs: {{dev: {target}}}}}\n")
    config = "materialized='incremental', incremental_strategy='append', unique_key='id'"
    (project / "models" / "value.sql").write_text(f"{{{{ config({config}) }}}} select 1 as id")

    def declare(**more: Any) -> None:
        publish = {"from": "value", "to": "postgres", "table": "public.value", **more}
        exposure = {
            "name": "shop",
            "type": "application",
            "owner": {"name": "shop"},
            "depends_on": ["ref('value')"],
            "config": {"meta": {"publish": publish}},
        }
        (project / "models" / "shop.yml").write_text(json.dumps({"exposures": [exposure]}))

    def run(*options: str, **variables: str) -> tuple[int, str]:
        given = {**environment(lake), "HEADWATERS_POSTGRES": postgres, **variables}
        done = run_command("headwaters", ["publish", *options], given, project)
        return done.returncode, done.stdout + done.stderr

    declare()
    head = "shop → PostgreSQL public.value: "
    said = f"{head}version 0: 1 rows upserted, 0 deleted; the whole table: first publication\n"
    assert run("--once", "--select", "shop") == (0, said)
    assert run("--check") == (0, f"{head}version 0: 1 rows, all equal\n")
    code, said = run("--every", "0s")
    assert code == 2 and "[HW_ARGUMENT] --every 0s has no pause: write 1s or more" in said

    # with --every it publishes new commits until a signal ends it
    goes_on = [sys.executable, "-m", "headwaters.cli", "publish", "--every", "100ms"]
    variables = {**environment(lake), "HEADWATERS_POSTGRES": postgres, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        goes_on, cwd=project, env=variables, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        try:
            assert running.stdout.readline() == f"{head}version 0 is published already\n"
            table.put(TWO)
            assert running.stdout.readline() == f"{head}version 1: 1 rows upserted, 0 deleted\n"
            assert running.stdout.readline() == f"{head}version 1 is published already\n"
            table.put(TWO)
            assert "[HW_REPEATED_KEYS]" in running.stdout.readline()
            table.table.restore(1)
            assert running.stdout.readline() == f"{head}version 3: 0 rows upserted, 0 deleted\n"
        finally:
            running.terminate()
        rest = running.stdout.read()
    assert (running.returncode, rest) in [(0, ""), (0, f"{head}version 3 is published already\n")]
    declare(connection="postgresql://u:hunter2@h/d")
    code, said = run()
    assert code == 2 and "[HW_PUBLISH_SECRET] models/shop.yml: shop: " in said
    assert "hunter2" not in said


def test_text_arrives_whatever_encoding_is_set_for_clients(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Gold(tmp_path / "value", (1, "\u00e4\u20ac", None))
    database = ask(postgres, "select current_database()")[0][0]
    tell(postgres, f"alter database {database} set client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    to_postgres(f"{postgres}?client_encoding=WIN1252").publish(table.source)
    said = "select id, length(name), encode(convert_to(name, 'UTF8'), 'hex') from value"
    assert ask(postgres, said) == [(1, 2, "c3a4e282ac")]


def test_rows_that_a_policy_hides_are_an_error(tmp_path: Path, postgres: str) -> None:
    """Refuse hidden rows: no run could delete them, and no comparison would see them."""
    table = Gold(tmp_path / "value", (1, "a", None), (2, "b", None))
    database = ask(postgres, "select current_database()")[0][0]
    tell(postgres, f"drop role if exists {database}_p")
    tell(postgres, f"create role {database}_p login password 'p'")
    tell(postgres, f"grant create, usage on schema public to {database}_p")
    address = f"postgresql://{database}_p:p@{postgres.partition('@')[2]}"
    target = to_postgres(address)
    target.publish(table.source)
    tell(postgres, "alter table value enable row level security")
    tell(postgres, "alter table value force row level security")
    tell(postgres, "create policy odd_ones on value using (id <> 2)")
    table.table.delete("id = 2")
    with pytest.raises((UserError, WorkError), match="row-level security"):
        target.publish(table.source)
    tell(postgres, "alter table value disable row level security")
    target.publish(table.source)
    assert ask(postgres, "select id from value") == [(1,)]


def test_binary_keys_are_deleted(tmp_path: Path, postgres: str) -> None:
    path = tmp_path / "value"

    def put(*keys: bytes) -> PublishedTable:
        rows = pa.table({"id": pa.array(keys, pa.binary()), "name": ["n"] * len(keys)})
        write_deltalake(path, rows, mode="overwrite")
        return PublishedTable("gold.value", path, ["id"])

    target = to_postgres(postgres)
    target.publish(put(b"", b"\xff\\", b"b"))
    done = target.publish(put(b"b"))
    assert (done.upserts, done.deletes, done.whole) == (0, 2, None)
    assert ask(postgres, "select id from value") == [(b"b",)]


def test_a_column_whose_name_postgres_would_cut_is_refused(tmp_path: Path, postgres: str) -> None:
    path = tmp_path / "value"
    write_deltalake(path, pa.table({"id": [1], "c" * 64: [2]}))
    with pytest.raises(UserError, match=f"HW_PUBLISH_TABLE.*gold.value.{'c' * 64}: a name of over"):
        to_postgres(postgres).publish(PublishedTable("gold.value", path, ["id"]))
    assert ask(postgres, "select count(*) from pg_tables where schemaname = 'public'") == [(0,)]
