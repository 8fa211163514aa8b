"""The race of `headwaters store check`: processes that create the same keys at the same moment."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from headwaters.platform.java_gateway import java_gateway
from headwaters.platform.store_check import (
    KINDS,
    Kind,
    Race,
    StoreError,
    StoreVerdict,
    refusal,
    verdict,
)

# A check that finds no store should end within seconds; S3A by itself tries for minutes.
IMPATIENT = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "100ms",
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.timeout": "30s",
}
PATIENCE = 120.0


@dataclass(frozen=True)
class Competitor:
    """A process with an S3 client for the bucket of a URI; `settings` are Hadoop's."""

    number: int
    gateway: Any
    uri: str
    settings: Mapping[str, str]

    def compete(self, uri: str, kind: Kind, barrier: threading.Barrier) -> StoreError | None:
        """Create a file when all writers are ready. Return None for success, or the error."""
        out, answer = None, None
        try:
            out = self.begin(uri, kind, is_conditional=True)
        except Py4JJavaError as error:
            answer = java_error(error)
        barrier.wait(PATIENCE)
        try:
            if out is not None:
                out.close()
        except Py4JJavaError as error:
            answer = java_error(error)
        return answer

    def begin(self, uri: str, kind: Kind, is_conditional: bool) -> Any:
        """Return a stream with this writer's content; its `close` sends the last request."""
        builder = self._files.createFile(self._path(uri)).overwrite(True)
        builder.opt("fs.s3a.create.performance", True)
        if kind == "multipart":
            builder.must("fs.s3a.create.multipart", True)
        if is_conditional:
            builder.must("fs.option.create.conditional.overwrite", True)
        out = builder.build()
        out.write(self.number)  # one byte
        return out

    def stored(self, uri: str) -> int | None:
        """Return the number of the writer whose content a file has, or None without a file."""
        try:
            stream = self._files.open(self._path(uri))
            number: int = stream.read()
            stream.close()
        except Py4JJavaError as error:
            if java_error(error).name == "FileNotFoundException":
                return None
            raise
        return number

    def list_files(self, uri: str) -> None:
        """List a folder. Unlike a request for one file, its refusal comes with a reason."""
        try:
            self._files.listFiles(self._path(uri), True).hasNext()
        except Py4JJavaError as error:
            if java_error(error).name != "FileNotFoundException":
                raise

    def delete(self, uri: str) -> None:
        """Delete a folder."""
        self._files.delete(self._path(uri), True)

    def _path(self, uri: str) -> Any:
        return self.gateway.jvm.org.apache.hadoop.fs.Path(uri)

    @cached_property
    def _files(self) -> Any:
        hadoop = self.gateway.jvm.org.apache.hadoop
        configuration = hadoop.conf.Configuration()
        for name, value in self.settings.items():
            configuration.set(name, value)
        return hadoop.fs.FileSystem.newInstance(self._path(self.uri).toUri(), configuration)


@contextlib.contextmanager
def writers(
    number: int, uri: str, settings: Mapping[str, str], jars: Sequence[Path]
) -> Iterator[list[Competitor]]:
    """Yield as many processes that write below a URI, with Hadoop's settings."""
    given = {**settings, **IMPATIENT}
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(number) as pool:
        started = pool.map(lambda _: stack.enter_context(java_gateway(jars)), range(number))
        yield [Competitor(who, gateway, uri, given) for who, gateway in enumerate(started)]


def race(keys: int, competitors: Sequence[Competitor]) -> StoreVerdict:
    """Race writers for files in a new folder below their URI, which is deleted again.

    Raises UserError or WorkError if the store cannot be written.
    """
    first = competitors[0]
    uri = first.uri
    folder = f"{uri}/headwaters-store-check-{uuid.uuid4().hex}"
    with _refused(uri, is_write=False):
        first.list_files(folder)
    with _refused(uri, is_write=True):
        for kind in KINDS:
            first.begin(f"{folder}/probe-{kind}", kind, is_conditional=False).close()
    try:
        ignores = [kind for kind in KINDS if _overwrites(first, f"{folder}/probe-{kind}", kind)]
        races = [
            _one(competitors, kind, f"{folder}/{kind}-{number:05}")
            for kind in KINDS
            if kind not in ignores
            for number in range(keys)
        ]
    finally:
        with contextlib.suppress(Py4JJavaError):  # the verdict or the error matters more
            first.delete(folder)
    return verdict(races, ignores)


@contextlib.contextmanager
def _refused(uri: str, is_write: bool) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise refusal(uri, java_error(error), is_write) from None


def _overwrites(writer: Competitor, uri: str, kind: Kind) -> bool:
    try:
        writer.begin(uri, kind, is_conditional=True).close()
    except Py4JJavaError:
        return False
    return True


def _one(competitors: Sequence[Competitor], kind: Kind, uri: str) -> Race:
    barrier = threading.Barrier(len(competitors))
    with ThreadPoolExecutor(len(competitors)) as pool:
        answers = pool.map(lambda writer: writer.compete(uri, kind, barrier), competitors)
        return Race(kind, tuple(answers), competitors[0].stored(uri))


def java_error(error: Py4JJavaError) -> StoreError:
    """Return the exception of a call."""
    thrown = error.java_exception
    return StoreError(thrown.getClass().getSimpleName(), str(thrown.getMessage()))
