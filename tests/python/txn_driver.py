"""A Spark driver that commits Delta transactions to tables on S3, next to others.

`python txn_driver.py NAME COUNT TABLES PREFIX FOLDER` commits COUNT transactions to each of the
tables PREFIX0, PREFIX1, …, and prints those that Delta reported as committed. Before the table N it
touches FOLDER/NAME-N, and waits for FOLDER/go-N.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from dbt.adapters.headwaters.connections import defaults
from pyspark.sql import SparkSession

from headwaters.platform.spark_driver import driver_settings

NONE = "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"


def main(name: str, count: int, tables: int, prefix: str, folder: Path) -> None:
    """Commit the transactions, with an application id each."""
    spark = start(prefix, folder / name)
    for table in range(tables):
        race(spark, f"{prefix}{table}", folder, [f"{name}-{table}", f"go-{table}"], count)
    spark.stop()


def race(spark: SparkSession, table: str, folder: Path, names: list[str], count: int) -> None:
    """Commit transactions to one table, once the others are ready."""
    java: Any = spark._jvm
    delta, no = java.org.apache.spark.sql.delta, java.scala.Option.empty()
    log = delta.DeltaLog.forTable(spark._jsparkSession, table)
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    operation = java.java.lang.Class.forName(NONE, True, loader).getField("MODULE$").get(None)
    ready, go = names
    (folder / ready).touch()
    while not (folder / go).exists():
        time.sleep(0.01)
    for number in range(count):
        actions = java.java.util.ArrayList()
        actions.add(delta.actions.SetTransaction(f"{ready}-{number}", 1, no))
        scala = java.scala.jdk.javaapi.CollectionConverters.asScala(actions).toList()
        log.startTransaction(no, no).commit(scala, operation)
        print(f"{ready}-{number}", flush=True)


def start(prefix: str, folder: Path) -> SparkSession:
    """Return a Spark with the settings that headwaters gives to one inside the process."""
    given = {
        "spark.master": "local[1]",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": prefix.rpartition("/")[0],
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder
    for key, value in driver_settings(folder, {**defaults(folder, given), **given}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
