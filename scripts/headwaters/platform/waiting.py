"""Lines about work that takes long, on standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST = 4.0  # seconds of silence that a person takes for granted
EVERY = 10.0


def _write(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_on() -> bool:
    return os.environ.get("HEADWATERS_PROGRESS") != "0"


class Steps:
    """Lines about work in steps: a step after a silence prints its name; see `during`."""

    def __init__(self, write: Callable[[str], None] = _write) -> None:
        """Begin the work."""
        self._write, self._told, self._pause = write, time.monotonic(), FIRST

    def tell(self, step: str) -> None:
        """Print the step that begins, if nothing was printed for some seconds."""
        now = time.monotonic()
        if now - self._told >= self._pause and _is_on():
            self._write(step)
            self._told, self._pause = now, EVERY


@contextmanager
def during(
    work: str, first: float = FIRST, every: float = EVERY, write: Callable[[str], None] = _write
) -> Iterator[Callable[[str], None]]:
    """Print a line if the work takes long, and again from time to time, until it ends.

    HEADWATERS_PROGRESS=0 prints none. Yields a function that changes the text, such as `built 2 of
    7`.
    """
    texts = [work]
    if not _is_on():
        yield texts.append
        return
    ended = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        pause = first
        while not ended.wait(pause):
            write(f"{texts[-1]} ({time.monotonic() - began:.0f} s)")
            pause = every

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield texts.append
    finally:
        ended.set()
        teller.join()
