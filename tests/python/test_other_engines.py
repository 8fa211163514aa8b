"""Test the checks of Trino and Flink that need no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwaters.devkit import flink, trino_check
from headwaters.devkit.flink_check import create_table
from headwaters.devkit.trino_check import ComparedTable
from headwaters.platform.errors import WorkError
from headwaters.publish.changes import Field


def test_a_line_of_trino_has_both_numbers_if_they_differ() -> None:
    found = [
        ComparedTable("gold.a", 1234, 1234),
        ComparedTable("gold.ab", 5, 4),
        ComparedTable("gold.b", None, 3),
        ComparedTable("gold.c", problem="no such file"),
    ]
    assert [table.line(7) for table in found] == [
        "gold.a       1,234 rows",
        "gold.ab          4 rows, and its log has 5",
        "gold.b           3 rows, and its log has no count",
        "gold.c   no such file",
    ]
    assert [table.is_right for table in found] == [True, False, True, False]


def test_a_trino_that_is_away_is_one_line() -> None:
    with pytest.raises(WorkError, match=r"no Trino answers at http://127.0.0.1:1 \(") as caught:
        trino_check.query("http://127.0.0.1:1", "delta", "select 1")
    assert caught.value.code == "HW_SERVER"


def test_the_table_of_a_topic_has_the_types_of_its_json() -> None:
    kinds = ["int", "decimal(12, 2)", "varchar(3)", "timestamp", "array<int>", "binary"]
    fields = [Field(f"c{number}", kind) for number, kind in enumerate(kinds)]
    created = create_table("t", "h:9", fields, ["c0", "c2"])
    assert created.startswith(
        "create table published (`c0` int, `c1` decimal(12,2), `c2` string, `c3` timestamp_ltz(6), "
        "`c4` string, `c5` bytes, primary key (`c0`, `c2`) not enforced) with ('connector' = "
        "'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'h:9', "
        "'properties.isolation.level' = 'read_committed', "
    )


def test_flink_listens_on_loopback_only() -> None:
    found = flink.settings(Path("/f"), 1, 2, 3)
    hosts = {value for name, value in found.items() if "host" in name or "address" in name}
    assert hosts == {"127.0.0.1"}
    ports = {name: value for name, value in found.items() if "port" in name}
    assert ports == {
        "jobmanager.rpc.port": "2",
        "rest.port": "1",
        "rest.bind-port": "1",
        "taskmanager.rpc.port": "3",
    }
    assert flink.yaml({"a.b": "x: y"}) == 'a.b: "x: y"\n'


def test_the_last_row_of_a_changing_result() -> None:
    output = "+----+\n| op | n |\n| +I | 1 |\n| -U | 1 |\n| +U |   12 | b |\n| -D | 1 |\n3 rows\n"
    assert flink.last_row(output) == ["12", "b"]
    assert flink.last_row("Received a total of 0 rows\n") == []


def test_sql_without_a_flink_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match=r"no Flink runs on this lake: .*platform start --with"):
        flink.run_sql(tmp_path, ["select 1"])
