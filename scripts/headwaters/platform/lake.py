"""The lake's folder: its permissions and its original place.

Metastore and checkpoints name files by absolute paths. Through them, a copied or moved lake would
read and write the files of its original place, which `<lake>/lake.json` records. An alias is the
same place, because only the resolved folder counts.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwaters.platform import atomic_write
from headwaters.platform.errors import UserError

OWNER_ALONE = "077"


def enter(lake: Path) -> None:
    """Create the lake, or check that it is at its original place, before a command writes to it.

    From then on this process, and every Java that it starts, creates files for their owner alone,
    or with HEADWATERS_UMASK. Raises UserError if the lake is not writable, or was copied or moved.
    """
    os.umask(umask())
    if os.environ.get("HEADWATERS_LAKE") == "":  # Java would read it as the root of the disk
        del os.environ["HEADWATERS_LAKE"]
    try:
        lake.mkdir(parents=True, exist_ok=True)
        if not os.access(lake, os.W_OK | os.X_OK):
            raise PermissionError(0, "it is read-only, or another user's")
        if elsewhere := moved(lake):
            raise elsewhere
        if made_at(lake) is None:
            remember(lake, lake)
    except OSError as error:
        raise UserError(
            "HW_LAKE_UNWRITABLE",
            f"the lake {lake} cannot be written ({error.strerror}): name another folder with "
            "HEADWATERS_LAKE, or see to this one",
        ) from None


def home(folder: Path) -> Path:
    """Return the lake in a folder by its original path, if that leads there.

    Checkpoints know files by their paths: under an alias all of them would be new.
    """
    folder = _absolute(folder)
    made = made_at(folder)
    return made if made and same(made, folder) else folder


def umask() -> int:
    """Return the permissions that new files lack: HEADWATERS_UMASK, or all but their owner's.

    Raises UserError unless it is three octal digits that keep the owner's permissions.
    """
    named = os.environ.get("HEADWATERS_UMASK") or OWNER_ALONE
    if not re.fullmatch(r"0?0[0-7]{2}", named):
        raise UserError(
            "HW_ENVIRONMENT",
            f"HEADWATERS_UMASK is {named}, which is not one: 077 is for the owner alone, 027 lets "
            "the group read, 007 lets it write",
        )
    return int(named, 8)


def made_at(lake: Path) -> Path | None:
    """Return the original place of a lake from its own files, or None if unknown."""
    try:
        return Path(json.loads((lake / "lake.json").read_text())["made_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return _read_from(lake)


def moved(lake: Path) -> UserError | None:
    """Return the error of a lake that was copied or moved, or None."""
    made = made_at(lake)
    return None if made is None or same(made, lake) else _elsewhere(lake, made)


def same(one: Path, other: Path) -> bool:
    """Return true if two paths lead to one folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def check_warehouse(lake: Path, registered: str, warehouse: str) -> None:
    """Check that the metastore's schemas are in the lake, which may be older than its lake.json.

    `registered` is the location of its schema `default`, `warehouse` Spark's choice for a new one,
    both as paths or URIs. Raises UserError if these are two folders of this machine.
    """
    then, now = _path(registered), _path(warehouse)
    if then is None or now is None or then == now or same(then, now):
        return
    raise _elsewhere(lake, then.parent)


def _path(location: str) -> Path | None:
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


def _absolute(folder: Path) -> Path:
    """Return the path without `..`, but with its links, which may change later."""
    return Path(os.path.normpath(folder.absolute()))


def _elsewhere(lake: Path, made: Path) -> UserError:
    how = "copied" if made.exists() else "moved"
    return UserError(
        "HW_LAKE_MOVED",
        f"the lake {lake} was {how} from {made}, which its metastore and checkpoints still name: "
        "`headwaters relocate` shows what has to change",
    )


def remember(lake: Path, made: Path) -> None:
    """Record the original place of a lake."""
    atomic_write.write(lake / "lake.json", json.dumps({"made_at": str(_absolute(made))}) + "\n")


def _read_from(lake: Path) -> Path | None:
    """Return the lake whose landed files the checkpoints have read, for lakes without lake.json."""
    for log in sorted((lake / "checkpoints").glob("*/sources/0/*")):
        if log.name.startswith("."):
            continue
        for line in log.read_text().split("\n")[1:2]:
            path = re.match(r'\{"path":"file:(?://)?(/[^"]*?)/landing/', line)
            if path:
                return Path(unquote(path[1]))
    return None
