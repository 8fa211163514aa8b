"""The places of a lake: folders of this machine, or prefixes in an object store.

A place is a `Path`, or a `RemotePath`, which has the methods of pathlib that headwaters uses. Reads
and writes of a `RemotePath` raise FileNotFoundError for a missing file, and a one-line error for a
store that refuses or does not answer. Spark reads the same places by its own clients; `uri` names
them for it.
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from headwaters.platform import atomic_write, object_store
from headwaters.platform.errors import UserError
from headwaters.platform.store_check import StoreError, refusal

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# The schemes of an object store, each with the words that name a jar of its Hadoop client in
# Spark's settings. The jars of S3A belong to headwaters.
SCHEMES = {"s3a": "", "abfss": "hadoop-azure", "gs": "gcs-connector"}
_NAMES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
_BLOCK = 1024 * 1024  # bytes of a read from a remote file
_PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True)
class FileFacts:
    """The size of a file, and the time of its last change by the clock of its store."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_mtime(self) -> float:
        """Return the time of the last change in seconds since 1970."""
        return self.st_mtime_ns / 1e9


@dataclass(frozen=True)
class Bucket:
    """A bucket or container of an object store, by its URI.

    `settings` are those of the Spark that reads it as well; `opened` is a client of a test.
    """

    uri: str
    settings: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    opened: ObjectStore | None = field(default=None, compare=False, repr=False)

    @property
    def client(self) -> ObjectStore:
        """Return the client. A process has one for each bucket."""
        if self.opened is not None:
            return self.opened
        scheme = self.uri.partition(":")[0]
        options = object_store.client_options(scheme, self.settings, os.environ)
        return _client(self.uri, tuple(sorted(options.items())))


@cache
def _obstore() -> Any:
    """Return the client of object stores, which is an extra, and takes a moment to import."""
    try:
        import obstore.exceptions
        import obstore.store
    except ModuleNotFoundError:
        raise UserError(
            "HW_NO_EXTRA",
            "obstore is missing, the client of object stores: pip install "
            "'dbt-headwaters[object-store]'",
        ) from None
    return obstore


@cache
def _client(bucket: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    config: Any = dict(options)  # each scheme has its own names
    allowed = str(config.get("endpoint", "")).startswith("http://")
    client: ObjectStore = _obstore().store.from_url(
        bucket,
        config=config,
        client_options={"allow_http": allowed, "connect_timeout": timedelta(seconds=5)},
        retry_config={"max_retries": 6, "retry_timeout": _PATIENCE},
    )
    return client


@dataclass(frozen=True)
class RemotePath:
    """A file or a folder in an object store; a folder exists while it has files.

    `facts` are those of a file that was listed: they save a request, and may be out of date.
    """

    bucket: Bucket
    key: str
    facts: FileFacts | None = field(default=None, compare=False, repr=False)

    def __lt__(self, other: RemotePath) -> bool:
        """Sort by URI."""
        return str(self) < str(other)

    def __str__(self) -> str:
        """Return the URI, without escapes."""
        return f"{self.bucket.uri}/{self.key}" if self.key else self.bucket.uri

    def __truediv__(self, name: str) -> RemotePath:
        """Return the place of this name below this one."""
        return RemotePath(self.bucket, f"{self.key}/{name}".strip("/"))

    @property
    def name(self) -> str:
        """Return the last part."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """Return the name without its last suffix."""
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        """Return the last suffix of the name."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """Return the folder of this place."""
        return RemotePath(self.bucket, self.key.rpartition("/")[0])

    # -- questions

    def stat(self) -> FileFacts:
        """Return size and time of a file. Raises FileNotFoundError if there is none."""
        if self.facts is not None:
            return self.facts
        with self._answers():
            return _facts(_obstore().head(self.bucket.client, self.key))

    def exists(self) -> bool:
        """Return true for a file, and for a folder that has files."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Return true for a file."""
        try:
            return bool(self.stat())
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Return true for a folder that has files."""
        with self._answers():
            return any(_obstore().list(self.bucket.client, f"{self.key}/", chunk_size=1))

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield the files and the folders in this one. Raises FileNotFoundError without any."""
        with self._answers():
            found = _obstore().list_with_delimiter(self.bucket.client, self.key and f"{self.key}/")
        if not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(2, "No such file or directory", str(self))
        for entry in found["objects"]:
            if entry["path"] != self.key:  # the mark of an empty folder, of other programs
                yield RemotePath(self.bucket, entry["path"], _facts(entry))
        for prefix in found["common_prefixes"]:
            yield RemotePath(self.bucket, prefix.rstrip("/"))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the places below this one that match a pattern of parts, without `**`."""
        part, _, rest = pattern.partition("/")
        if not re.search(r"[*?\[]", part):
            found = iter([self / part])
        else:
            try:
                found = (one for one in self.iterdir() if fnmatch.fnmatchcase(one.name, part))
                found = iter(list(found))
            except FileNotFoundError:
                return
        for one in found:
            if rest:
                yield from one.glob(rest)
            elif one.facts is not None or one.exists():
                yield one

    def files(self) -> Iterator[RemotePath]:
        """Yield all files below this folder, with their facts.

        Hadoop's client marks folders by empty objects, whose names end with a slash in the store
        alone.
        """
        with self._answers():
            for chunk in _obstore().list(self.bucket.client, self.key and f"{self.key}/"):
                for entry in chunk:
                    if entry["size"] or RemotePath(self.bucket, entry["path"]).is_file():
                        yield RemotePath(self.bucket, entry["path"], _facts(entry))

    # -- contents

    def read_bytes(self) -> bytes:
        """Return the contents."""
        with self._answers():
            return bytes(_obstore().get(self.bucket.client, self.key).bytes())

    def read_text(self) -> str:
        """Return the contents of a UTF-8 file."""
        return self.read_bytes().decode()

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Open a file for reading bytes. Each read asks the store for a range."""
        assert mode == "rb", mode
        return io.BufferedReader(_RemoteFile(self), _BLOCK)

    def write_bytes(self, data: bytes) -> None:
        """Create or replace a file, in one step."""
        with self._answers(is_write=True):
            _obstore().put(self.bucket.client, self.key, data, use_multipart=False)

    def write_text(self, text: str) -> None:
        """Create or replace a file of UTF-8, in one step."""
        self.write_bytes(text.encode())

    def create(self, data: bytes) -> bool:
        """Create a file in one conditional step; return false if it exists.

        If the store's answer was lost, a file with the same contents counts as created.
        """
        errors = _obstore().exceptions
        try:
            with self._answers(is_write=True):
                _obstore().put(self.bucket.client, self.key, data, mode="create")
            return True
        except (errors.AlreadyExistsError, errors.PreconditionError):
            try:
                return self.read_bytes() == data
            except FileNotFoundError:
                return False

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file; a missing one is no error."""
        with self._answers(is_write=True):
            _obstore().delete(self.bucket.client, self.key)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: folders are parts of names."""

    @contextmanager
    def _answers(self, is_write: bool = False) -> Iterator[None]:
        """Raise one-line errors for refusals and failures of the store."""
        errors = _obstore().exceptions
        try:
            yield
        except (errors.AlreadyExistsError, errors.PreconditionError):
            raise
        except FileNotFoundError as error:
            if _code(error) not in ("", "NoSuchKey"):
                raise self._refusal(error, is_write) from None
            raise FileNotFoundError(2, "No such file or directory", str(self)) from None
        except (errors.BaseError, OSError, ValueError) as error:
            raise self._refusal(error, is_write) from None

    def _refusal(self, error: Exception, is_write: bool) -> Exception:
        text = str(error).split("\n\nDebug source")[0]
        if code := _code(error):
            message = re.search("<Message>(.*?)</Message>", text, flags=re.DOTALL)
            text = f"{code}: {message[1]}" if message else code
        return refusal(str(self), StoreError(type(error).__name__, text), is_write)


def _code(error: Exception) -> str:
    """Return the store's code of an error, such as NoSuchKey, or ''."""
    found = re.search("<Code>(.*?)</Code>", str(error))
    return found[1] if found else ""


Place: TypeAlias = Path | RemotePath


class _RemoteFile(io.RawIOBase):
    """A file in a store, read by ranges."""

    def __init__(self, path: RemotePath) -> None:
        self._path, self._at, self._size = path, 0, path.stat().st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        client, key = self._path.bucket.client, self._path.key
        with self._path._answers():
            data = _obstore().get_range(client, key, start=self._at, end=end)
        buffer[: len(data)] = bytes(data)
        self._at += len(data)
        return len(data)


def _facts(entry: Any) -> FileFacts:
    return FileFacts(entry["size"], int(entry["last_modified"].timestamp() * 1e6) * 1000)


# -- the names of places -------------------------------------------------------------------------


def is_remote(named: str) -> bool:
    """Return true if a name is that of a place in a store: a URI that is not one of a file."""
    return "://" in named and not named.startswith("file:")


def local_name(named: str, whose: str) -> str:
    """Return the path of a `file:` URI, and another name of a folder unchanged.

    Raises UserError for a URI with a host or a relative path.
    """
    if not named.startswith("file:"):
        return named
    found = re.fullmatch("file:(?://)?(/(?!/).*)", named)
    if found is None:
        raise UserError(
            "HW_STORE_URI",
            f"{whose} is {named}, and a file: URI has no host and an absolute path: write "
            "file:///path/to/folder, or the path alone",
        )
    return found[1]


def is_readable(named: str) -> bool:
    """Return true if a folder or a URI can be read without Spark."""
    return not is_remote(named) or urlsplit(named).scheme in SCHEMES


def check_uri(named: str, whose: str, settings: Mapping[str, str] | None = None) -> None:
    """Raise UserError for a URI that cannot be a lake.

    `settings` are those of the Spark that reads it, whose jars must know the scheme.
    """
    parts = urlsplit(named)
    if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss"):
        shown = f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UserError(
            "HW_STORE_SECRET", f"{whose} is {shown}: remove what precedes the @ of the URI"
        )
    if better := _NAMES.get(parts.scheme):
        remedy = named.replace(f"{parts.scheme}://", f"{better}://", 1)
        raise UserError("HW_STORE_URI", f"{whose} is {named}: write {remedy}")
    if parts.scheme not in SCHEMES:
        raise UserError(
            "HW_STORE_URI",
            f"{whose} is {named}, and a lake is a folder, or in a store of {', '.join(SCHEMES)}",
        )
    right = f"{parts.scheme}://{parts.netloc}{re.sub('/+', '/', parts.path).rstrip('/')}"
    if not parts.netloc:
        raise UserError("HW_STORE_URI", f"{whose} is {named}, without a bucket: name one")
    if re.search(r"\s", named) or not re.fullmatch(r"[^?#%\\]*", named):
        raise UserError(
            "HW_STORE_URI",
            f"{whose} is '{named}': name a place without blanks and the characters ? # % \\, which "
            "a URI escapes",
        )
    if named != right or re.search(r"/\.{1,2}(/|$)", named):
        raise UserError("HW_STORE_URI", f"{whose} is {named}: write {right}")
    jar = SCHEMES[parts.scheme]
    texts = "" if settings is None else " ".join(f"{k}={v}" for k, v in settings.items())
    if settings is not None and jar and jar not in texts:
        raise UserError(
            "HW_STORE_SCHEME",
            f"{whose} is {named}, and no setting of the target names the jars of {jar}, which "
            f"Spark needs for {parts.scheme}: add them to spark.jars or spark.jars.packages",
        )


def open_uri(uri: str, settings: Mapping[str, str]) -> RemotePath:
    """Return the place of a URI; `settings` are those of the Spark that reads it, too."""
    parts = urlsplit(uri)
    return RemotePath(Bucket(f"{parts.scheme}://{parts.netloc}", settings), parts.path.strip("/"))


def join(folder: Place, named: str) -> Place:
    """Return a place that a project names: relative to a folder, absolute, or a URI."""
    if is_remote(named):
        settings = folder.bucket.settings if isinstance(folder, RemotePath) else {}
        return open_uri(named, settings)
    named = local_name(named, "the place")
    if isinstance(folder, Path):
        return folder / named
    return Path(named) if named.startswith("/") else folder / named


def uri(place: Place) -> str:
    """Return the URI of a place without escapes, as Spark takes it."""
    return f"file://{place}" if isinstance(place, Path) else str(place)


# -- files ---------------------------------------------------------------------------------------


def write(file: Place, text: str) -> None:
    """Write or replace a file in one step; a local one is on the disk before it appears."""
    if isinstance(file, RemotePath):
        file.write_bytes(text.encode())
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write.draft(file) as path, path.open("w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def remove_tree(folder: Place) -> None:
    """Remove a folder and its files, if it exists."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file in folder.files():
        file.unlink()
