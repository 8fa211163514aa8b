"""The lake: its permissions and its original place.

Metastore and checkpoints name files by absolute paths. Through them, a copied or moved lake would
read and write the files of its original place, which `<lake>/lake.json` records. An alias is the
same place, because only the resolved folder counts. In a store, the URI counts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwaters.platform import places
from headwaters.platform.errors import UserError
from headwaters.platform.places import Place, RemotePath

OWNER_ALONE = "077"
# The project's folder of this machine's folders of lakes in stores.
HIDDEN = ".headwaters"
_OF = "of.json"


def enter(folder: Path) -> None:
    """Create the lake, or check that it is at its original place, before a command writes to it.

    From then on this process, and every Java that it starts, creates files for their owner alone,
    or with HEADWATERS_UMASK. The folder may also be that of a lake in a store, on this machine.
    Raises UserError if it is not writable, or was copied or moved.
    """
    with _writable(folder):
        if (folder / _OF).exists():
            return
        if elsewhere := moved(folder):
            raise elsewhere
        if made_at(folder) is None:
            remember(folder, folder)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Create a folder for the owner alone. Raises UserError if the folder cannot be written."""
    os.umask(umask())
    if os.environ.get("HEADWATERS_LAKE") == "":  # Java would read it as the root of the disk
        del os.environ["HEADWATERS_LAKE"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "it is read-only, or another user's")
        yield
    except OSError as error:
        raise UserError(
            "HW_LAKE_UNWRITABLE",
            f"the lake {folder} cannot be written ({error.strerror}): name another folder with "
            "HEADWATERS_LAKE, or see to this one",
        ) from None


def enter_store(lake: RemotePath, local: Path) -> None:
    """Do the same for a lake in a store, and for this machine's folder of it.

    Raises UserError if the folder belongs to another lake, and the error of a store that cannot be
    used: the first command writes `lake.json`, and each one reads it.
    """
    record = _record(lake)
    with _writable(local):
        if not (of := local / _OF).exists():
            if local.parent.name == HIDDEN:
                places.write(local.parent / ".gitignore", "*\n")
            places.write(of, record.decode())
        is_its = of.read_bytes() == record
    if not is_its:
        raise UserError(
            "HW_LAKE_MOVED",
            f"{local} has the metastore and the logs of another lake than {lake}: name a folder "
            "for each lake with `local` in the target, or with HEADWATERS_LOCAL",
        )
    made = made_at(lake)
    if made is None:
        (lake / "lake.json").create(record)
    elif not same(made, lake):
        raise _elsewhere(lake, made)


def home(folder: Path) -> Path:
    """Return the lake in a folder by its original path, if that leads there.

    Checkpoints know files by their paths: under an alias all of them would be new.
    """
    folder = _absolute(folder)
    made = made_at(folder)
    return made if isinstance(made, Path) and same(made, folder) else folder


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


def made_at(lake: Place) -> Place | None:
    """Return the original place of a lake from its own files, or None if unknown."""
    try:
        made = str(json.loads((lake / "lake.json").read_text())["made_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return _read_from(lake) if isinstance(lake, Path) else None
    return places.join(lake, made)


def moved(lake: Place) -> UserError | None:
    """Return the error of a lake that was copied or moved, or None."""
    made = made_at(lake)
    return None if made is None or same(made, lake) else _elsewhere(lake, made)


def same(one: Place, other: Place) -> bool:
    """Return true if two places are one folder."""
    if isinstance(one, RemotePath) or isinstance(other, RemotePath):
        return str(one) == str(other)
    try:
        return one.samefile(other)
    except OSError:
        return False


def is_same(place: Place, location: str) -> bool:
    """Return true if a location of the metastore, without escapes, is a place."""
    if isinstance(place, RemotePath):
        return location.rstrip("/") == str(place)
    path = Path(re.sub("^file:(//)?", "", location))
    return path == place or same(path, place) or path.resolve() == place.resolve()


def check_warehouse(
    lake: Place, registered: str, warehouse: str, is_embedded: bool = False
) -> None:
    """Check that the metastore's schemas are in the lake, which may be older than its lake.json.

    `registered` is the location of its schema `default`, `warehouse` Spark's choice for a new one,
    both as paths or URIs. Raises UserError if these are two places. The tables of a lake with an
    embedded metastore may go to a store while its older ones stay in its folder.
    """
    then, now = _path(registered), _path(warehouse)
    if then is not None and now is not None:
        if then != now and not same(then, now):
            raise _elsewhere(lake, then.parent)
        return
    if then is now:  # both are in stores
        is_other = unquote(registered).rstrip("/") != unquote(warehouse).rstrip("/")
    else:
        is_other = not is_embedded
    if is_other:
        raise _elsewhere(lake, registered.rstrip("/").rpartition("/")[0])


def _path(location: str) -> Path | None:
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


def _absolute(folder: Path) -> Path:
    """Return the path without `..`, but with its links, which may change later."""
    return Path(os.path.normpath(folder.absolute()))


def _elsewhere(lake: Place, made: Place | str) -> UserError:
    how = "moved" if isinstance(made, Path) and not made.exists() else "copied"
    return UserError(
        "HW_LAKE_MOVED",
        f"the lake {lake} was {how} from {made}, which its metastore and checkpoints still name: "
        "`headwaters relocate` shows what has to change",
    )


def remember(lake: Place, made: Place) -> None:
    """Record the original place of a lake."""
    places.write(lake / "lake.json", _record(made).decode())


def _record(made: Place) -> bytes:
    place = _absolute(made) if isinstance(made, Path) else made
    return (json.dumps({"made_at": str(place)}) + "\n").encode()


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
