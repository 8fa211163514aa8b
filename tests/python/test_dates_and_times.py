"""Test the whole range of dates and times: in files, in bronze, and in every way out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from ingestion import Ingester, node
from publishing import ask, compacted, tell, to_kafka, to_postgres

from headwaters.platform.delta_rs import without_panic
from headwaters.platform.errors import WorkError
from headwaters.publish.changes import PublishedTable
from headwaters.publish.target import Target
from headwaters.tables import delta_log

OUTPUT = "spark.sql.parquet.outputTimestampType"
MOMENTS = (
    "0001-01-01 00:00:00",
    "1582-10-04 23:59:59.999999",
    "1582-10-15 00:00:00",
    "1677-09-20 00:00:00",
    "1900-01-01 00:00:00.000001",
    "1969-12-31 23:59:59.999999",
    "2262-04-12 00:00:00",
    "9999-12-31 23:59:59.999999",
)
NUMBERS = ("NaN", "Infinity", "-Infinity", "-0.0", "0.1", "1.7976931348623157E308", "1E-300", "1")
NINES = "9" * 28 + "." + "9" * 10
# NULL at each level, and values next to NULL.
NESTED = (
    "case id when 0 then null when 1 then named_struct('t', null, 'a', null, 'm', null) "
    "else named_struct('t', at, 'a', array(at, null), 'm', map('k', day, 'n', null)) end"
)


def physical_types(folder: Path) -> dict[str, str]:
    """Return the physical type of each column in the data files below a folder, by its path."""
    found: dict[str, str] = {}
    for file in folder.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            table = next(part for part in file.parents if (part / "_delta_log").exists())
            schema = pq.ParquetFile(file).metadata.schema
            for column in map(schema.column, range(len(schema))):
                name = f"{table.name}.{column.path}"
                assert found.setdefault(name, column.physical_type) == column.physical_type, name
    return found


# -- Ways in ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_seeds_and_snapshots_write_microseconds(
    dbt: Callable[..., Any], new_project: Callable[[dict[str, str]], Path], schema: str, lake: Path
) -> None:
    made = "timestamp'9999-12-31 23:59:59.999999'"
    models = {
        "auto": "incremental_strategy='auto', unique_key='id'",
        "followed": "incremental_strategy='change_feed', unique_key='id'",
        "merged": "incremental_strategy='merge', unique_key='id'",
        "appended": "incremental_strategy='append'",
    }
    select = "select id, at, array(at) as ats from"
    files = {
        f"models/{name}.sql": f"{{{{ config(materialized='incremental', {given}) }}}} {select} "
        + ("{{ changes(ref('moments')) }}" if name == "followed" else "{{ ref('moments') }}")
        for name, given in models.items()
    }
    files["models/moments.sql"] = (
        "{{ config(materialized='incremental', incremental_strategy='append') }}"
        f"select cast({{{{ var('id') }}}} as int) as id, {made} as at"
    )
    files["snapshots/kept.sql"] = (
        "{% snapshot kept %}{{ config(strategy='check', check_cols=['at'], unique_key='id') }}"
        "select id, at from {{ ref('moments') }}{% endsnapshot %}"
    )
    files["seeds/days.csv"] = "id,at\n1,9999-12-31 23:59:59\n"
    files["seeds/days.yml"] = (
        "seeds: [{name: days, config: {column_types: {id: int, at: timestamp}}}]"
    )
    folder = new_project(files)
    for number in (1, 2):
        dbt("build", "--vars", f"{{id: {number}}}", project_dir=folder, schema=schema)
    found = {
        name: kind
        for warehouse in (lake / "warehouse").glob(f"{schema}*.db")
        for name, kind in physical_types(warehouse).items()
    }
    timestamps = {f"{name}.{part}" for name in models for part in ("at", "ats.list.element")}
    timestamps |= {"moments.at", "days.at", "kept.at", "kept.dbt_valid_from"}
    assert {name: found.get(name) for name in timestamps} == dict.fromkeys(timestamps, "INT64")
    assert "INT96" not in found.values()


def test_a_date_or_time_that_other_programs_cannot_read_goes_to_quarantine(
    ingester: Ingester,
) -> None:
    """Land typed, computed and nested values; bronze has the years 1 to 9999."""
    last_day, last = 2_932_896, 253_402_300_799_999_999
    types = {
        "id": "int",
        "d": "date",
        "t": "timestamp",
        "w": "timestamp_ntz",
        "s": "struct<a: array<date>, m: map<string, timestamp>>",
        "days": "int",
        "micros": "bigint",
        "day": "date",
        "days_of": "array<date>",
        "at": "timestamp",
        "last_day": "date",
        "known_end": "timestamp",
    }
    expressions = {
        "day": "date_from_unix_date(days)",
        "days_of": "array(null, date_from_unix_date(days))",
        "at": "timestamp_micros(micros)",
        "last_day": "if(days > 2932896, date'9999-12-31', date_from_unix_date(days))",
        "known_end": "if(micros between -62135596800000000 and 253402300799999999, "
        "timestamp_micros(micros), null)",
    }
    short = {"day", "days_of", "at"}  # without those that the reference recommends
    first = {"d": "0001-01-01", "t": "0001-01-01T00:00:00Z", "w": "0001-01-01 00:00:00"}
    good = [
        {"id": 1, **first, "days": -719_162, "micros": -62_135_596_800_000_000},
        {"id": 2, "d": "9999-12-31", "t": "9999-12-31T23:59:59.999999Z", "days": last_day}
        | {"w": "9999-12-31 23:59:59.999999", "micros": last}
        | {"s": {"a": [None, "9999-12-31"], "m": {"k": None}}},
        {"id": 3, "t": -62_135_596_800},
    ]
    bad: list[tuple[dict[str, Any], str, str]] = [
        ({"d": "0000-12-31"}, "d", "0000-12-31"),
        ({"t": "9999-12-31T23:59:59-01:00"}, "t", "+10000-01-01 00:59:59"),
        ({"t": -62_135_596_801}, "t", "0000-12-31 23:59:59"),
        ({"w": "0000-01-01 00:00:00"}, "w", "0000-01-01 00:00:00"),
        ({"s": {"a": ["2026-01-01", "0000-01-01"]}}, "s", "{[2026-01-01, 0000-01-01], null}"),
        ({"s": {"m": {"k": "0000-01-01T00:00:00Z"}}}, "s", "{null, {k -> 0000-01-01 00:00:00}}"),
        ({"days": 2_147_483_647}, "day", "+5881580-07-11"),
        ({"micros": 9_223_372_036_825_200_000}, "at", "+294247-01-10 04:00:25.2"),
        ({"micros": last + 1}, "at", "+10000-01-01 00:00:00"),
    ]
    records = [json.dumps(row) for row in good]
    records += [json.dumps({"id": 10 + n, **row}) for n, (row, _, _) in enumerate(bad)]
    ingester.land("a.json", *records)
    ingester.run(node(types, expressions=expressions))
    texts = ", ".join(f"cast({name} as string) as {name}" for name in types)
    rows = ingester.rows("orders", texts, "id")
    assert [[row[0], *row[1:4], *row[7:]] for row in rows] == [
        ["1", "0001-01-01", *["0001-01-01 00:00:00"] * 2, "0001-01-01", "[null, 0001-01-01]",
         "0001-01-01 00:00:00", "0001-01-01", "0001-01-01 00:00:00"],
        ["2", "9999-12-31", *["9999-12-31 23:59:59.999999"] * 2, "9999-12-31",
         "[null, 9999-12-31]", "9999-12-31 23:59:59.999999", "9999-12-31",
         "9999-12-31 23:59:59.999999"],
        ["3", None, "0001-01-01 00:00:00", None, None, "[null, null]", None, None, None],
    ]  # fmt: skip
    found = ingester.rows("orders_quarantine", "reason, field, message", "record")
    assert found == [
        ["type", field, f"'{text}' is outside of the years 1 to 9999"] for _, field, text in bad
    ]
    kept = {name: kind for name, kind in types.items() if name not in short}
    kept_by = {name: text for name, text in expressions.items() if name not in short}
    open_end = '{"id": 4, "days": 2147483647, "micros": 9223372036825200000}'
    ingester.land("b.json", open_end, stream="recommended")
    ingester.run(node(kept, name="recommended", expressions=kept_by))
    columns = "id, cast(last_day as string) as last_day, known_end"
    assert ingester.rows("recommended", columns, "id") == [[4, "9999-12-31", None]]
    found_types = physical_types(ingester.lake / "warehouse" / "bronze.db")
    names = ("t", "w", "s.m.key_value.value", "at", "_ingested_at")
    assert [found_types[f"orders.{name}"] for name in names] == ["INT64"] * len(names)
    assert found_types["orders_quarantine._ingested_at"] == "INT64"
    assert "INT96" not in found_types.values()


# -- Ways out --------------------------------------------------------------------------------------


def plain(value: str | None, zone: str = "Z") -> str | None:
    """Return a moment of Spark as JSON has it."""
    return None if value is None else datetime.fromisoformat(value).isoformat() + zone


def published(row: Any) -> dict[str, Any]:
    """Return the JSON of a row of Spark whose values are texts."""
    nested = row["nested"] and json.loads(row["nested"])
    if nested and nested["a"]:
        nested |= {"t": plain(nested["t"]), "a": [plain(one) for one in nested["a"]]}
    number = row["x"] if row["x"] in ("NaN", "Infinity", "-Infinity") else None
    return {
        "id": row["id"],
        "at": plain(row["at"]),
        "wall": plain(row["wall"], ""),
        "day": row["day"],
        "x": number or float(row["x"]) + 0.0,
        "amount": row["amount"],
        "text": row["text"],
        "nested": nested,
    }


@pytest.mark.parametrize(
    "written", [pytest.param("INT96", marks=pytest.mark.slow), "TIMESTAMP_MICROS"]
)
def test_what_is_published_is_what_spark_reads(
    written: str,
    spark: Any,
    set_spark: Callable[[str, str], None],
    tmp_path: Path,
    broker: str,
    postgres: str,
) -> None:
    """Publish files of an older release too, before and after a change of one of them."""
    path, topic = tmp_path / "value", f"p_{time.time_ns()}"
    set_spark(OUTPUT, written)
    rows = ", ".join(
        f"({n}, timestamp'{moment}', '{number}')"
        for n, (moment, number) in enumerate(zip(MOMENTS, NUMBERS, strict=True))
    )
    spark.sql(
        f"create table delta.`{path}` using delta "
        "tblproperties (delta.enableDeletionVectors = true) as "
        f"select *, {NESTED} as nested from (select id, at, cast(at as timestamp_ntz) as wall, "
        "cast(at as date) as day, cast(x as double) as x, "
        f"cast(if(id % 2 = 0, '{NINES}', '-{NINES}') as decimal(38, 10)) as amount, "
        f"if(id = 0, '', repeat('ä', id * 20000)) as text from values {rows} as v(id, at, x))"
    )
    kind = {"INT96": "INT96", "TIMESTAMP_MICROS": "INT64"}[written]
    assert physical_types(path)["value.at"] == kind
    targets: list[Target] = [to_postgres(postgres), to_kafka(broker, topic)]

    def agree() -> None:
        whole = spark.sql(
            "select id, cast(at as string) as at, cast(wall as string) as wall, "
            "cast(day as string) as day, cast(x as string) as x, "
            "cast(amount as string) as amount, text, "
            "to_json(struct(nested.t, nested.a, nested.m), map('ignoreNullFields', 'false', "
            "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')) as inner, nested is null as no "
            f"from delta.`{path}` order by id"
        ).collect()
        of_spark = [row.asDict() for row in whole]
        wanted = [published({**r, "nested": None if r["no"] else r["inner"]}) for r in of_spark]
        for target in targets:
            target.publish(PublishedTable("gold.value", path, ["at"]))
            compared = target.compare(PublishedTable("gold.value", path, ["at"]))
            assert compared is not None and not (compared.missing or compared.extra)
        found = sorted(compacted(broker, topic).values(), key=lambda one: int(one["id"]))
        assert found == wanted
        texts = "id, (at at time zone 'UTC')::text, wall::text, day::text, x::text, amount::text"
        of_postgres = ask(postgres, f"select {texts}, text, nested from value order by id")
        names = ("id", "at", "wall", "day", "x", "amount", "text")
        exact = [(*row[:4], repr(float(row[4])), *row[5:]) for row in of_postgres]
        assert exact == [
            (*({**row, "x": repr(float(row["x"]))}[name] for name in names), one["nested"])
            for row, one in zip(of_spark, wanted, strict=True)
        ]

    agree()
    set_spark(OUTPUT, "TIMESTAMP_MICROS")
    spark.sql(f"update delta.`{path}` set x = 2.5, text = '' where id in (0, 7)")
    spark.sql(f"delete from delta.`{path}` where id = 4")
    agree()
    # as an older release published it
    tell(postgres, "update value set at = '1816-03-30T05:56:08.066277Z' where id = 7")
    compared = targets[0].compare(PublishedTable("gold.value", path, ["at"]))
    assert compared is not None and (compared.missing or compared.extra)


def test_years_that_are_none_elsewhere_are_refused_in_one_line(
    spark: Any, tmp_path: Path, postgres: str
) -> None:
    """Refuse the years: delta-rs panics over such statistics, and Python has no such date."""
    path = tmp_path / "value"
    spark.sql(
        f"create table delta.`{path}` using delta tblproperties (delta.checkpointInterval = 1, "
        "delta.checkpoint.writeStatsAsStruct = true) as select 1 as id, "
        "date_from_unix_date(2147483647) as ends, timestamp_micros(9223372036825200000) as at"
    )
    spark.sql(f"insert into delta.`{path}` values (2, date'9999-12-31', timestamp'0001-01-01')")
    with pytest.raises(WorkError) as error:
        to_postgres(postgres).publish(PublishedTable("gold.value", path, ["id"]))
    assert str(error.value) == (
        "[HW_PUBLISH_VALUE] gold.value.ends has a date or time outside of the years 1 to 9999: "
        "correct it in the model. Nothing was published"
    )
    assert list((path / "_delta_log").glob("*.checkpoint*.parquet"))
    state = delta_log.state(path)
    assert state is not None and state.rows == 2
    with pytest.raises(DeltaError, match=r"^delta-rs panicked: "), without_panic():
        DeltaTable(path).to_pyarrow_dataset()
