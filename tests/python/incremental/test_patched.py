"""Test that patching a table after a change of SQL equals a full refresh."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt_common.exceptions import DbtRuntimeError

SOURCES = """
sources:
  - name: inputs
    schema: "{{ var('inputs') }}"
    tables: [{name: orders}, {name: lines}]
"""
FOLLOWED = "{{ changes(source('inputs', 'orders')) }}"
ORDERS = "{{ source('inputs', 'orders') }}"
KEYED = "{{ affected(source('inputs', 'lines'), key='region') }}"
FEED = (
    "{{ config(materialized='incremental', incremental_strategy='change_feed',"
    " unique_key='id') }}\n"
)
BAG = "{{ config(materialized='incremental', incremental_strategy='change_feed') }}\n"
AUTO = "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
GROUPS = (
    "{{ config(materialized='incremental', incremental_strategy='affected_keys',"
    " unique_key='region') }}\n"
)
SUMS = (
    "{{ config(materialized='incremental', incremental_strategy='signed_sum',"
    " unique_key='region') }}\n"
)
LATEST = (
    "{{ config(materialized='incremental', incremental_strategy='change_feed', latest_by='id',"
    " unique_key='region') }}\n"
)
DAILY = (
    "{{ config(materialized='incremental', incremental_strategy='change_feed', unique_key='id',"
    " partition_by='day') }}\n"
)
SIGNED = "from {{ signed(source('inputs', 'orders')) }}"


REPLACED = ("CREATE OR REPLACE TABLE AS SELECT",)
# One commit that changes rows, between the run's note and the note of the new SQL.
DELETED = ("SET TBLPROPERTIES", "DELETE", "SET TBLPROPERTIES")
INSERTED = ("SET TBLPROPERTIES", "WRITE", "SET TBLPROPERTIES")
MERGED = ("SET TBLPROPERTIES", "MERGE", "SET TBLPROPERTIES")


@dataclass(frozen=True)
class Case:
    """A model's SQL before and after, and the action in the message of its run."""

    before: str
    after: str
    said: str
    commits: tuple[str, ...] = REPLACED


CASES = {
    "computed": Case(
        f"{FEED}select id, region, amount from {FOLLOWED}",
        f"{FEED}select id, cast(amount * 1.2 as decimal(12, 2)) as gross, region, amount\n"
        f"from {FOLLOWED}",
        "patch: added column gross from amount, 5 rows",
    ),
    "less": Case(
        f"{FEED}select id, region, amount from {FOLLOWED}",
        f"{FEED}select id, amount from {FOLLOWED} where region <> 'north'",
        "patch: removed column region; added condition region <> 'north', 2 rows",
    ),
    "narrowed": Case(
        f"{FEED}with f as (select id, region, amount from {FOLLOWED}) select * from f",
        f"{FEED}with f as (select id, region, amount from {FOLLOWED}) select * from f\n"
        "where amount > 15",
        "patch: added condition amount > 15, 0 inserted, 1 deleted",
        DELETED,
    ),
    "widened": Case(
        f"{FEED}select id, region, amount from {FOLLOWED} where amount > 15 and id < 9",
        f"{FEED}select id, region, amount from {FOLLOWED} where id < 9",
        "patch: removed condition amount > 15, 1 inserted, 0 deleted",
        INSERTED,
    ),
    "moved": Case(
        f"{BAG}select region, amount from {FOLLOWED} where amount > 15",
        f"{BAG}select region, amount from {FOLLOWED} where amount < 45",
        "patch: added condition amount < 45; removed condition amount > 15, 1 inserted, 1 deleted",
        MERGED,
    ),
    "both": Case(
        f"{AUTO}select region, amount from {ORDERS} where amount > 15",
        f"{AUTO}select amount, region, amount + 1 as more from {ORDERS}",
        "patch: added column more from amount; removed condition amount > 15, 5 rows",
    ),
    "grouped": Case(
        f"{GROUPS}select region, sum(val) as total, count(*) as n from {KEYED} group by region",
        f"{GROUPS}select region, sum(val) as total, count(*) as n, sum(val) / count(*) as mean\n"
        f"from {KEYED} where region is not null group by region having n > 1",
        "patch: added column mean from total, n; added conditions NOT region IS NULL and n > 1,"
        " 1 rows",
    ),
    "summed": Case(
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "where region <> 'south' group by region",
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "group by region",
        "patch: removed condition region <> 'south', 2 inserted, 0 deleted",
        INSERTED,
    ),
    "latest": Case(
        f"{LATEST}select id, region, amount from {FOLLOWED}",
        f"{LATEST}select id, region, amount, amount * 2 as twice from {FOLLOWED}",
        "patch: added column twice from amount, 3 rows",
    ),
    "partitioned": Case(
        f"{DAILY}select id, day, amount from {FOLLOWED}",
        f"{DAILY}select id, day, amount, amount > 15 as is_large from {FOLLOWED}\n"
        "where day > date'2026-01-01'",
        "patch: added column is_large from amount; added condition"
        " day > CAST('2026-01-01' AS DATE), 2 rows",
    ),
}
# Changes that no rule covers.
REBUILT = {
    "sums_more": Case(
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "group by region",
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total,\n"
        f"sum(amount * _weight * 2) as more {SIGNED} group by region",
        "column more is computed from sum(amount * _weight * 2)",
    ),
}


DECLARED = """
models:
  - name: NAME
    description: Orders.
    config:
      persist_docs: {relation: true, columns: true}
      contract: {enforced: true}
      on_schema_change: fail
    constraints: [{type: check, name: positive, expression: amount > 0}]
    columns:
      - {name: id, data_type: int, constraints: [&filled {type: not_null}]}
      - {name: gross, data_type: "decimal(12, 2)", description: With tax., constraints: [*filled]}
      - {name: region, data_type: string}
      - {name: amount, data_type: "decimal(10, 2)", description: Net.}
"""
# Rows of one SQL break the checks of the other.
CHECKED = """
models:
  - name: moved
    constraints: [{type: check, name: NAME, expression: CONDITION}]
"""
COMMENTS = {"id": None, "gross": "With tax.", "region": None, "amount": "Net."}


@pytest.fixture
def inputs(spark: Any, schema: str) -> str:
    """Create two inputs, with a change data feed."""
    name = f"{schema}_inputs"
    spark.sql(f"create schema {name}")
    spark.sql(
        f"create table {name}.orders (id int, region string, amount decimal(10, 2), day date)"
        " using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(
        f"create table {name}.lines (region string, val int)"
        " using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(
        f"insert into {name}.orders"
        " select id, element_at(array('north', 'south', null), cast(id % 3 + 1 as int)), id * 10,"
        " date_add(date'2025-12-31', cast(id % 4 as int)) from range(1, 6)"
    )
    spark.sql(
        f"insert into {name}.lines values ('north', 1), ('north', 2), ('south', 3), (null, 4),"
        " (null, 5)"
    )
    return name


@dataclass
class Project:
    """A project of models; a run stops before the statement that `stop` names."""

    spark: Any
    dbt: Callable[..., Any]
    folder: Path
    schema: str
    stop: Callable[[str], bool] | None = None

    def write(self, models: Mapping[str, str]) -> None:
        for name, sql in models.items():
            (self.folder / f"models/patched/{name}.sql").write_text(sql)

    def declare(self, name: str, without: str = "nothing") -> None:
        """Write the YAML of a model; `without` a column."""
        lines = [line for line in DECLARED.splitlines() if without not in line]
        text = "\n".join(lines).replace("NAME", name)
        (self.folder / "models/patched/declared.yml").write_text(text)

    def check_moved(self, name: str, condition: str) -> None:
        text = CHECKED.replace("NAME", name).replace("CONDITION", condition)
        (self.folder / "models/patched/checked.yml").write_text(text)

    def run(
        self, *select: str, refreshed: bool = False, expect: bool | None = True
    ) -> dict[str, str]:
        """Run dbt and return each model's message; a full refresh has a separate schema."""
        options = ["--select", *select] if select else []
        done = self.dbt(
            "run",
            *options,
            *(["--full-refresh"] if refreshed else []),
            "--vars",
            f"{{inputs: {self.schema}_inputs}}",
            project_dir=self.folder,
            schema=f"{self.schema}_refreshed" if refreshed else self.schema,
            expect=expect,
        )
        # the byte count of a table depends on Parquet
        return {
            found.node.name: re.sub(r" rows, [\d.]+ \w+(?=;)", " rows", str(found.message))
            for found in done.result.results
        }

    def table(self, name: str, refreshed: bool = False) -> tuple[Any, list[str]]:
        """Return names and types of the columns, and the rows."""
        found = self.spark.table(f"{self.schema}{'_refreshed' if refreshed else ''}.{name}")
        return found.dtypes, sorted(map(str, found.collect()))

    def operations(self, name: str, after: int) -> list[str]:
        """Return the commits of a table after a version, oldest first."""
        rows = self.spark.sql(f"describe history {self.schema}.{name}").collect()
        return [row["operation"] for row in reversed(rows) if row["version"] > after]

    def version(self, name: str) -> int:
        history = self.spark.sql(f"describe history {self.schema}.{name} limit 1")
        found: int = history.collect()[0]["version"]
        return found

    def comments(self, name: str) -> dict[str, str | None]:
        rows = self.spark.sql(f"describe {self.schema}.{name}").collect()
        return {row[0]: row[2] for row in rows}

    def checks(self, name: str) -> dict[str, str]:
        """Return the checks of a table by name."""
        prefix = "delta.constraints."
        return {
            property.removeprefix(prefix): value
            for property, value in self.properties(name).items()
            if property.startswith(prefix)
        }

    def properties(self, name: str) -> dict[str, str]:
        rows = self.spark.sql(f"show tblproperties {self.schema}.{name}").collect()
        return {row[0]: row[1] for row in rows}


@pytest.fixture
def made(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """Return a project without models."""
    found = Project(spark, dbt, new_project({"models/patched/sources.yml": SOURCES}), schema)
    execute = SparkConnectionManager.execute

    def noted(manager: Any, sql: str, *arguments: Any, **more: Any) -> Any:
        if found.stop is not None and found.stop(sql):
            raise DbtRuntimeError("stopped by the test")
        return execute(manager, sql, *arguments, **more)

    monkeypatch.setattr(SparkConnectionManager, "execute", noted)
    return found


CHANGES = [
    "insert into {0}.orders values (6, 'south', 60, date'2026-01-02'), (7, null, 5, null)",
    "update {0}.orders set amount = amount + 1 where id = 2",
    "delete from {0}.orders where id = 3",
    "insert into {0}.lines values ('south', 7)",
]


@pytest.mark.slow
def test_the_table_is_what_a_full_refresh_leaves(made: Project, spark: Any, inputs: str) -> None:
    cases = CASES | REBUILT
    made.write({name: case.before for name, case in cases.items()})
    made.run()
    versions = {name: made.version(name) for name in CASES}
    made.write({name: case.after for name, case in cases.items()})
    said = made.run()
    for name, case in CASES.items():
        assert said[name] == f"{case.said}; then no changes", name
        assert tuple(made.operations(name, versions[name])) == case.commits, name
    for name, case in REBUILT.items():
        assert said[name].endswith(f", changed SQL: {case.said}")
    made.run(refreshed=True)
    for name in cases:
        assert made.table(name) == made.table(name, refreshed=True), name
    for change in CHANGES:
        spark.sql(change.format(inputs))
    said = made.run()
    for name in CASES:
        assert not said[name].startswith(("replace", "patch")), said[name]
    made.run(refreshed=True)
    for name in cases:
        assert made.table(name) == made.table(name, refreshed=True), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [["computed", "moved"], pytest.param(list(CASES), marks=pytest.mark.slow)]
)
def test_the_run_goes_on_from_the_applied_versions(
    made: Project, spark: Any, inputs: str, names: list[str]
) -> None:
    made.declare("computed", without="gross")
    made.check_moved("large", "amount > 15")
    made.write({name: CASES[name].before for name in names})
    made.run()
    checked = {"positive": "amount > 0", "id_not_null": "`id` is not null"}
    assert (made.checks("computed"), made.checks("moved")) == (checked, {"large": "amount > 15"})
    for change in CHANGES:
        spark.sql(change.format(inputs))
    made.declare("computed")
    made.check_moved("small", "amount < 45")
    made.write({name: CASES[name].after for name in names})
    said = made.run()
    assert said["computed"].startswith(
        "patch: added column gross from amount, 5 rows; then merge: "
    )
    assert said["moved"].startswith(CASES["moved"].said)
    assert made.comments("computed") == COMMENTS
    checked["gross_not_null"] = "`gross` is not null"
    assert (made.checks("computed"), made.checks("moved")) == (checked, {"small": "amount < 45"})
    made.run(refreshed=True)
    for name in names:
        assert made.table(name) == made.table(name, refreshed=True), name
    before = made.table("computed")
    spark.sql(f"insert into {inputs}.orders values (null, 'south', 60, null)")
    assert (
        "[HW_CONSTRAINT] models/patched/computed.sql: a row breaks the constraint id_not_null"
        in made.run("computed", expect=False)["computed"]
    )
    assert made.table("computed") == before


BEFORE = {
    "note": lambda sql: "'headwaters.pending' = '{" in sql,
    "rows": lambda sql: sql.strip().startswith(("delete from", "insert into", "merge into")),
    "new SQL": lambda sql: "'headwaters.pending' = 'null'" in sql,
    "replacement": lambda sql: sql.strip().startswith("create or replace table"),
}


IN_PLACE = ["narrowed", "widened", "moved"]


@pytest.mark.parametrize(
    ("point", "names"),
    [
        ("rows", ["moved"]),
        pytest.param("replacement", ["computed"], marks=pytest.mark.slow),
        *(pytest.param(at, IN_PLACE, marks=pytest.mark.slow) for at in ("note", "rows", "new SQL")),
    ],
)
def test_a_run_that_was_stopped_is_continued(
    made: Project, spark: Any, inputs: str, point: str, names: list[str]
) -> None:
    made.write({name: CASES[name].before for name in names})
    made.run()
    made.write({name: CASES[name].after for name in names})
    made.stop = BEFORE[point]
    assert all("stopped by the test" in found for found in made.run(expect=False).values())
    made.stop = None
    said = made.run()
    for name in names:
        begin = "patch: applied by the run before" if point == "new SQL" else CASES[name].said
        assert said[name].startswith(begin), said[name]
    made.run(refreshed=True)
    for name in names:
        assert made.table(name) == made.table(name, refreshed=True), name
        assert made.properties(name).get("headwaters.pending", "null") == "null"
    assert set(made.run().values()) == {"no changes"}


@pytest.mark.slow
def test_a_patch_that_was_stopped_is_no_longer_wanted(
    made: Project, spark: Any, inputs: str
) -> None:
    made.write({name: CASES[name].before for name in IN_PLACE})
    made.run()
    made.write({name: CASES[name].after for name in IN_PLACE})
    made.stop = BEFORE["new SQL"]
    made.run(expect=False)
    made.stop = None
    made.write({name: CASES[name].before for name in IN_PLACE})
    assert all(found.startswith("replace: ") for found in made.run().values())
    made.run(refreshed=True)
    for name in IN_PLACE:
        assert made.table(name) == made.table(name, refreshed=True), name


@pytest.mark.slow
def test_what_follows_reads_a_patch_as_any_change(made: Project, spark: Any, inputs: str) -> None:
    follows = (
        f"{FEED}select id, amount from {{{{ changes(ref('narrowed')) }}}}",
        f"{FEED}select id, amount from {{{{ changes(ref('widened')) }}}}",
    )
    made.write({name: CASES[name].before for name in ("narrowed", "widened")})
    made.write({"of_narrowed": follows[0], "of_widened": follows[1]})
    spark.sql(
        f"insert into {inputs}.orders select id, 'far', id, date'2026-01-01' from range(100, 300)"
    )
    made.run()
    made.write({name: CASES[name].after for name in ("narrowed", "widened")})
    said = made.run()
    assert said["of_narrowed"].startswith("merge: 0 inserted, 0 updated, 1 deleted, ")
    assert said["of_widened"].startswith("append: 1 inserted, 0 updated, 0 deleted, ")
    made.run(refreshed=True)
    for name in ("of_narrowed", "of_widened"):
        assert made.table(name) == made.table(name, refreshed=True), name


@pytest.mark.slow
def test_columns_keep_what_is_declared_of_them(
    made: Project, spark: Any, inputs: str, schema: str
) -> None:
    made.declare("declared", without="gross")
    made.write({"declared": CASES["computed"].before})
    made.run()
    made.declare("declared")
    made.write({"declared": CASES["computed"].after})
    said = made.run()
    assert said["declared"].startswith(CASES["computed"].said)
    assert made.comments("declared") == COMMENTS
    checked = {
        "positive": "amount > 0",
        "id_not_null": "`id` is not null",
        "gross_not_null": "`gross` is not null",
    }
    assert made.checks("declared") == checked
    made.write({"declared": f"{CASES['computed'].after} where day is not null"})
    assert made.run()["declared"].startswith("replace")
    assert made.checks("declared") == checked
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT"):
        spark.sql(f"update {schema}.declared set amount = -1")
    before = made.version("declared")
    spark.sql(f"insert into {inputs}.orders values (8, 'south', -1, date'2026-01-02')")
    made.write({"declared": CASES["computed"].after})
    assert "DELTA_VIOLATE_CONSTRAINT" in made.run(expect=False)["declared"]
    assert made.version("declared") == before


@pytest.mark.slow
def test_a_condition_that_is_required_elsewhere_changes_nothing(
    made: Project, spark: Any, inputs: str
) -> None:
    begin = AUTO.replace("'auto'", "'auto', unique_key='id'") + "with o as (select * from " + ORDERS
    made.write({"required": f"{begin} where amount > 15) select id, region from o"})
    made.run()
    before = made.table("required"), made.version("required")
    made.write({"required": f"{begin}) select id, region from o where amount > 15 and 1 = 1"})
    assert made.run() == {"required": "no changes"}
    assert (made.table("required"), made.version("required")) == before
    spark.sql(f"insert into {inputs}.orders values (6, 'south', 60, null), (7, 'south', 5, null)")
    assert made.run()["required"].startswith("append: 1 inserted")
    made.run(refreshed=True)
    assert made.table("required") == made.table("required", refreshed=True)


def test_keys_that_would_repeat_are_refused(made: Project, spark: Any, inputs: str) -> None:
    sql = (
        "{{ config(materialized='incremental', incremental_strategy='change_feed',"
        " unique_key='region') }}\nselect region, amount from " + FOLLOWED
    )
    made.write({"repeated": f"{sql} where amount < 30"})
    made.run()
    before = made.table("repeated")
    made.write({"repeated": sql})
    assert "HW_REPEATED_KEYS" in made.run(expect=False)["repeated"]
    assert made.table("repeated") == before
    made.write({"repeated": f"{sql} where amount < 30"})
    assert made.run() == {"repeated": "no changes"}
