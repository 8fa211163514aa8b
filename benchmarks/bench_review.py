"""Reviews: one of 50 models changed, by a running engine and from a cold start

A source of ROWS rows (1 million) feeds a silver model of one row a key, which feeds four models; 45
more read a small source. A branch changes a column of the silver model in one of a thousand rows.
`headwaters review` runs in a separate process, as users run it: on a running engine, and with the
Spark that it starts itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.runner import Bench, clock_process, dbt_project, shared_engine

NOTES = """
Goals: 120 seconds with a running engine, 180 from a cold start, and reads of at most 1.2 of the
changed files and the branch's writes. The review took 97 and 119 seconds, and read 1.13. `bytes
written` are the branch's writes. The CPU time is that of all processes, including Java's.
"""

ROWS = int(os.environ.get("ROWS", "1_000_000"))
SMALL = 45
SOURCES = """
sources:
  - name: bench
    tables: [{name: events}, {name: small}]
"""
EVENTS = """{{ config(incremental_strategy='change_feed', unique_key='event_id') }}
select event_id, account_id, day, amount, if(event_id % 1000 = 0, AMOUNT, amount) as net, comment
from {{ changes(source('bench', 'events')) }}
"""
BY_KEY = """{{{{ config(incremental_strategy='affected_keys', unique_key='{key}') }}}}
select {key}, count(*) as events, sum(net) as net
from {{{{ affected(ref('events'), key='{key}') }}}}
group by {key}
"""
LINEAR = """{{{{ config(incremental_strategy='change_feed', unique_key='event_id') }}}}
select event_id, {columns} from {{{{ changes(ref('events')) }}}}
"""
TINY = """{{{{ config(incremental_strategy='change_feed', unique_key='id') }}}}
select id, id + {number} as value from {{{{ changes(source('bench', 'small')) }}}}
"""
CHANGED = "models/silver/events.sql"


def files() -> dict[str, str]:
    """Return the project of 50 models."""
    return {
        "models/sources.yml": SOURCES,
        CHANGED: EVENTS.replace("AMOUNT", "amount"),
        "models/silver/accounts.sql": BY_KEY.format(key="account_id"),
        "models/silver/days.sql": BY_KEY.format(key="day"),
        "models/silver/nets.sql": LINEAR.format(columns="account_id, net"),
        "models/silver/comments.sql": LINEAR.format(columns="upper(comment) as comment"),
        **{
            f"models/silver/tiny_{number}.sql": TINY.format(number=number)
            for number in range(SMALL)
        },
        ".gitignore": "target/\nlogs/\nreview/\n",
    }


def run(bench: Bench) -> None:
    """Build production, change a model on a branch, and review it twice."""
    folder = bench.work / "project"
    options = dbt_project(folder, files())
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "bench@example.com")
    git(folder, "config", "user.name", "bench")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "production")
    with shared_engine(bench, "4g") as (spark, pid):
        build(spark, options)
        git(folder, "checkout", "-qb", "net")
        text = (folder / CHANGED).read_text()
        (folder / CHANGED).write_text(
            text.replace(", amount, amount) as", ", amount + 1, amount) as")
        )
        git(folder, "commit", "-qam", "net")
        review(bench, folder, options, "a running engine", [pid])
    embedded = ["--target", "local", *options[2:]]
    review(bench, folder, embedded, "a cold start", [])


def build(spark: Any, options: list[str]) -> None:
    """Create the sources with a change after the first build, and production's tables."""
    from dbt.cli.main import dbtRunner

    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    spark.sql("create schema if not exists bench")
    spark.sql(
        f"create table bench.events {feed} as select id as event_id,"
        " cast(pmod(xxhash64(id), 20000) as int) as account_id,"
        f" date_add(date'2024-01-01', cast(id * 365 / {ROWS} as int)) as day,"
        " cast(pmod(xxhash64(id, 7), 100000) as bigint) as amount,"
        f" concat('event ', md5(cast(id as string))) as comment from range(0, {ROWS}, 1, 2)"
    )
    spark.sql(f"create table bench.small {feed} as select id from range(0, 1000)")
    assert dbtRunner().invoke(["--quiet", "run", *options]).success
    spark.sql(f"update bench.events set amount = amount + 1 where event_id >= {ROWS - 1000}")
    assert dbtRunner().invoke(["--quiet", "run", *options]).success


def review(bench: Bench, folder: Path, options: list[str], name: str, pids: list[int]) -> None:
    """Run one review in a separate process."""
    profiles = options[options.index("--profiles-dir") + 1]
    out = bench.work / name.replace(" ", "_")
    command = [sys.executable, "-m", "headwaters.cli", "review", "--clean", "--out", str(out)]
    command += ["--target", options[1], "--profiles-dir", profiles]
    scripts = str(Path(__file__).resolve().parents[1] / "scripts")
    took = clock_process(command, folder, {"PYTHONPATH": scripts}, pids)
    found = json.loads((out / "review.json").read_text())["models"]
    differences = {model["name"]: model["difference"] for model in found}
    assert {name: one["changed"] for name, one in differences.items()}["events"] == ROWS // 1000
    read = sum(one["bytes_read"] for one in differences.values())
    written = {model["name"]: model["cost"]["bytes_written"] or 0 for model in found}
    # the branch replaces all files of this table, and in the others the affected ones
    changed = differences["events"]["bytes_read"] - written["events"]
    bench.record(
        f"one of {SMALL + 5} models changed",
        name,
        took.wall,
        took.cpu,
        rows=ROWS,
        share=0.001,
        bytes_written=sum(written.values()),
    )
    ratio = read / (changed + sum(written.values()))
    print(f"  read to compare: {ratio:.2f} of changed files and what was written", flush=True)


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)
