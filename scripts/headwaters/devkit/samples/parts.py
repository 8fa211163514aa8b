"""Lines of a simulated stream as files that appear whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from headwaters.platform import atomic_write
from headwaters.platform.errors import UserError, WorkError


def paths(folder: Path, prefix: str, files: int, suffix: str = "jsonl") -> list[Path]:
    """Return the names of the files of one configuration, which the prefix identifies.

    Raises UserError if the folder has the same records in another number of files.
    """
    if files < 1:
        raise UserError("HW_ARGUMENT", f"--files must be at least 1: it is {files}")
    width = len(str(files))
    named = f"{prefix}-part"
    found = [
        folder / f"{named}-{part:0{width}d}-of-{files}.{suffix}" for part in range(1, files + 1)
    ]
    others = sorted(set(folder.glob(f"{named}-*.{suffix}")) - set(found))
    if others:
        number = others[0].stem.rpartition("-")[2]
        raise UserError(
            "HW_ARGUMENT",
            f"{folder} holds these records already, in {number} files:"
            f" use --files {number}, or another --seed",
        )
    return found


def write(lines: Sequence[str], paths: Sequence[Path], header: str = "") -> list[Path]:
    """Write the lines in equal parts and return the new files. Existing files stay.

    Raises WorkError if a file cannot be written.
    """
    edges = [len(lines) * part // len(paths) for part in range(len(paths) + 1)]
    written = []
    for path, (first, last) in zip(paths, pairwise(edges), strict=True):
        if first == last or path.exists():
            continue  # more files than records, or done
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                atomic_write.draft(path) as hidden,
                hidden.open("w", encoding="utf-8", newline="\n") as file,
            ):
                file.writelines(f"{line}\n" for line in ([header] if header else []))
                file.writelines(f"{line}\n" for line in lines[first:last])
        except OSError as error:
            raise WorkError(
                "HW_FILE", f"cannot write {error.filename or path}: {error.strerror}"
            ) from error
        written.append(path)
    return written
