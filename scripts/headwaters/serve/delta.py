"""Accepted records into a Delta table of the lake, without Spark: a commit for several requests.

The door is the table's only writer, by a lock file; the stream reads the table into bronze. Each
commit carries a number of the door's own (`txn`), so that one whose answer was lost is found.
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

from headwaters.contract import Contract
from headwaters.errors import UserError, WorkError
from headwaters.serve.targets import Request, Unwritten, Writer
from headwaters.serve.values import Type, type_of

APP = "headwaters-serve"
_SIMPLE = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


def arrow_type(kind: Type) -> Any:
    """The type of Arrow. Raises ValueError for one that delta-rs does not write."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name == "array" and kind.element:
        return pa.list_(arrow_type(kind.element))
    if kind.name == "map" and kind.element:
        return pa.map_(pa.string(), arrow_type(kind.element))
    if kind.name == "struct":
        return pa.struct([(name, arrow_type(one)) for name, one in kind.fields])
    if kind.name not in _SIMPLE:
        raise ValueError(f"{kind.name} is a type that only Spark writes")
    return _SIMPLE[kind.name]


def arrow_schema(contract: Contract) -> Any:
    """The columns of a stream's inbox: those that are read. Raises ValueError as `arrow_type`."""
    return pa.schema(
        [(column.name, arrow_type(type_of(column.data_type))) for column in contract.read_columns]
    )


class DeltaWriter(Writer):
    """Appends to one table."""

    def __init__(self, contract: Contract, table: Path, linger: float, most: int) -> None:
        """The writer of a stream's inbox."""
        super().__init__(f"headwaters-delta-{contract.name}", linger, most)
        self.contract, self.path = contract, table
        self.schema = arrow_schema(contract)
        self._lock: IO[str] | None = None
        self._number = 0

    def open(self) -> None:
        """Lock the table; create it, or see that it has the contract's columns.

        Raises WorkError where another door writes it, UserError where its columns are others.
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
        """Nothing: each batch opens the table again."""

    def problem(self) -> str | None:
        """Why the table cannot be written, or None."""
        log = self.path / "_delta_log"
        return None if os.access(log, os.W_OK | os.X_OK) else f"{log} cannot be written"

    def close(self) -> None:
        """Write what was sent, and give the table free."""
        super().close()
        if self._lock is not None:
            self._lock.close()

    def write(self, batch: Sequence[Request]) -> list[dict[str, Any]]:
        """Write a batch in one commit."""
        rows = [row for request in batch for row in request.rows]
        # another for each attempt: one of which nobody knows is not taken for the next
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
        """The version of a commit that failed and is in the log. Raises Unwritten where none is."""
        reason = " ".join(str(error).split())[:300]
        try:
            table = DeltaTable(self.path)
            if (table.transaction_version(APP) or 0) >= number:
                return table.version()
        except (DeltaError, OSError):
            raise Unwritten("unknown", reason) from None
        raise Unwritten("none", reason) from None


def _columns(schema: Schema) -> dict[str, str]:
    """Names and types, as text."""
    fields = json.loads(schema.to_json())["fields"]
    return {field["name"]: json.dumps(field["type"], sort_keys=True) for field in fields}


def _locked(table: Path) -> IO[str]:
    """The lock file of a table, beside it. Raises WorkError where another process holds it."""
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
