"""Test that a table's log answers a run as Spark would, and when a run asks Spark instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from headwaters.platform.errors import WorkError
from headwaters.runs.histories import Histories, written_by
from headwaters.tables.commits import commits_of
from headwaters.tables.delta_log import commits_of_log, is_whole, properties_of_log

# Each table: its clauses, and the statements after its first rows.
TABLES = {
    "plain": ("", []),
    "checkpoints": (
        "tblproperties ('delta.checkpointInterval' = '3', 'delta.enableChangeDataFeed' = 'true')",
        [
            "update {t} set v = v + 1 where id = 1",
            "delete from {t} where id = 2",
            "merge into {t} t using (select 1 as id, 'x' as g, 9 as v) s on t.id = s.id"
            " when matched then update set * when not matched then insert *",
            "alter table {t} add columns (more string comment 'it''s')",
            "alter table {t} set tblproperties ('a.token' = 's3cret', 'headwaters.run' = '{{}}')",
            "comment on table {t} is 'ä'",
            "optimize {t}",
            "restore table {t} to version as of 2",
        ],
    ),
    "second_form": (
        "cluster by (g) tblproperties ('delta.checkpointPolicy' = 'v2',"
        " 'delta.checkpointInterval' = '2', 'delta.enableRowTracking' = 'true')",
        ["insert into {t} values (5, 'e', 5)", "insert overwrite {t} values (6, 'f', 6)"],
    ),
    "own_times": (
        "partitioned by (g)",
        [
            "insert into {t} values (4, 'd', 4)",
            "alter table {t} set tblproperties ('delta.enableInCommitTimestamps' = 'true')",
            "insert into {t} values (5, 'e', 5)",
        ],
    ),
    "always_own_times": (
        "tblproperties ('delta.enableInCommitTimestamps' = 'true')",
        ["delete from {t} where id = 1"],
    ),
    "other_times": (
        "tblproperties ('delta.enableInCommitTimestamps' = 'true')",
        [
            "insert into {t} values (5, 'e', 5)",
            "create or replace table {t} using delta as select * from {t} where id > 1",
        ],
    ),
}


@pytest.fixture(scope="module")
def folders(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Yield the folder of each table; their path has a blank, an umlaut and a per cent sign."""
    home = tmp_path_factory.mktemp("logs") / "the läke 100%"
    spark.sql("create schema logs")
    for name, (clauses, statements) in TABLES.items():
        table = f"logs.{name}"
        spark.sql(
            f"create table {table} using delta {clauses} location '{home / name}'"
            " as select * from values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3) as t (id, g, v)"
        )
        for statement in statements:
            spark.sql(statement.format(t=table))
    yield {name: home / name for name in TABLES}
    spark.sql("drop schema logs cascade")


def answers(spark: Any, table: str, limit: int = 20) -> Any:
    return commits_of(spark.sql(f"describe history logs.{table} limit {limit}").collect())


def test_commits_are_those_of_describe_history(spark: Any, folders: dict[str, Path]) -> None:
    rows = DeltaTable(folders["plain"]).to_pyarrow_table()
    write_deltalake(folders["plain"], rows, mode="append")
    for name, folder in folders.items():
        assert commits_of_log(folder, 20) == answers(spark, name), name
        assert commits_of_log(folder, 2) == answers(spark, name, 2), name


def test_moments_of_copied_files_are_those_of_describe_history(
    spark: Any, folders: dict[str, Path]
) -> None:
    log = folders["checkpoints"] / "_delta_log"
    for version, at in ((1, 1_700_000_000.123), (2, 1_600_000_000.999)):
        os.utime(log / f"{version:020}.json", (at, at))
    assert commits_of_log(log.parent, 20) == answers(spark, "checkpoints")


def test_commits_without_a_note_of_the_last_checkpoint_or_the_oldest_files(
    folders: dict[str, Path],
) -> None:
    log = folders["second_form"] / "_delta_log"
    whole, properties = commits_of_log(log.parent, 20), properties_of_log(log.parent)
    (log / "00000000000000000000.json").unlink()  # as Delta's own cleaning does
    assert commits_of_log(log.parent, 20) == whole[:-1]
    (log / "_last_checkpoint").unlink()
    assert commits_of_log(log.parent, 20) == whole[:-1]
    assert properties_of_log(log.parent) == properties


def test_properties_are_those_of_spark_and_not_redacted(
    spark: Any, folders: dict[str, Path]
) -> None:
    for name, folder in folders.items():
        shown = dict(map(tuple, spark.sql(f"show tblproperties logs.{name}").collect()))
        read = properties_of_log(folder)
        secret = read.pop("a.token", None)
        assert (secret, shown.pop("a.token", None)) in (
            (None, None),
            ("s3cret", "*********(redacted)"),
        )
        assert {key: shown.get(key) for key in read} == read, name
        assert {key for key in shown.keys() - read.keys() if "." in key} == set(), name


def test_a_log_that_is_not_whole_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    assert not is_whole(log.parent)
    log.mkdir(parents=True)
    assert is_whole(log.parent)
    staged = log / "_staged_commits" / f"{1:020}.json"  # a catalog has newer commits there
    staged.parent.mkdir()
    assert is_whole(log.parent)
    staged.touch()
    assert not is_whole(log.parent)
    staged.unlink()
    (log / f"{1:020}.json").write_text('{"commitInfo": {}}\n')
    with pytest.raises(WorkError, match="HW_TABLE_DAMAGED"):
        properties_of_log(log.parent)


@pytest.mark.parametrize(
    ("statement", "moved"),
    [
        ("insert into a.t select location from b.u", False),
        ("create or replace table a.t using delta as select 1 as id", False),
        ("alter table a.t set tblproperties ('a' = 'b')", False),
        ("drop table if exists a.t", True),
        ("alter table a.t set location '/other'", True),
        ("create table a.t using delta location '/other' as select 1 as id", True),
        ("alter table b.u rename to a.t", True),
        ("call something()", True),
    ],
)
def test_statements_that_may_give_a_table_another_place(statement: str, moved: bool) -> None:
    histories = Histories()
    written = written_by(statement)
    assert written is not None
    histories.discard(written.table, written.moves)
    assert histories.may_be_moved("a.t") is moved
    assert histories.may_be_moved("`A`.`T`") is moved
    histories.begin("the next")
    assert not histories.may_be_moved("a.t")


@pytest.mark.slow
def test_a_table_that_a_hook_puts_elsewhere_is_asked_by_its_name(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    tmp_path: Path,
) -> None:
    spark.sql(f"create schema if not exists {schema}_in")
    source = f"{schema}_in.numbers"
    spark.sql(
        f"create table {source} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select 1 as id"
    )
    moves = [
        f"create table {schema}.copy_elsewhere using delta location '{tmp_path / 'copy'}'"
        f" as select * from {schema}.first",
        f"drop table {schema}.first",
        f"create table {schema}.first using delta location '{tmp_path / 'copy'}'",
    ]
    config = "materialized='incremental', incremental_strategy='auto', file_format='delta'"
    feed = "tblproperties={'delta.enableChangeDataFeed': 'true'}"
    root = f"location_root='{tmp_path}/at'"
    folder = new_project(
        {
            "models/first.sql": f"{{{{ config({config}, {feed}, {root}) }}}}\n"
            "select id from {{ source('numbers', 'numbers') }}\n",
            "models/numbers.yml": f"sources: [{{name: numbers, schema: {schema}_in,"
            " tables: [{name: numbers}]}]\n",
            "models/second.sql": f"{{{{ config({config}, pre_hook=var('moves', [])) }}}}\n"
            "select id, id * 2 as twice from {{ ref('first') }}\n",
        }
    )
    dbt("run", project_dir=folder, schema=schema)
    spark.sql(f"insert into {source} values (2)")
    dbt("run", "--vars", str({"moves": moves}), project_dir=folder, schema=schema)
    spark.sql(f"insert into {schema}.first values (3)")
    for rows in ([(1, 2), (2, 4), (3, 6)], [(1, 2), (2, 4), (3, 6)]):
        dbt("run", "--select", "second", project_dir=folder, schema=schema)
        got = sorted(map(tuple, spark.sql(f"select * from {schema}.second").collect()))
        assert got == rows
