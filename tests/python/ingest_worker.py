"""Run ingestion for tests, in a process with one embedded Spark.

The pytest process speaks Spark Connect, so it cannot embed a Spark. The worker reads one JSON
request a line from stdin, and answers each with one JSON line on the stdout that it started with.
The answer includes everything that a run prints.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql.types import TimestampType

from headwaters.platform.checkpoint import Checkpoint
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion import guards, writer
from headwaters.streams.ingestion import replay as replays
from headwaters.streams.ingestion import run as ingest
from headwaters.streams.ingestion.reconcile import audit, summarise
from headwaters.streams.ingestion.replay import replay
from headwaters.streams.ingestion.settle import settle
from headwaters.streams.ingestion.spark import start_spark
from headwaters.streams.showing import settlement
from headwaters.tables import delta_tables as tables

ROOT = Path(__file__).resolve().parents[2]


class Killed(Exception):
    """The simulated end of the process at a named point."""


def run(
    spark: Any,
    lake: str,
    nodes: list[dict[str, Any]],
    die_before: str | None = None,
    clock: float = 0,
    compact_at: int | None = None,
    file_limit: int | None = None,
    fail_starts: int = 0,
    pause_before: str | None = None,
    **how: Any,
) -> Any:
    """Run streams, with one fault or one small limit if the request names it.

    `die_before` the commit to a table, or before a `checkpoint` is replaced; `pause_before` the
    first commit, as long as the file of that name exists, which the worker creates then; a `clock`
    that goes wrong by some seconds; `compact_at` this many files; no file of Spark's may be larger
    than `file_limit`, as on a full disk; the first `fail_starts` starts of streams fail.
    """
    os.environ["HEADWATERS_LAKE"] = lake
    out = io.StringIO()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return super().now(tz) + timedelta(seconds=clock)

    append = tables.TableSnapshot.append
    pauses = iter([pause_before] if pause_before else [])

    def dying(self: tables.TableSnapshot, rows: Any, app: str, number: int) -> None:
        if die_before and self.name.endswith(die_before):
            raise Killed(f"before {die_before}")
        if next(pauses, None) is not None:
            Path(str(pause_before)).touch()
            while Path(str(pause_before)).exists():
                time.sleep(0.05)
        append(self, rows, app, number)

    replace = Checkpoint.replace

    def dying_replace(self: Checkpoint) -> None:
        if die_before == "checkpoint" and "replaces" in self.begun():
            raise Killed(f"before {die_before}")
        replace(self)

    prepare, starts = guards.prepare, iter(range(fail_starts))

    def failing(*stream: Any) -> None:
        if next(starts, None) is not None:
            raise WorkError("HW_STREAM_FAILED", "not yet")
        prepare(*stream)

    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    usual = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    try:
        if file_limit is not None:
            resource.prlimit(jvm, resource.RLIMIT_FSIZE, (file_limit, usual[1]))
        with (
            mock.patch.object(tables.TableSnapshot, "append", dying),
            mock.patch.object(Checkpoint, "replace", dying_replace),
            mock.patch.object(writer, "datetime", Clock),
            mock.patch.object(guards, "prepare", failing),
            mock.patch.object(tables, "TOO_MANY", compact_at or tables.TOO_MANY),
            contextlib.redirect_stdout(out),
        ):
            contracts = [parse_contract(node) for node in nodes]
            code = ingest.run(Project(ROOT), contracts, spark, **how)
        return {"code": code, "lines": out.getvalue().splitlines()}
    except (UserError, WorkError) as error:
        return {"code": 2 if isinstance(error, UserError) else 1, "lines": [str(error)]}
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, usual)


@contextlib.contextmanager
def dying_in_replay(point: str | None) -> Iterator[None]:
    """End a replay before its commit to `bronze` or `quarantine`."""

    def die(*_: Any) -> None:
        raise Killed(f"before {point}")

    with contextlib.ExitStack() as patched:
        if point == "bronze":
            patched.enter_context(mock.patch.object(tables.TableSnapshot, "append", die))
        elif point == "quarantine":
            patched.enter_context(mock.patch.object(replays, "_leave", die))
        yield


def kill_at(point: str, batch: int, after: float | None) -> None:
    """Kill this process and its Spark at a named point of the nth batch or after some seconds.

    Points: `bronze` and `quarantine`, before their commits; `checkpoint`, after both and before the
    batch is committed to the checkpoint; no batch reaches any other name.
    """
    write, append = writer.Writer.write, tables.TableSnapshot.append
    written = [0]

    def die() -> None:
        os.killpg(0, signal.SIGKILL)

    def dying_append(self: tables.TableSnapshot, rows: Any, app: str, number: int) -> None:
        at = "quarantine" if self.name.endswith("_quarantine") else "bronze"
        if at == point and written[0] >= batch:
            die()
        append(self, rows, app, number)

    def dying_write(self: Any, frame: Any, number: int) -> None:
        write(self, frame, number)
        written[0] += 1
        if point == "checkpoint" and written[0] > batch:
            die()

    mock.patch.object(tables.TableSnapshot, "append", dying_append).start()
    mock.patch.object(writer.Writer, "write", dying_write).start()
    if after is not None:
        threading.Timer(after, die).start()


def in_utc(_: TimestampType, micros: int | None) -> datetime | None:
    """Return a moment of Spark's; Python's own function cannot return the first day of year 1."""
    return None if micros is None else datetime(1970, 1, 1) + timedelta(microseconds=micros)


def main() -> None:
    mock.patch.object(TimestampType, "fromInternal", in_utc).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.chdir(ROOT)
    spark = start_spark(Project(ROOT))
    for line in sys.stdin:
        try:
            answer = respond(spark, json.loads(line))
        except Exception:  # the test fails, and the worker continues
            answer = {"code": None, "lines": traceback.format_exc().splitlines()}
        print(json.dumps(answer, default=_plain), file=answers, flush=True)
    spark.stop()


def respond(spark: Any, request: dict[str, Any]) -> Any:
    if "sql" in request:
        return [row.asDict(recursive=True) for row in spark.sql(request["sql"]).collect()]
    if "audit" in request:
        os.environ["HEADWATERS_LAKE"] = request["lake"]
        contracts = [parse_contract(node) for node in request["audit"]]
        found = audit(Project(ROOT), contracts, spark)
        return [line for name, b in found.items() for line in summarise(name, b)]
    if "replay" in request:
        os.environ["HEADWATERS_LAKE"] = request["lake"]
        contracts = [parse_contract(node) for node in request["replay"]]
        try:
            with dying_in_replay(request.get("die_before")):
                done = replay(Project(ROOT), contracts, request["dry_run"], spark)
        except Killed as killed:
            return str(killed)
        return {
            name: str(d) if isinstance(d, CodedError) else [d.accepted, d.refused]
            for name, d in done.items()
        }
    if "settle" in request:
        os.environ["HEADWATERS_LAKE"] = request["lake"]
        contract = parse_contract(request["settle"])
        asked = (request["where"], request["reason"], request["apply"])
        try:
            return list(settlement(contract.name, settle(Project(ROOT), contract, *asked, spark)))
        except (UserError, WorkError) as error:
            return [str(error)]
    if "kill" in request:
        kill_at(**request.pop("kill"))
    return run(spark, **request)


def _plain(value: object) -> str:
    return (
        value.decode(errors="backslashreplace")
        if isinstance(value, bytes | bytearray)
        else str(value)
    )


if __name__ == "__main__":
    main()
