"""Test which changes of a table leave its change feed correct, compared with its snapshots."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headwaters.runs.work import lost_feed
from headwaters.tables import commits as rules

Rows = Counter[str]

FEED = "'delta.enableChangeDataFeed' = 'true'"
MAPPED = f"{FEED}, 'delta.columnMapping.mode' = 'name'"
WIDENING = f"{FEED}, 'delta.enableTypeWidening' = 'true'"
VECTORS = f"{FEED}, 'delta.enableDeletionVectors' = 'true'"
ROWS = "(1, 'a', 10), (2, 'b', 20), (3, null, 30)"
UPDATE, DELETE = "update {it} set val = val + 1 where id = 1", "delete from {it} where id = 2"
PARTITIONED = "was partitioned by other columns, or mapped otherwise"
EITHER = ""


def made(
    layout: str = "", properties: str = FEED, val: str = "int", grp: str = "string", more: str = ""
) -> list[str]:
    """Create a table of two versions."""
    columns = f"(id int, grp {grp}, val {val}{more})"
    return [
        f"create table {{it}} {columns} using delta {layout} tblproperties ({properties})",
        f"insert into {{it}} (id, grp, val) select /*+ coalesce(1) */ * from values {ROWS}",
    ]


def again(layout: str = "", rows: str = "*", properties: str = FEED) -> str:
    """Replace the table by its own rows."""
    return (
        f"create or replace table {{it}} using delta {layout} tblproperties ({properties})"
        f" as select {rows} from {{it}}"
    )


def having(properties: str) -> str:
    return f"alter table {{it}} set tblproperties ({properties})"


@dataclass(frozen=True)
class Frame:
    """An overwrite by a DataFrame, to its path, under another schema."""

    partitions: tuple[str, ...] = ()

    def write(self, spark: Any, table: str) -> None:
        """Write the table's own rows over it."""
        path = spark.sql(f"describe detail {table}").first()["location"]
        frame = spark.createDataFrame(spark.table(table).collect(), spark.table(table).schema)
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.partitionBy(*self.partitions).save(path)


@dataclass(frozen=True)
class Case:
    """A table, its change, and words of the gap; None if the feed is correct.

    EITHER accepts both. If the feed can be read, it has to be exact.
    """

    happens: list[str | Frame]
    gap: str | None = None
    made: list[str] = field(default_factory=made)


GRP, VAL = "partitioned by (grp)", "partitioned by (val)"
CASES: dict[str, Case] = {
    "partitioned": Case([UPDATE, again(GRP), UPDATE, DELETE], PARTITIONED),
    "no longer partitioned": Case([UPDATE, again(), DELETE], PARTITIONED, made(GRP)),
    "by another column": Case([again(VAL), UPDATE], PARTITIONED, made(GRP)),
    "by one more": Case([again("partitioned by (grp, val)"), UPDATE], PARTITIONED, made(GRP)),
    "by one less": Case([again(GRP), UPDATE], PARTITIONED, made("partitioned by (grp, val)")),
    "in another order": Case(
        [again("partitioned by (val, grp)")], PARTITIONED, made("partitioned by (grp, val)")
    ),
    "by the same": Case([UPDATE, again("partitioned by (GRP)"), DELETE], None, made(GRP)),
    "by another name": Case(
        [again("partitioned by (g)", "id, grp as g, val")], PARTITIONED, made(GRP)
    ),
    "by another type": Case(
        [again(GRP, "id, cast(id as int) as grp, val")],
        "replaced by a table of other columns",
        made(GRP),
    ),
    "by a DataFrame": Case([Frame(("grp",)), UPDATE], PARTITIONED),
    "by a DataFrame, of other": Case([Frame(("val",)), UPDATE], PARTITIONED, made(GRP)),
    "no longer, by a DataFrame": Case([Frame(), UPDATE], PARTITIONED, made(GRP)),
    "by a DataFrame, the same": Case([Frame(("grp",)), UPDATE], None, made(GRP)),
    "restored before it was": Case(
        [again(GRP), "restore table {it} to version as of 1", UPDATE], PARTITIONED
    ),
    "restored before it was not": Case(
        [again(), "restore table {it} to version as of 1", UPDATE], PARTITIONED, made(GRP)
    ),
    "restored": Case([UPDATE, "restore table {it} to version as of 1", DELETE], None, made(GRP)),
    "overwritten": Case(
        [
            "insert overwrite {it} values (1, 'a', 1), (9, 'q', 9)",
            "insert overwrite {it} partition (grp = 'a') select 1, 99",
            "set spark.sql.sources.partitionOverwriteMode = dynamic",
            "insert overwrite {it} values (5, 'a', 55)",
            "reset spark.sql.sources.partitionOverwriteMode",
            "insert into {it} replace where grp = 'a' values (4, 'a', 44)",
            "truncate table {it}",
            f"insert into {{it}} values {ROWS}",
        ],
        None,
        made(GRP),
    ),
    "clustered": Case(
        [
            "alter table {it} cluster by (id)",
            "optimize {it}",
            UPDATE,
            again("cluster by (grp)"),
            UPDATE,
            "optimize {it} full",
            again(),
            "alter table {it} cluster by (val)",
            "alter table {it} cluster by none",
            DELETE,
            "alter table {it} drop feature clustering",
        ],
        None,
        made("cluster by (grp)"),
    ),
    "partitions clustered": Case([again("cluster by (grp)"), UPDATE], PARTITIONED, made(GRP)),
    "clusters partitioned": Case([again(GRP), UPDATE], PARTITIONED, made("cluster by (grp)")),
    "cloned": Case(
        [
            "create table {it}_other using delta partitioned by (grp) as select * from {it}",
            "create or replace table {it} shallow clone {it}_other tblproperties (" + FEED + ")",
            UPDATE,
        ],
        PARTITIONED,
    ),
    # the rest keeps the partition columns
    "mapped": Case([UPDATE, having("'delta.columnMapping.mode' = 'name'"), UPDATE, DELETE], EITHER),
    "mapped partitions": Case(
        [UPDATE, having("'delta.columnMapping.mode' = 'name'"), DELETE], EITHER, made(GRP)
    ),
    "no longer mapped": Case(
        [UPDATE, having("'delta.columnMapping.mode' = 'none'"), DELETE],
        EITHER,
        made(properties=MAPPED),
    ),
    "mapped again": Case(
        [UPDATE, again(properties=MAPPED), DELETE], EITHER, made(properties=MAPPED)
    ),
    "mapped by unmapped": Case([UPDATE, again(), DELETE], EITHER, made(properties=MAPPED)),
    "renamed": Case(
        [UPDATE, "alter table {it} rename column val to x", DELETE], EITHER, made(properties=MAPPED)
    ),
    "renamed and back": Case(
        [
            UPDATE,
            "alter table {it} rename column val to x",
            "alter table {it} rename column x to val",
            DELETE,
        ],
        EITHER,
        made(properties=MAPPED),
    ),
    "dropped and added": Case(
        [UPDATE, "alter table {it} drop column val", "alter table {it} add column val int", DELETE],
        EITHER,
        made(properties=MAPPED),
    ),
    "columns": Case(
        [
            UPDATE,
            "alter table {it} add column w int",
            UPDATE,
            "alter table {it} add column v int first",
            UPDATE,
            "alter table {it} alter column v after w",
            DELETE,
            "alter table {it} replace columns (id int, grp string, val int, w int, v int, y int)",
            UPDATE,
        ],
        EITHER,
    ),
    "widened": Case(
        [
            UPDATE,
            "alter table {it} alter column val type bigint",
            UPDATE,
            DELETE,
            "alter table {it} drop feature typeWidening",
            UPDATE,
        ],
        EITHER,
        made(properties=WIDENING),
    ),
    "widened partitions": Case(
        [UPDATE, "alter table {it} alter column val type bigint", UPDATE, DELETE],
        EITHER,
        made(VAL, properties=WIDENING),
    ),
    "widened decimal": Case(
        [UPDATE, "alter table {it} alter column val type decimal(12, 3)", UPDATE, DELETE],
        EITHER,
        made(properties=WIDENING, val="decimal(6, 1)"),
    ),
    "evolved": Case(
        [
            "set spark.databricks.delta.schema.autoMerge.enabled = true",
            "insert into {it} select 9 as id, 'z' as grp, 5000000000L as val, 1 as w",
            "reset spark.databricks.delta.schema.autoMerge.enabled",
            UPDATE,
            DELETE,
        ],
        EITHER,
        made(properties=WIDENING),
    ),
    "columns' properties": Case(
        [
            having("'delta.feature.allowColumnDefaults' = 'supported'"),
            "alter table {it} alter column val set default 7",
            "insert into {it} (id, grp) values (6, 'f')",
            UPDATE,
            "alter table {it} alter column val drop default",
            "alter table {it} alter column val comment 'x'",
            "comment on table {it} is 'y'",
            UPDATE,
            "alter table {it} alter column id set not null",
            UPDATE,
            "alter table {it} alter column id drop not null",
            DELETE,
            "alter table {it} add constraint positive check (val > 0)",
            UPDATE,
            "alter table {it} drop constraint positive",
            DELETE,
            "alter table {it} drop feature allowColumnDefaults",
            "analyze table {it} compute delta statistics",
            "vacuum {it}",
            UPDATE,
        ]
    ),
    "lengths": Case(
        [
            UPDATE,
            "alter table {it} alter column grp type varchar(9)",
            UPDATE,
            "alter table {it} alter column grp type string",
            DELETE,
        ],
        EITHER,
        made(grp="varchar(5)"),
    ),
    "identity": Case(
        [
            UPDATE,
            "alter table {it} alter column sk sync identity",
            "insert into {it} (id, grp, val) values (5, 'a', 1)",
            DELETE,
            again(),
            UPDATE,
        ],
        None,
        made(more=", sk bigint generated always as identity, g int generated always as (id + 1)"),
    ),
    "vectors": Case(
        [
            having("'delta.enableDeletionVectors' = 'false'"),
            UPDATE,
            having("'delta.enableDeletionVectors' = 'true'"),
            UPDATE,
            DELETE,
            "reorg table {it} apply (purge)",
            UPDATE,
            having("'delta.enableDeletionVectors' = 'false'"),
            "delete from {it} where id = 3",
            "optimize {it} zorder by (id)",
        ],
        None,
        made(properties=VECTORS),
    ),
    "vectors dropped": Case(
        [UPDATE, DELETE, "alter table {it} drop feature deletionVectors", UPDATE],
        "dropped its deletion vectors",
        made(properties=VECTORS),
    ),
    "rows tracked": Case(
        [
            UPDATE,
            having("'delta.enableRowTracking' = 'true'"),
            UPDATE,
            DELETE,
            having("'delta.enableRowTracking' = 'false'"),
            "insert into {it} values (8, 'h', 8)",
            "alter table {it} drop feature rowTracking",
            UPDATE,
        ]
    ),
    "protocol": Case(
        [
            UPDATE,
            having("'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7'"),
            having("'delta.checkpointPolicy' = 'v2'"),
            UPDATE,
            having("'delta.enableInCommitTimestamps' = 'true'"),
            DELETE,
            having("'delta.checkpointPolicy' = 'classic'"),
            "alter table {it} drop feature v2Checkpoint",
            UPDATE,
            "alter table {it} drop feature inCommitTimestamp",
            UPDATE,
            having("'delta.feature.variantType' = 'supported'"),
            "alter table {it} drop feature variantType",
            DELETE,
        ]
    ),
    "mapping removed": Case(
        [UPDATE, "alter table {it} drop feature columnMapping", DELETE],
        EITHER,
        made(properties=MAPPED),
    ),
    "collated": Case(
        [UPDATE, "alter table {it} alter column grp type string collate UTF8_LCASE", UPDATE], EITHER
    ),
    "nested": Case(
        [
            UPDATE,
            "alter table {it} add column s.b int",
            UPDATE,
            "alter table {it} rename column s.b to c",
            DELETE,
        ],
        EITHER,
        made(properties=MAPPED, more=", s struct<a: int>"),
    ),
    "feed off and on": Case(
        [UPDATE, having(FEED.replace("true", "false")), DELETE, having(FEED), UPDATE],
        "without its change data feed",
    ),
    "iceberg": Case(
        [
            UPDATE,
            having("'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name'"),
            "reorg table {it} apply (upgrade uniform (iceberg_compat_version = 2))",
            DELETE,
        ],
        EITHER,
    ),
}


def as_rows(texts: Iterable[tuple[str, int]]) -> Rows:
    """Count rows as JSON, with their columns in any order."""
    rows: Rows = Counter()
    for text, count in texts:
        rows[json.dumps(json.loads(text), sort_keys=True)] += count
    return rows


def standing(rows: Rows) -> dict[str, int]:
    return {row: count for row, count in rows.items() if count}


def in_json(names: Iterable[str]) -> str:
    return f"to_json(struct({', '.join(f'`{name}`' for name in names)}))"


def feed_by_version(spark: Any, table: str, after: int, to: int) -> dict[int, Rows]:
    """Return the net change of each version, read at once."""
    frame = spark.sql(f"select * from table_changes('{table}', {after + 1}, {to})")
    own = ("_change_type", "_commit_version", "_commit_timestamp")
    rows = frame.selectExpr(in_json(name for name in frame.columns if name not in own), *own[:2])
    found: dict[int, Rows] = {}
    for text, change, version in rows.collect():
        count = 1 if change in ("insert", "update_postimage") else -1
        found.setdefault(version, Counter()).update(as_rows([(text, count)]))
    return found


def net_changes(spark: Any, table: str, after: int, to: int) -> dict[tuple[int, int], Rows]:
    """Return the net change of each readable range; of single versions if the whole cannot be read.

    Asserts that an unreadable feed fails with an error that a run takes for a gap.
    """
    try:
        changes = feed_by_version(spark, table, after, to)
    except PySparkException as error:
        assert lost_feed(error)
        if to - after == 1:
            return {}
        alone = [net_changes(spark, table, last - 1, last) for last in range(after + 1, to + 1)]
        return {ends: rows for found in alone for ends, rows in found.items()}
    found: dict[tuple[int, int], Rows] = {}
    for first in range(after, to):
        for last in range(first + 1, to + 1):
            rows: Rows = Counter()
            for version in range(first + 1, last + 1):
                rows.update(changes.get(version, {}))
            found[first, last] = rows
    return found


def snapshots(spark: Any, table: str, versions: range) -> tuple[dict[int, Rows], dict[int, str]]:
    """Return the rows of each version, and the types of its columns."""
    frames = {version: f"{table} version as of {version}" for version in versions}
    schemas = {at: spark.sql(f"select * from {frame}").schema for at, frame in frames.items()}
    parts = [
        f"select {at}, {in_json(schemas[at].names)} from {frame}" for at, frame in frames.items()
    ]
    rows = spark.sql(" union all ".join(parts)).collect()
    found = {
        version: as_rows((text, 1) for at, text in rows if at == version) for version in versions
    }
    return found, {version: schema.simpleString() for version, schema in schemas.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_feed_that_is_trusted_is_exact(spark: Any, schema: str, name: str) -> None:
    case, table = CASES[name], f"{schema}.t"
    spark.sql(f"create schema if not exists {schema}")
    for statement in case.made:
        spark.sql(statement.replace("{it}", table))
    began = rules.commits_of(spark.sql(f"describe history {table}").collect())[0]
    for happens in case.happens:
        if isinstance(happens, Frame):
            happens.write(spark, table)
        else:
            spark.sql(happens.replace("{it}", table))
    history = rules.commits_of(spark.sql(f"describe history {table}").collect())
    last = history[0].version
    rows, columns = snapshots(spark, table, range(began.version, last + 1))
    at = {commit.version: {"version": commit.version, "at": commit.at} for commit in history}

    def gap(after: int, to: int) -> str | None:
        changes = rules.range_of(table, at[after], to, history)
        around = {after, to, *changes.replaced, *(version - 1 for version in changes.replaced)}
        if changes.needs_columns:
            changes = changes.with_columns({version: columns[version] for version in around})
        return changes.with_rows(changes.rows).gap

    for (after, to), changes in net_changes(spark, table, began.version, last).items():
        wanted = Counter(rows[to])
        wanted.subtract(rows[after])
        if standing(changes) != standing(wanted):
            assert gap(after, to), (after, to, standing(changes), standing(wanted))
    whole = gap(began.version, last)
    assert whole is None if case.gap is None else case.gap in (whole or "")
