"""Run a job of Flink SQL in its own Python environment, on a cluster inside the process.

flink_worker.py topic JAR SERVERS TOPIC          print the rows that a topic ends with, as JSON
flink_worker.py files FOLDER CHECKPOINTS ROWS    write rows 1, 2, … as JSON files to a folder
flink_worker.py sink JAR SERVERS TOPIC CHECKPOINTS ROWS    write them to a topic, exactly once
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

COLUMNS = "id BIGINT, name STRING, amount DECIMAL(12, 2)"


def environment(**settings: str) -> Any:
    """Return an environment of streaming SQL with these settings."""
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.get_config().set("parallelism.default", "1")
    for name, value in settings.items():
        found.get_config().set(name.replace("__", "-").replace("_", "."), value)
    return found


def topic(jar: str, servers: str, name: str) -> None:
    """Print the last row of each key of a topic that `headwaters publish` writes."""
    sql = environment(pipeline_jars=f"file://{jar}")
    sql.execute_sql(
        f"""create table published ({COLUMNS}, primary key (id) not enforced) with (
            'connector' = 'upsert-kafka', 'topic' = '{name}',
            'properties.bootstrap.servers' = '{servers}',
            'properties.isolation.level' = 'read_committed',
            'scan.bounded.mode' = 'latest-offset',
            'key.format' = 'json', 'value.format' = 'json', 'value.fields-include' = 'ALL')"""
    )
    rows: dict[int, list[Any]] = {}
    with sql.execute_sql("select id, name, amount from published").collect() as changes:
        for change in changes:
            kind = change.get_row_kind().name
            if kind in ("DELETE", "UPDATE_BEFORE"):
                rows.pop(change[0], None)
            else:
                rows[change[0]] = [change[1], None if change[2] is None else str(change[2])]
    print(json.dumps(sorted([key, *row] for key, row in rows.items())))


def files(folder: str, checkpoints: str, number: str) -> None:
    """Write rows to files, from the newest checkpoint on if there is one."""
    write(
        restored(checkpoints),
        number,
        f"""'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'json',
            'sink.rolling-policy.rollover-interval' = '1 s',
            'sink.rolling-policy.check-interval' = '500 ms'""",
    )


def sink(jar: str, servers: str, name: str, checkpoints: str, number: str) -> None:
    """Write rows to a topic in transactions, from the newest checkpoint on if there is one."""
    write(
        restored(checkpoints, pipeline_jars=f"file://{jar}"),
        number,
        f"""'connector' = 'kafka', 'topic' = '{name}', 'format' = 'json',
            'properties.bootstrap.servers' = '{servers}',
            'properties.transaction.timeout.ms' = '600000',
            'sink.delivery-guarantee' = 'exactly-once',
            'sink.transactional-id-prefix' = 'made'""",
    )


def restored(checkpoints: str, **settings: str) -> Any:
    """Return an environment with checkpoints, which begins at the newest one if there is one."""
    sql = environment(
        execution_checkpointing_interval="1 s",
        execution_checkpointing_dir=f"file://{checkpoints}",
        execution_checkpointing_externalized__checkpoint__retention="RETAIN_ON_CANCELLATION",
        **settings,
    )
    done = [path.parent for path in Path(checkpoints).glob("*/chk-*/_metadata")]
    if done:
        newest = max(done, key=lambda path: path.stat().st_mtime_ns)
        sql.get_config().set("execution.state-recovery.path", f"file://{newest}")
        print(f"restored {newest.name}", flush=True)
    return sql


def write(sql: Any, number: str, where: str) -> None:
    """Write rows 1, 2, … with names to a table of these options."""
    sql.execute_sql(
        f"""create table made (id BIGINT) with ('connector' = 'datagen', 'rows-per-second' = '200',
            'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{number}')"""
    )
    sql.execute_sql(f"create table landed (id BIGINT, name STRING) with ({where})")
    result = sql.execute_sql("insert into landed select id, 'n' || cast(id as string) from made")
    print("started", flush=True)
    result.wait()


if __name__ == "__main__":
    jobs: dict[str, Callable[..., None]] = {"topic": topic, "files": files, "sink": sink}
    jobs[sys.argv[1]](*sys.argv[2:])
