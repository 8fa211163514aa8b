"""A writer of accepted records to a Delta table of the lake, without Spark.

Several requests share a commit. A lock file makes the endpoint the only writer of the table, and
the stream reads the table into bronze. Each commit carries a number (`txn`), which shows if a
commit without an answer was written.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headwaters.http.schema import RequestReader
from headwaters.http.targets import Request, RequestWriter, Unwritten
from headwaters.platform.errors import UserError, WorkError

APP = "headwaters-serve"


def arrow_schema(reader: RequestReader) -> Any:
    """Return the columns of a stream's inbox. Raises ValueError for types of Spark alone."""
    for column in reader.columns:
        if column.kind.arrow is None:
            raise ValueError(f"{column.data_type} is a type that only Spark writes")
    return pa.schema([(column.name, column.kind.arrow) for column in reader.columns])


class DeltaWriter(RequestWriter):
    """A writer that appends to one table."""

    def __init__(self, reader: RequestReader, table: Path, linger: float, most: int) -> None:
        """Make the writer of a stream's inbox."""
        super().__init__(f"headwaters-delta-{reader.contract.name}", linger, most)
        self.contract, self.path = reader.contract, table
        self.schema = arrow_schema(reader)
        self._lock: IO[str] | None = None
        self._number = 0

    def open(self) -> None:
        """Lock the table; create it, or check that it has the contract's columns.

        Raises WorkError if another process writes it, UserError if its columns differ.
        """
        self._lock = _locked(self.path)
        if not DeltaTable.is_deltatable(str(self.path)):
            self.path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(self.path, Schema.from_arrow(self.schema), name=self.path.name)
        table = DeltaTable(self.path)
        found, wanted = _columns(table.schema()), _columns(Schema.from_arrow(self.schema))
        if found != wanted:
            differ = sorted({*found.items()} ^ {*wanted.items()})
            raise UserError(
                "HW_SERVE_TABLE",
                f"{self.contract.file}: {self.contract.name}: {self.path} has other columns than "
                f"the contract ({', '.join(dict.fromkeys(name for name, _ in differ))}): name "
                "another path, or correct the contract",
            )
        self._number = table.transaction_version(APP) or 0

    def idle(self) -> None:
        """Do nothing: each batch opens the table again."""

    def problem(self) -> str | None:
        """Return why the table cannot be written, or None."""
        log = self.path / "_delta_log"
        return None if os.access(log, os.W_OK | os.X_OK) else f"{log} cannot be written"

    def close(self) -> None:
        """Write the requests sent so far, and release the table."""
        super().close()
        if self._lock is not None:
            self._lock.close()

    def write(self, batch: Sequence[Request]) -> list[dict[str, Any]]:
        """Write a batch in one commit."""
        rows = [row for request in batch for row in request.rows]
        # number each attempt, so that a commit of unknown outcome is never mistaken for the next
        self._number = number = self._number + 1
        try:
            table = DeltaTable(self.path)
            write_deltalake(
                table,
                pa.Table.from_pylist(rows, self.schema),
                mode="append",
                commit_properties=CommitProperties(app_transactions=[Transaction(APP, number)]),
            )
            version = table.version()
        except (DeltaError, OSError) as error:
            version = self._committed(number, error)
        return [{"table": self.contract.stream.path, "version": version} for _ in batch]

    def _committed(self, number: int, error: Exception) -> int:
        """Return the version of a failed commit that is in the log. Raises Unwritten otherwise."""
        reason = " ".join(str(error).split())[:300]
        try:
            table = DeltaTable(self.path)
            if (table.transaction_version(APP) or 0) >= number:
                return table.version()
        except (DeltaError, OSError):
            raise Unwritten("unknown", reason) from None
        raise Unwritten("none", reason) from None


def _columns(schema: Schema) -> dict[str, str]:
    """Return names and types, as text."""
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: json.dumps(field["type"], sort_keys=True) for field in fields}


def _locked(table: Path) -> IO[str]:
    """Lock the file next to a table. Raises WorkError if another process holds the lock."""
    table.parent.mkdir(parents=True, exist_ok=True)
    lock = (table.parent / f".{table.name}.serve.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        lock.close()
        raise WorkError(
            "HW_SERVE_IN_USE",
            f"{holder} writes {table}; wait for it, or stop it: a table has one writer",
        ) from None
    lock.truncate(0)
    lock.write(f"headwaters serve, process {os.getpid()} on {os.uname().nodename},")
    lock.flush()
    return lock
