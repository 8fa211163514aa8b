"""A process with one embedded Spark, for the tests of ingestion.

The pytest process speaks Spark Connect, and a process that does so cannot embed a Spark. Reads one
JSON request a line from stdin and answers each with one JSON line on the stdout that it started
with; whatever a run prints is part of its answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from headwaters import ingest
from headwaters.audit import audit, summarise
from headwaters.contract import parse_contract
from headwaters.errors import UserError, WorkError
from headwaters.project import Project
from headwaters.replay import replay

ROOT = Path(__file__).resolve().parents[2]


class Killed(Exception):
    """Stands for the end of the process at a named point."""


def run(spark: Any, lake: str, nodes: list[dict[str, Any]], die_before: str | None) -> Any:
    os.environ["HEADWATERS_LAKE"] = lake
    out = io.StringIO()
    append = ingest.Writer._append

    def dying(self: Any, rows: Any, table: Path, number: int) -> None:
        if die_before and table.name.endswith(die_before):
            raise Killed(f"before {die_before}")
        append(self, rows, table, number)

    ingest.Writer._append = dying  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stdout(out):
            contracts = [parse_contract(node) for node in nodes]
            code = ingest.run(Project(ROOT), contracts, spark)
        return {"code": code, "lines": out.getvalue().splitlines()}
    except (UserError, WorkError) as error:
        return {"code": 2 if isinstance(error, UserError) else 1, "lines": [str(error)]}
    finally:
        ingest.Writer._append = append  # type: ignore[method-assign]


def kill_at(point: str, batch: int, after: float | None) -> None:
    """SIGKILL this process and its Spark, at a named point of the nth batch or after some seconds.

    Points: `bronze` and `quarantine`, before their commits; `checkpoint`, after both and before
    the batch is committed to the checkpoint.
    """
    write, append = ingest.Writer.write, ingest.Writer._append
    written = [0]

    def die() -> None:
        os.killpg(0, signal.SIGKILL)

    def dying_append(self: Any, rows: Any, table: Path, number: int) -> None:
        at = "quarantine" if table.name.endswith("_quarantine") else "bronze"
        if at == point and written[0] >= batch:
            die()
        append(self, rows, table, number)

    def dying_write(self: Any, frame: Any, number: int) -> None:
        write(self, frame, number)
        written[0] += 1
        if point == "checkpoint" and written[0] > batch:
            die()

    ingest.Writer._append = dying_append  # type: ignore[method-assign]
    ingest.Writer.write = dying_write  # type: ignore[method-assign, assignment]
    if after is not None:
        threading.Timer(after, die).start()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.chdir(ROOT)
    spark = ingest.start_spark(Project(ROOT))
    for line in sys.stdin:
        request = json.loads(line)
        if "sql" in request:
            rows = spark.sql(request["sql"]).collect()
            answer: Any = [row.asDict(recursive=True) for row in rows]
        elif "audit" in request:
            os.environ["HEADWATERS_LAKE"] = request["lake"]
            contracts = [parse_contract(node) for node in request["audit"]]
            found = audit(Project(ROOT), contracts, spark)
            answer = [line for name, b in found.items() for line in summarise(name, b)]
        elif "replay" in request:
            os.environ["HEADWATERS_LAKE"] = request["lake"]
            contracts = [parse_contract(node) for node in request["replay"]]
            done = replay(Project(ROOT), contracts, request["dry_run"], spark)
            answer = {name: [d.accepted, d.refused] for name, d in done.items()}
        else:
            if "kill" in request:
                kill_at(**request["kill"])
            answer = run(spark, request["lake"], request["nodes"], request.get("die_before"))
        print(json.dumps(answer, default=_plain), file=answers, flush=True)
    spark.stop()


def _plain(value: object) -> str:
    return (
        value.decode(errors="backslashreplace")
        if isinstance(value, bytes | bytearray)
        else str(value)
    )


if __name__ == "__main__":
    main()
