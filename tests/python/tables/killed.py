"""Run `dbt` and kill it in the middle of an operation: `killed.py <statement> <dbt arguments>`.

An operation records its start in `ops.operations`, signs its commits (statement 1), changes the
table (2) and inspects the result (3). The process dies before the named statement: a number, or
`start of <table>`, the statement that records the operation's start there.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest import mock

from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.cli.main import dbtRunner


def main(last: str, arguments: list[str]) -> None:
    execute = SparkConnectionManager.execute
    after: list[str] = []
    started = False

    def dying(manager: Any, sql: str, *more: Any, **options: Any) -> Any:
        nonlocal started
        starts = "'started'" in sql
        if started:
            after.append(sql)
        if str(len(after)) == last or (
            starts and last.startswith("start of ") and last.removeprefix("start of ") in sql
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        started = started or starts
        return execute(manager, sql, *more, **options)

    with mock.patch.object(SparkConnectionManager, "execute", dying):
        dbtRunner().invoke(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
