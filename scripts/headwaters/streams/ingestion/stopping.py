"""The ways to ask a run for its end."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any


class StopAsked(Exception):
    """A request to end a query between two batches."""


class Stopping:
    """A handler of SIGINT and SIGTERM: the first ends the run after a batch, the second at once."""

    def __init__(self) -> None:
        """Start without a signal."""
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        """Enter without handling signals yet."""
        return self

    def take_signals(self) -> None:
        """Handle both signals (call it after Spark's start, which takes SIGINT for itself)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds or until a signal; return true if one came."""
        until = time.monotonic() + seconds
        while not self.signal and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.1, left))
        return bool(self.signal)

    def _ask(self, number: int, _: object) -> None:
        self.signal = number
        for taken, before in self._before.items():
            signal.signal(taken, before)

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers."""
        for taken, before in self._before.items():
            signal.signal(taken, before)
