"""Test that tables match their declaration: checked by the parser, planned, applied, undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headwaters.platform.delta_version import TABLE_PROPERTIES
from headwaters.platform.json_lines import lines
from tables.conftest import FILES, PROJECT, Orders

ROOT = Path(__file__).resolve().parents[3]

CONFIG = "{{ config(tblproperties={'a': 'sql', 'b': 'sql'}, incremental_strategy='append') }}"
MODEL = f"{CONFIG} select 1 as id"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a project of one model, parsed once: tests change its YAML, which dbt parses alone."""
    made = tmp_path_factory.mktemp("project")
    (made / "project_macros").symlink_to(ROOT / "project_macros")
    (made / "dbt_project.yml").write_text(
        PROJECT.replace("gold: {+schema: gold}", "gold: {+schema: gold, +tblproperties: {team: a}}")
    )
    (made / "models/gold").mkdir(parents=True)
    (made / "models/gold/some.sql").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))  # where dbt finds its plugins
        yield made


def parsed(folder: Path, yaml: str) -> Any:
    """Return the messages of `dbt parse` on the project with this YAML; needs no Spark."""
    from dbt.cli.main import dbtRunner

    (folder / "models/gold/some.yml").write_text(yaml)
    return dbtRunner().invoke(
        [
            *("--quiet", "parse", "--project-dir", str(folder)),
            *("--profiles-dir", str(ROOT / "profiles")),
            *("--target-path", str(folder / "target"), "--log-path", str(folder / "logs")),
        ]
    )


def declared(properties: str, *more: str) -> str:
    """Return a model whose YAML declares these properties."""
    config = ", ".join([f"tblproperties: {{{properties}}}", *more])
    return f"models: [{{name: some, config: {{{config}}}}}]"


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        (
            declared("delta.loRgetentionDuratio: 1 day"),
            "models/gold/some.sql: some: tblproperties: there is no property "
            "'delta.loRgetentionDuratio', did you mean 'delta.logRetentionDuration'?",
        ),
        (declared("delta.xyz: 1"), "there is no property 'delta.xyz'. docs.delta.io"),
        (declared("delta.appendOnly: maybe"), "is 'maybe', it must be true or false"),
        (declared("delta.logRetentionDuration: 1 month"), "must be a length of time such as"),
        (declared("delta.checkpointInterval: ten"), "must be a whole number"),
        (declared("delta.columnMapping.mode: nme"), "must be one of none, name, id"),
        (declared("delta.columnMapping.mode: name"), "pyarrow reads NULLs, without an error"),
        (declared("delta.enableTypeWidening: true"), "vanishes in Trino"),
        (declared("delta.enableTypeWidening: 'TRUE'"), "vanishes in Trino"),
        (declared("delta.checkpointPolicy: V2"), "Polars cannot read"),
        (declared("delta.feature.v2Checkpoint: supported"), "allow_protocol_upgrade"),
        (declared("delta.rowTrackingSuspended: true"), "is set by Delta itself"),
        (declared("headwaters.inputs: x"), "is not for people to set"),
        (declared("delta.constraints.a: id > 0"), "constraint of type check"),
        (declared("a: b", "meta: {property_set: interopp}"), "there is interop"),
        (declared("", "maintenance: {compact_abov: 3}"), "did you mean 'compact_above'?"),
        (declared("", "maintenance: {small_file: big}"), "it must be a size such as 16 MB"),
        (
            declared(
                "", "materialized: table", "meta: {expectations: [{name: a, expression: id > 0}]}"
            ),
            "and of no others: this one is materialized: table",
        ),
    ],
)
def test_a_wrong_property_is_refused_while_the_project_is_parsed(
    folder: Path, yaml: str, words: str
) -> None:
    assert words in str(parsed(folder, yaml).exception)


def test_properties_of_layer_and_model_add_up(folder: Path) -> None:
    result = parsed(
        folder,
        declared(
            "a: yaml, delta.enableDeletionVectors: null, delta.enableTypeWidening: true",
            "meta: {allow_protocol_upgrade: true}",
        ),
    )
    model = result.result.nodes["model.headwaters.some"]
    assert model.config["tblproperties"] == {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": None,
        "delta.enableTypeWidening": True,
        "team": "a",
        "a": "sql",
        "b": "sql",
    }


def test_delta_knows_every_property_that_we_know(spark: Any, schema: str) -> None:
    values = {"boolean": "false", "interval": "interval 2 days", "integer": "3", "columns": "id"}
    special = {"delta.minWriterVersion": "7", "delta.universalFormat.enabledFormats": ""}
    given = {
        name: special.get(name, kind[0] if isinstance(kind, tuple) else values.get(kind, kind))
        for name, kind in TABLE_PROPERTIES.items()
        if kind != "server"
    }
    assert len(given) > 35
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    spark.sql(f"create schema {schema}")
    spark.sql(f"create table {schema}.all_of_them (id int) using delta tblproperties ({listed})")


@pytest.mark.slow
def test_drift_is_planned_mended_by_a_run_and_undone(orders: Orders) -> None:
    nothing = orders.operation("plan_tables", select="silver gold")
    assert nothing == "plan: 0 changes in 0 tables, 2 as declared"

    # changes by hand, and those that only look like changes
    orders.sql(
        "alter table {silver} set tblproperties ('delta.enableDeletionVectors' = 'false',"
        " 'delta.enableChangeDataFeed' = 'TRUE', 'theirs' = 'stays')"
    )
    orders.sql("alter table {silver} cluster by (customer)")
    before = orders.versions()
    assert orders.operation("plan_tables") == "\n".join(
        [
            "silver.silver_orders",
            "  ~ delta.enableDeletionVectors: false -> true",
            "  ~ clustered by: customer -> day",
            "plan: 2 changes in 1 tables, 2 as declared",
        ]
    )
    assert orders.versions() == before

    # a run with nothing to do repairs it all the same, and the next one finds nothing
    orders.dbt("run")
    assert orders.version(orders.silver) == before[orders.silver] + 2
    orders.dbt("run")
    assert orders.version(orders.silver) == before[orders.silver] + 2
    assert orders.operation("plan_tables", select="silver") == nothing.replace("2 as", "1 as")

    # a new declaration: added, changed, removed; applied, recorded, undone
    path, described = (
        "models/silver/silver_orders.yml",
        """
models:
  - name: silver_orders
    description: One row per order; it's ours.
    constraints: [{type: check, name: sold, expression: "amount > 0 and customer <> 'NOBODY'"}]
    columns:
      - {name: id, description: "the order's key"}
      - {name: day}
      - {name: amount, description: in euros}
    config:
      persist_docs: {relation: true, columns: true}
      tblproperties:
        delta.logRetentionDuration: interval 720 hours
        delta.enableDeletionVectors: null
        note: "it's; ${x} `y`"
""",
    )
    orders.write(path, described)
    orders.sql("alter table {silver} cluster by (customer, day)")
    before = orders.versions()
    dry = orders.operation("apply_tables", select="silver")
    assert dry.endswith("dry run, nothing was changed; dry_run: false and a reason do it")
    assert orders.versions() == before
    printed = orders.operation("apply_tables", select="silver", reason="it's; time", dry_run=False)
    assert printed.splitlines()[:10] == [
        "silver.silver_orders",
        "  + delta.logRetentionDuration: interval 720 hours",
        "  + note: it's; ${x} `y`",
        "  - delta.enableDeletionVectors: true",
        "  + constraint sold: amount > 0 and customer <> 'NOBODY'",
        "  ~ clustered by: customer, day -> day",
        "  + comment: One row per order; it's ours.",
        "  + comment of id: the order's key",
        "  + comment of amount: in euros",
        "plan: 8 changes in 1 tables, 0 as declared",
    ]
    assert orders.operation("plan_tables", select="silver") == nothing.replace("2 as", "1 as")
    orders.write(path, described.replace("NOBODY", "nobody"))
    assert "~ constraint sold: " in orders.operation("plan_tables", select="silver")
    orders.write(path, described)
    assert orders.sql(
        "select state, operation, user is not null, reason, version_before, version_after"
        " from {ops} order by state desc"
    ) == [
        ("started", "apply_tables", True, "it's; time", before[orders.silver], None),
        (
            "done",
            "apply_tables",
            True,
            "it's; time",
            before[orders.silver],
            orders.version(orders.silver),
        ),
    ]
    signed = orders.spark.sql(f"describe history {orders.silver} limit 1").collect()[0]
    assert '"reason": "it\'s; time"' in signed["userMetadata"].replace("\\u003b", ";")
    orders.undo(printed)
    assert "plan: 8 changes in 1 tables" in orders.operation("plan_tables", select="silver")
    # the statements of an ordinary run do not show the columns
    orders.dbt("run")
    assert "plan: 2 changes in 1 tables" in orders.operation("plan_tables", select="silver")
    orders.operation("apply_tables", select="silver", reason="comments", dry_run=False)
    assert orders.operation("plan_tables", select="silver") == nothing.replace("2 as", "1 as")


def test_a_table_for_other_engines_gets_no_deletion_vector_and_a_checkpoint(orders: Orders) -> None:
    """Trino ignores those of a checkpoint once the property is false."""
    orders.sql("delete from {bronze} where customer = 'ann'")
    orders.dbt("run")
    assert orders.sql("select count(*) from {silver} where customer = 'ann'") == [(0,)]
    orders.write(
        "models/silver/silver_orders.yml",
        "models: [{name: silver_orders, config: {meta: {property_set: interop}}}]",
    )
    orders.sql("alter table {silver} set tblproperties ('delta.checkpointInterval' = '7')")
    orders.dbt("run")
    commits = orders.spark.sql(f"describe history {orders.silver}").collect()
    done = [(row["operation"], row["operationParameters"].get("properties")) for row in commits]
    at = done.index(("REORG", None))
    assert done[at - 2 : at + 1] == [
        ("SET TBLPROPERTIES", '{"delta.checkpointInterval":"7"}'),
        ("SET TBLPROPERTIES", '{"delta.checkpointInterval":"1"}'),
        ("REORG", None),
    ]
    assert any('"delta.enableDeletionVectors":"false"' in str(one) for one in done[:at])

    folder = orders.spark.sql(f"describe detail {orders.silver}").collect()[0]["location"]
    log = Path(folder.removeprefix("file:")) / "_delta_log"
    newest = json.loads((log / "_last_checkpoint").read_text())["version"]
    assert newest >= commits[at]["version"]
    [checkpoint] = log.glob(f"{newest:020}.checkpoint*.parquet")
    assert vectors(pq.read_table(checkpoint).to_pylist()) == []
    later = [file for file in log.glob("*.json") if int(file.stem) > newest]
    assert vectors(action for file in later for action in actions(file)) == []
    assert orders.sql("select * from {silver} where customer = 'ann'") == []


def actions(file: Path) -> list[Any]:
    return [json.loads(line) for line in lines(file)]


def vectors(actions: Iterable[Any]) -> list[Any]:
    """Return the added files that have a deletion vector."""
    added = (action["add"] for action in actions if action.get("add"))
    return [add["path"] for add in added if add.get("deletionVector")]


@pytest.mark.slow
def test_another_partitioning_is_one_commit_that_can_be_undone(orders: Orders) -> None:
    rows = orders.sql("select * from {gold} order by customer")
    before = orders.version(orders.gold)
    path = "models/gold/customer_totals.sql"
    text = (orders.folder / path).read_text()
    orders.write(path, text.replace(") }}\n", ", partition_by='customer') }}\n", 1))
    assert orders.operation("plan_tables", select="customer_totals").splitlines()[1] == (
        "  + partitioned by: customer (rewrites the table)"
    )
    left = orders.operation("apply_tables", select="customer_totals", reason="x", dry_run=False)
    assert left.endswith("(rewrite: true does it): gold.customer_totals")
    assert "say why" in orders.operation(
        "apply_tables", expect=False, select="customer_totals", rewrite=True, dry_run=False
    )
    assert orders.version(orders.gold) == before

    printed = orders.operation(
        "apply_tables",
        select="customer_totals",
        rewrite=True,
        reason="by customer",
        dry_run=False,
    )
    assert partitions(orders) == ["customer"]
    assert orders.sql("select * from {gold} order by customer") == rows
    assert orders.sql(f"select * from {{gold}} version as of {before} order by customer") == rows
    # the SQL has changed: an empty text in a partition column is the null that Delta keeps
    said = orders.answers(orders.dbt("run"))["customer_totals"]
    assert said.startswith("replace: 3 rows, ")
    assert said.endswith("the SQL and settings of the model are not what built the table")
    assert orders.answers(orders.dbt("run"))["customer_totals"] == "no changes"
    orders.undo(printed)
    assert partitions(orders) == []
    assert orders.sql("select * from {gold} order by customer") == rows

    # a run sees it too, and builds the table by the model
    said = orders.answers(orders.dbt("run"))["customer_totals"]
    assert said.startswith("replace: 3 rows, ")
    assert said.endswith("the table is not partitioned as the model says")
    assert partitions(orders) == ["customer"]

    # changes that Delta cannot make are refused at the start
    path = "models/silver/silver_orders.sql"
    text = (orders.folder / path).read_text()
    orders.write(path, text.replace("cluster_by=", "partition_by="))
    before = orders.version(orders.silver)
    said = orders.operation(
        "apply_tables", expect=False, select="silver_orders", rewrite=True, reason="by day"
    )
    assert "is clustered, and Delta does not partition a clustered table" in said
    assert orders.version(orders.silver) == before


@pytest.mark.slow
def test_a_rewritten_table_refuses_what_it_refused_before(unbuilt: Orders) -> None:
    orders = unbuilt
    orders.sql("drop table {bronze}")
    orders.sql(
        "create table {bronze} (id int not null comment 'its number', customer string, day date,"
        " amount int) using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    orders.sql("alter table {bronze} add constraint by_hand check (amount > 0)")
    orders.sql("insert into {bronze} values (1, 'ann', date'2026-01-01', 10)")
    text = FILES["models/bronze/orders.yml"]
    by_day = "{name: orders, config: {meta: {partition_by: [day]}}}"
    orders.write("models/bronze/orders.yml", text.replace("{name: orders}", by_day))
    before = orders.version(orders.bronze)
    orders.operation(
        "apply_tables", select="bronze.orders", rewrite=True, reason="by day", dry_run=False
    )
    commits = orders.sql(f"describe history {orders.bronze}")
    operations = [row[4] for row in commits if row[0] > before]
    assert operations == ["CREATE OR REPLACE TABLE AS SELECT"]
    for row in ("null, 'ann', date'2026-01-01', 10", "2, 'ann', date'2026-01-01', 0"):
        with pytest.raises(Exception, match="CHECK constraint"):
            orders.sql(f"insert into {{bronze}} values ({row})")
    assert ("id", "int", "its number") in orders.sql("describe table {bronze}")


def partitions(orders: Orders) -> list[str]:
    found: list[str] = orders.spark.sql(f"describe detail {orders.gold}").collect()[0][
        "partitionColumns"
    ]
    return found


def test_retention_shorter_than_a_reader_s_interval_names_both(unbuilt: Orders) -> None:
    unbuilt.write(
        "models/silver/silver_orders.yml",
        declared("delta.deletedFileRetentionDuration: interval 0 hours").replace(
            "some", "silver_orders"
        ),
    )
    unbuilt.write(
        "models/gold/customer_totals.yml",
        "models: [{name: customer_totals, config: {meta: {runs_every: 3 days}}}]",
    )
    said = unbuilt.operation("plan_tables", expect=False)
    assert "gold.customer_totals runs every 3 days" in said
    assert "silver.silver_orders, which keeps them for interval 0 hours only" in said
    unbuilt.dbt("run", expect=False)
    assert unbuilt.sql("show tables in {schema}_silver") == []


def test_an_unknown_table_is_refused(unbuilt: Orders) -> None:
    for name in ("silver_order", "a'b; drop table x", "`"):
        assert "there is no table" in unbuilt.operation("plan_tables", expect=False, select=[name])
