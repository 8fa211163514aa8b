"""Files that appear under their name whole or not at all, also if a process is killed.

The set-up uses this before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft(file: Path) -> Iterator[Path]:
    """Yield a free path in the same folder, which replaces the file if the block succeeds.

    Its name is hidden, so that no stream reads it. Leftovers of killed processes are removed.
    """
    path = file.with_name(f".{file.name}.new")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()
    try:
        yield path
        path.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):  # the original error matters more
            path.unlink()
        raise


def write(file: Path, text: str) -> None:
    """Write a file, or replace it."""
    with draft(file) as path:
        path.write_text(text)


def write_private(file: Path, text: str) -> None:
    """Write or replace a file that only its owner may read, regardless of the umask."""
    alone = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with draft(file) as path, os.fdopen(os.open(path, alone, 0o600), "w") as opened:
        opened.write(text)
