"""The lake's folder: who may read it, whether it can be written, and where it was made.

Metastore and checkpoints name files by absolute paths. Through them a lake that was copied or moved
would read and write the files of the place where it was made: `<lake>/lake.json` says where that
was. An alias is no other place: what counts is which folder a path leads to.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwaters import drafts
from headwaters.errors import UserError

OWNER_ALONE = "077"


def enter(lake: Path) -> None:
    """Make the lake, or see that it is where it was made, before a command writes to it.

    From here on this process, and every Java that it starts, makes files for their owner alone, or
    for whom HEADWATERS_UMASK says. Raises UserError where the lake cannot be written, or was copied
    or moved.
    """
    os.umask(umask())
    if os.environ.get("HEADWATERS_LAKE") == "":  # Java would take it for the root of the disk
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
    """The lake in a folder, by the path under which it was made where that leads there.

    Checkpoints know files by their paths: under an alias all of them would be new.
    """
    folder = _absolute(folder)
    made = made_at(folder)
    return made if made and same(made, folder) else folder


def umask() -> int:
    """Which permissions new files do not get: HEADWATERS_UMASK, or else all but their owner's.

    Raises UserError where it is no number of three octal digits that leaves the owner's alone.
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
    """Where a lake was made, as its own files say; None where they do not."""
    try:
        return Path(json.loads((lake / "lake.json").read_text())["made_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return _read_from(lake)


def moved(lake: Path) -> UserError | None:
    """The error of a lake that was copied or moved from where it was made; None of any other."""
    made = made_at(lake)
    return None if made is None or same(made, lake) else _elsewhere(lake, made)


def same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def check_warehouse(lake: Path, registered: str, warehouse: str) -> None:
    """See that the metastore's schemas are in the lake: a lake may be older than its lake.json.

    `registered` is the location of its schema `default`, `warehouse` where Spark would make one,
    both as paths or URIs. Raises UserError where these are two folders of this machine.
    """
    then, now = _path(registered), _path(warehouse)
    if then is None or now is None or then == now or same(then, now):
        return
    raise _elsewhere(lake, then.parent)


def _path(location: str) -> Path | None:
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


def _absolute(folder: Path) -> Path:
    """The path without `..`, and with its links, which may lead elsewhere one day."""
    return Path(os.path.normpath(folder.absolute()))


def _elsewhere(lake: Path, made: Path) -> UserError:
    how = "copied" if made.exists() else "moved"
    return UserError(
        "HW_LAKE_MOVED",
        f"the lake {lake} was {how} from {made}, which its metastore and checkpoints still name: "
        "`headwaters relocate` shows what has to change",
    )


def remember(lake: Path, made: Path) -> None:
    """Write down where a lake was made."""
    drafts.write(lake / "lake.json", json.dumps({"made_at": str(_absolute(made))}) + "\n")


def _read_from(lake: Path) -> Path | None:
    """The lake whose landing files the checkpoints have read: of a lake without a lake.json."""
    for log in sorted((lake / "checkpoints").glob("*/sources/0/*")):
        if log.name.startswith("."):
            continue
        for line in log.read_text().split("\n")[1:2]:
            path = re.match(r'\{"path":"file:(?://)?(/[^"]*?)/landing/', line)
            if path:
                return Path(unquote(path[1]))
    return None
