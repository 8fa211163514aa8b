"""The project's sample data, copied to the folders that the file streams read."""

from __future__ import annotations

import shutil
from pathlib import Path

from headwaters.platform import atomic_write
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.places import Place, RemotePath
from headwaters.platform.project import Project

# folder under data/ → the stream's folder under <lake>/landing
SAMPLES = {"covid_nyt": "county_cases", "ecomm": "click_events"}


def land(project: Project) -> dict[str, int]:
    """Copy each sample file that has not landed yet; return `{stream: files copied}`.

    A file appears under its name whole or not at all, so that a stream never reads half of one.
    Raises UserError if the samples are missing, WorkError if a copy fails.
    """
    project.enter()
    landed = {}
    for source, stream in SAMPLES.items():
        folder = project.root / "data" / source
        files = sorted(path for path in folder.glob("*") if not path.name.startswith("."))
        if not files:
            raise UserError(
                "HW_NO_SAMPLES",
                f"{folder} holds no data: restore it from the repository (git checkout -- data)",
            )
        landed[stream] = _copy(files, project.lake / "landing" / stream)
    return landed


def _copy(files: list[Path], folder: Place) -> int:
    copied = 0
    for path in files:
        target = folder / path.name
        if target.exists():
            continue
        if isinstance(target, RemotePath):
            target.write_bytes(path.read_bytes())
            copied += 1
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write.draft(target) as hidden:
                shutil.copyfile(path, hidden)
        except OSError as error:
            raise WorkError("HW_FILE", f"cannot land {target}: {error.strerror}") from error
        copied += 1
    return copied
