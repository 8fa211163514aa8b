"""Programs that run to their end, in the background of a command.

The set-up runs this before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


def run(
    command: Sequence[str],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    log: IO[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program without input; the caller checks its exit code.

    Its output and errors are `stdout` of the result, in their order, or go to `log`. Bytes that are
    not UTF-8 are replaced.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if log is None else log,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
