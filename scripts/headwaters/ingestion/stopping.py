"""How a run is asked to end."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any


class StopAsked(Exception):
    """Ends a query between two batches."""


class Stopping:
    """SIGINT and SIGTERM ask for an end after the batch in flight; a second one ends at once."""

    def __init__(self) -> None:
        """No signal has come yet."""
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        """Take no signals yet."""
        return self

    def take_signals(self) -> None:
        """Take both signals over (Spark's start takes SIGINT for itself)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)

    def wait(self, seconds: float) -> bool:
        """Wait for as long, or until a signal came; whether one did."""
        until = time.monotonic() + seconds
        while not self.signal and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.1, left))
        return bool(self.signal)

    def _ask(self, number: int, _: object) -> None:
        self.signal = number
        for taken, before in self._before.items():
            signal.signal(taken, before)

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for taken, before in self._before.items():
            signal.signal(taken, before)
