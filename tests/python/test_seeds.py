"""Test that seeds hold exactly the values of their files, and are replaced without a gap."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from projects import ROOT

from headwaters.platform.project import Project as DbtProject
from headwaters.report import next_runs

Project = Callable[[dict[str, str]], Path]

NASTY = [
    "Women's shoes",
    'TVs, 24" to 85"',
    "a\\nb\\",
    "\\'; drop table x; --",
    "two\nlines\tand a tab",
    "${env:HOME} ${spark.app.name} $ {",
    "{{ ref('x') }} {% endraw %} %s ? :a",
    "100 % żółć 🐟 /* */ -- no",
    "  padded  ",
    "None",
    "007",
    "1e5",
    "true",
]


def seed(rows: list[list[str]]) -> str:
    """Return the text of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def types(seed: str = "s", /, **columns: str) -> str:
    """Return the YAML of a seed with these columns' types."""
    lines = [f'        "{name}": {kind}' for name, kind in columns.items()]
    head = ["seeds:", f"  - name: {seed}", "    config:", "      column_types:"]
    return "\n".join([*head, *lines, ""])


def message_of(result: Any, name: str) -> str:
    """Return dbt's message of a node."""
    [message] = [done.message for done in result.result if done.node.name == name]
    return str(message)


def versions(spark: Any, table: str) -> list[str]:
    """Return the table's operations, oldest first."""
    history = spark.sql(f"describe history {table}").collect()
    return [row["operation"] for row in reversed(history)]


def test_a_seed_holds_any_text_has_the_types_it_declares_and_may_be_empty(
    dbt: Any, spark: Any, schema: str, new_project: Project
) -> None:
    columns = {
        "a-b": "bigint",
        "amount": "decimal(18,2)",
        "day": "date",
        "at": "timestamp",
        "yes": "boolean",
        "code": "string",
        "nothing": "double",
    }
    project = new_project(
        {
            "seeds/texts.csv": seed([["id", "text"], *([str(i), t] for i, t in enumerate(NASTY))]),
            "seeds/texts.yml": types("texts", id="int", text="string"),
            "seeds/typed.csv": seed(
                [
                    list(columns),
                    # 2**53 + 1 and 16 digits before the point: no float holds them
                    [
                        "9007199254740993",
                        "1234567890123456.78",
                        "2024-02-29",
                        "2024-02-29T01:02:03.456789Z",
                        "true",
                        "007",
                        "",
                    ],
                    ["", "", "null", "", "", "", ""],
                ]
            ),
            "seeds/typed.yml": types("typed", **columns),
            "seeds/empty.csv": "id,day\n",
            "seeds/empty.yml": types("empty", id="int", day="date"),
        }
    )
    dbt("seed", project_dir=project, schema=schema)
    rows = spark.sql(f"select id, text from {schema}_reference.texts order by id").collect()
    assert [tuple(row) for row in rows] == list(enumerate(NASTY))

    table = spark.table(f"{schema}_reference.typed")
    assert dict(table.dtypes) == columns
    assert {tuple(row) for row in table.withColumn("at", table["at"].cast("string")).collect()} == {
        (
            9007199254740993,
            Decimal("1234567890123456.78"),
            date(2024, 2, 29),
            "2024-02-29 01:02:03.456789",
            True,
            "007",
            None,
        ),
        (None,) * 7,
    }

    table = spark.table(f"{schema}_reference.empty")
    assert (table.dtypes, table.count()) == ([("id", "int"), ("day", "date")], 0)


def test_a_seed_is_replaced_in_one_commit_and_only_when_it_changed(
    dbt: Any, spark: Any, schema: str, new_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{schema}_reference.s"
    project = new_project({"seeds/s.csv": "id\n1\n", "seeds/s.yml": types(id="int")})
    monkeypatch.setenv("HEADWATERS_SCHEMA", schema)

    def explained() -> list[str]:
        runs = next_runs.explain(DbtProject(project, ROOT / "profiles", "engine"), (), ())
        return [run.reason for run in runs]

    assert explained() == ["first load"]
    dbt("seed", project_dir=project, schema=schema)
    dbt("seed", project_dir=project, schema=schema)
    assert versions(spark, table) == ["CREATE OR REPLACE TABLE AS SELECT"]
    assert explained() == []

    # properties of ours that are no longer declared are removed; the rows stay
    spark.sql(f"alter table {table} set tblproperties ('headwaters.declared'='old', 'old'='x')")
    dbt("seed", project_dir=project, schema=schema)
    properties = dict(spark.sql(f"show tblproperties {table}").collect())
    assert "old" not in properties
    assert properties["headwaters.declared"] != "old"
    assert versions(spark, table).count("CREATE OR REPLACE TABLE AS SELECT") == 1

    (project / "seeds/s.csv").write_text("id,name\n2,it's\n")
    (project / "seeds/s.yml").write_text(types(id="bigint", name="string"))
    assert explained() == ["its file or settings changed since its last load"]
    dbt("seed", project_dir=project, schema=schema)
    assert versions(spark, table).count("CREATE OR REPLACE TABLE AS SELECT") == 2
    assert spark.table(table).dtypes == [("id", "bigint"), ("name", "string")]

    # a foreign write to the table: the file counts
    spark.sql(f"insert into {table} values (3, 'stray')")
    spark.sql(f"optimize {table}")
    dbt("seed", project_dir=project, schema=schema)
    assert [tuple(row) for row in spark.table(table).collect()] == [(2, "it's")]

    before = len(versions(spark, table))
    dbt("seed", "--full-refresh", project_dir=project, schema=schema)
    assert len(versions(spark, table)) == before + 1


def test_a_value_that_does_not_fit_leaves_the_table_as_it_was(
    dbt: Any, spark: Any, schema: str, new_project: Project
) -> None:
    project = new_project({"seeds/s.csv": "id\n1\n", "seeds/s.yml": types(id="int")})
    dbt("seed", project_dir=project, schema=schema)
    (project / "seeds/s.csv").write_text("id\n2\nmany\n")
    result = dbt("seed", project_dir=project, schema=schema, expect=False)
    assert "seed s has 'many' in the column id, which is no int" in message_of(result, "s")
    assert [tuple(row) for row in spark.table(f"{schema}_reference.s").collect()] == [(1,)]


def test_a_value_that_its_type_would_cut_is_refused(
    dbt: Any, spark: Any, schema: str, new_project: Project
) -> None:
    # each type, a value that it keeps, and one that it would round or cut
    columns = {
        "price": ("decimal(10, 2)", "0.50", "0.005"),
        "total": ("DECIMAL(5)", "12", "12.5"),
        "day": ("date", "2026-02-03", "2026-02-03 10:00:00"),
        "code": ("varchar(3)", "abc", "abcd"),
    }
    declared = types(**{name: given for name, (given, _, _) in columns.items()})
    kept = {name: value for name, (_, value, _) in columns.items()}
    project = new_project({"seeds/s.csv": "", "seeds/s.yml": declared})

    def load(row: dict[str, str], expect: bool) -> Any:
        (project / "seeds/s.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
        return dbt("seed", project_dir=project, schema=schema, expect=expect)

    load(kept, expect=True)
    for name, (given, _, value) in columns.items():
        result = load(kept | {name: value}, expect=False)
        said = f"the seed s has '{value}' in the column {name}, which is no {given}"
        assert f"[HW_SEED] [USER_RAISED_EXCEPTION] {said}" in message_of(result, "s")
        found = spark.table(f"{schema}_reference.s").collect()
        assert [tuple(map(str, row)) for row in found] == [tuple(kept.values())]


@pytest.mark.slow
def test_a_large_seed_is_loaded_in_batches(
    dbt: Any, spark: Any, schema: str, new_project: Project
) -> None:
    rows = [[str(i), f"it's {i}"] for i in range(25_001)]
    project = new_project(
        {
            "seeds/s.csv": seed([["id", "text"], *rows]),
            "seeds/s.yml": types(id="int", text="string"),
        }
    )
    dbt("seed", project_dir=project, schema=schema)
    table = f"{schema}_reference.s"
    found = spark.sql(
        f"select count(*), sum(id), count_if(text = concat('it\\'s ', id)) from {table}"
    ).first()
    assert tuple(found) == (25_001, sum(range(25_001)), 25_001)
    assert versions(spark, table) == ["CREATE OR REPLACE TABLE AS SELECT"]
    tables = spark.sql(f"show tables in {schema}_reference").collect()
    assert [row["tableName"] for row in tables] == ["s"]


@pytest.mark.filterwarnings("ignore:.*does not match the name of any column")
def test_a_type_for_a_column_that_is_not_there_is_named(
    dbt: Any, schema: str, new_project: Project
) -> None:
    project = new_project({"seeds/s.csv": "id\n1\n", "seeds/s.yml": types(ident="int")})
    result = dbt("seed", project_dir=project, schema=schema, expect=False)
    assert "a column that its file lacks: ident; the file has id" in message_of(result, "s")
