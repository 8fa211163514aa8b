"""Files that appear under their name whole or not at all, also when a process is killed.

Set-up uses this before anything is installed, so it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft(file: Path) -> Iterator[Path]:
    """A free path in the same folder, which replaces the file when the block ends well.

    Its name is hidden, so that no stream reads it. What a killed process left there is removed.
    """
    path = file.with_name(f".{file.name}.new")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()
    try:
        yield path
        path.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong is said already
            path.unlink()
        raise


def write(file: Path, text: str) -> None:
    """Write a file, or replace it."""
    with draft(file) as path:
        path.write_text(text)


def write_private(file: Path, text: str) -> None:
    """Write a file, or replace it, which its owner alone may read, whatever the umask."""
    alone = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with draft(file) as path, os.fdopen(os.open(path, alone, 0o600), "w") as opened:
        opened.write(text)
