"""The training run of `class_data`: `python -m headwaters.platform.class_data_training ARCHIVE`.

When the run ends, Java writes the loaded classes to the archive. It does once the usual work of a
project: tables, merges, change feeds, a stream, and the classes of Spark Connect.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headwaters.platform import hadoop_defaults
from headwaters.platform.jars import installed_pyspark

STATEMENTS = (
    "create table t (id int, at timestamp, v decimal(9, 2)) using delta tblproperties ("
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')",
    "insert into t select id, timestamp_seconds(id), id from range(100)",
    "merge into t using (select cast(id as int) as id, 1 as v from range(10)) as s on t.id = s.id"
    " when matched then update set v = s.v when not matched then insert (id, v) values (id, v)",
    "select _change_type, count(*) from table_changes('t', 1) group by _change_type order by 1",
    "delete from t where id = 7",
    "create or replace table u using delta as select * from t where at > timestamp'2000-01-01'",
    "alter table t set tblproperties ('a' = 'b')",
    "create or replace view w as select id, sum(v) as v from t group by id having sum(v) > 1",
    "with a as (select distinct id from t), b as (select id, row_number() over (order by v) as n"
    " from w) select a.id, b.n from a left join b on a.id = b.id order by b.n",
    "describe history t limit 1",
    "describe detail t",
    "optimize t",
    "show tables",
)
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.warehouse.dir": "warehouse",
    "spark.sql.shuffle.partitions": "2",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=metastore;create=true",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def train(archive: Path) -> None:
    """Do a project's usual work once in the current folder, and wait until Java has ended."""
    builder = SparkSession.builder.enableHiveSupport().config(
        "spark.driver.extraJavaOptions",
        f"-XX:TieredStopAtLevel=1 '-XX:ArchiveClassesAtExit={archive}' -Xlog:disable",
    )
    settings = SETTINGS | hadoop_defaults.class_path(installed_pyspark(), SETTINGS)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for statement in STATEMENTS:
        spark.sql(statement).collect()

    def write(batch: DataFrame, number: int) -> None:
        batch.write.format("delta").mode("append").save("streamed")

    Path("landing").mkdir()
    Path("landing/a.json").write_text('{"id": 1}\n')
    stream = spark.readStream.schema("id int").json("landing").writeStream.foreachBatch(write)
    stream.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
    spark.streams.active[0].awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None  # pyspark has it until it stops
    java = gateway.proc
    spark.stop()
    java.stdin.close()  # ends Java, which then writes the archive
    java.wait()


if __name__ == "__main__":
    train(Path(sys.argv[1]))
