"""One stream of a run: its contract, its folders and tables, and its progress."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pyspark.sql.streaming.query import StreamingQuery

from headwaters.platform import places
from headwaters.platform.checkpoint import Checkpoint, Pending
from headwaters.platform.errors import CodedError
from headwaters.platform.leases import Hold
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract
from headwaters.streams.sources.declared import StartAt
from headwaters.tables.delta_log import exists

From = Literal["earliest", "table", "latest", "recreated"]


@dataclass
class Stream:
    """One stream of this run: its contract, its folders and tables, and its progress."""

    contract: Contract
    checkpoint: Checkpoint
    bronze: Place
    quarantine: Place
    lake: Place
    local: Path
    batches: int = 0
    rows: int = 0
    bytes: int = 0  # written to bronze
    bad: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pending: Pending | None = None
    error: str | None = None
    exit_code: int = 1  # of a command that ends with the error
    cause: Exception | None = None
    query: StreamingQuery | None = None
    hold: Hold | None = None
    holding: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    trigger: str | float = "available_now"
    begin: From | None = None
    well: bool = False  # since the start of its query
    failures: int = 0
    followed: int = 0  # changes of the source's columns
    retry_at: float = 0.0

    @classmethod
    def of(cls, project: Project, contract: Contract) -> Stream:
        """Return the stream of a contract in this project's lake."""
        schema = project.warehouse / f"{contract.schema_name.lower()}.db"
        return cls(
            contract=contract,
            checkpoint=Checkpoint(project.lake / "checkpoints" / contract.name, project.local),
            bronze=schema / contract.table,
            quarantine=schema / f"{contract.table}_quarantine",
            lake=project.lake,
            local=project.local,
        )

    @property
    def endless(self) -> bool:
        """Return true if the stream continues when nothing is left to read."""
        return self.trigger != "available_now"

    @property
    def path(self) -> Place:
        """Return the folder of a files stream, or the table of a Delta stream."""
        return places.join(self.lake, str(self.contract.stream.path))

    def input(self, uri: str) -> Place:
        """Return an input file, given as an unquoted URI."""
        return places.join(self.lake, uri)

    def shown(self, uri: str) -> str:
        """Return an unquoted URI relative to the lake, if inside: the lake may move."""
        return uri.removeprefix(f"{places.uri(self.lake)}/")

    @property
    def start(self) -> str | StartAt:
        """Return the start of the first batch: from `--from`, or else the declared one."""
        begun = self.checkpoint.begun().get("from", "table")
        named = begun in ("earliest", "latest")
        return begun if named else self.contract.stream.start

    @property
    def idle(self) -> bool:
        """Return true if a run would have no work; needs no Spark."""
        tables = all(map(exists, (self.bronze, self.quarantine)))
        same = self.checkpoint.contract(Contract) == self.contract
        return tables and same and self.pending is not None and self.pending.nothing

    def take(self) -> None:
        """Hold the stream for this process. Raises WorkError if another one ingests it."""
        self.release()
        self.hold = self.holding.enter_context(self.checkpoint.held())

    def release(self) -> None:
        """Give the stream up, if this process holds it."""
        self.holding.close()
        self.hold = None

    def check_hold(self) -> None:
        """Raise WorkError if another process may have taken the stream over."""
        if self.hold is not None:
            self.hold.check()

    def recovered(self) -> None:
        """Clear the reason of a failure once the stream runs again, even without new records."""
        self.failures, self.error = 0, None
        self.keep_error()

    def keep_error(self) -> None:
        """Store the reason of the stream's failure, or its success."""
        if self.hold is not None and self.hold.is_lost:
            return
        # a full disk or a store that is away must not stop the other streams
        with contextlib.suppress(OSError, CodedError):
            self.checkpoint.keep_error(self.error)

    def log(self, **facts: Any) -> None:
        """Write a line of JSON for a batch or a failure to `ingest.jsonl`, on this machine."""
        line = {"at": datetime.now(UTC).isoformat(), "stream": self.contract.name, **facts}
        file = self.local / "logs" / "ingest.jsonl"
        # the batch is written, even if the disk is full now
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as journal:
                journal.write(json.dumps(line) + "\n")
