"""`dbt` that SIGKILL ends in the middle of an operation: `killed.py <statement> <dbt arguments>`.

An operation writes into `ops.operations` that it started, signs its commits (statement 1), changes
the table (2) and looks at what came of it (3). The process dies before the statement named.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest import mock

from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.cli.main import dbtRunner


def main(last: int, arguments: list[str]) -> None:
    execute = SparkConnectionManager.execute
    after: list[str] = []
    started = False

    def dying(manager: Any, sql: str, *more: Any, **options: Any) -> Any:
        nonlocal started
        if started:
            after.append(sql)
        if len(after) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        started = started or "'started'" in sql
        return execute(manager, sql, *more, **options)

    with mock.patch.object(SparkConnectionManager, "execute", dying):
        dbtRunner().invoke(arguments)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
