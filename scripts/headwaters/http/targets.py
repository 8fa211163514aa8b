"""The common part of the writers to Kafka and Delta.

A writer writes batches, the records of several requests: all of them or none. One thread writes a
batch while the next one gathers.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

_IDLE = 1.0  # seconds

Outcome = Literal["none", "unknown"]
Answer = Future[dict[str, Any]] | asyncio.Future[dict[str, Any]]


class Unwritten(Exception):
    """Records that were not written (`none`), or whose outcome is `unknown`."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        """Store the outcome and a short reason."""
        super().__init__(outcome, reason)
        self.outcome, self.reason = outcome, reason


class TooLarge(Unwritten):
    """A record that the target never accepts."""

    def __init__(self, reason: str) -> None:
        """Store a short reason."""
        super().__init__("none", reason)


@dataclass
class Request:
    """The records of one request; `place` is the topic, if the writer has several.

    If the `answer` is a future of an event loop, the writer settles it in that loop, for all
    requests of a batch at once.
    """

    place: str
    texts: Sequence[bytes]
    keys: Sequence[str | None] | None = None
    rows: Sequence[dict[str, Any]] = ()
    size: int = 0
    answer: Answer = field(default_factory=Future)

    def __post_init__(self) -> None:
        """Prevent the cancellation of a request that is being written."""
        if isinstance(self.answer, Future):
            self.answer.set_running_or_notify_cancel()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.texts)


class RequestWriter(ABC):
    """A writer of requests in batches, in a separate thread and in order of arrival."""

    def __init__(self, name: str, linger: float, most: int) -> None:
        """Store how long to wait for further requests, and the size limit of a batch.

        `linger` is in seconds, `most` in records.
        """
        self.linger, self.most = linger, most
        self.largest = sys.maxsize  # bytes of one record
        # called with the reason if a batch was not written
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def send(self, request: Request) -> None:
        """Write the records of a request; its answer has their place, or raises Unwritten."""
        self._queue.put(request)

    def close(self) -> None:
        """Write the requests sent so far, and stop the thread."""
        self._queue.put(None)
        self._thread.join()

    @abstractmethod
    def write(self, batch: Sequence[Request]) -> list[dict[str, Any]]:
        """Write a batch, all of it or nothing; return the answer of each. Raises Unwritten."""

    @abstractmethod
    def idle(self) -> None:
        """Do the work of every idle second; raise nothing."""

    @abstractmethod
    def problem(self) -> str | None:
        """Return why the target does not answer, or None, within two seconds."""

    def _run(self) -> None:
        ended = False
        while not ended:
            try:
                first = self._queue.get(timeout=_IDLE)
            except queue.Empty:
                self.idle()
                continue
            if first is None:
                break
            batch, ended = self._gather(first)
            self._write(batch)

    def _gather(self, first: Request) -> tuple[list[Request], bool]:
        """Return the requests that arrive in time, until they have enough records."""
        batch, records = [first], len(first)
        until = time.monotonic() + self.linger
        while records < self.most:
            try:
                more = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if more is None:
                return batch, True
            batch.append(more)
            records += len(more)
        return batch, False

    def _write(self, batch: Sequence[Request]) -> None:
        try:
            answers = self.write(batch)
        except Unwritten as error:
            if len(batch) > 1 and isinstance(error, TooLarge):
                for request in batch:  # only one of them is too large
                    self._write([request])
                return
            self._failed(batch, error)
        except Exception as error:  # a defect must not end the thread; the log records it
            self._failed(batch, error)
        else:
            _settle(batch, answers)

    def _failed(self, batch: Sequence[Request], error: Exception) -> None:
        self.on_failure(error)
        _settle(batch, [error] * len(batch))


def _settle(batch: Sequence[Request], found: Sequence[dict[str, Any] | Exception]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Answer, dict[str, Any] | Exception]]] = {}
    for request, one in zip(batch, found, strict=True):
        answer = request.answer
        if isinstance(answer, Future):
            _set([(answer, one)])
        else:
            loops.setdefault(answer.get_loop(), []).append((answer, one))
    for loop, settled in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so that no client waits
            loop.call_soon_threadsafe(_set, settled)


def _set(settled: Sequence[tuple[Answer, dict[str, Any] | Exception]]) -> None:
    for answer, found in settled:
        if answer.cancelled():
            continue
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)
