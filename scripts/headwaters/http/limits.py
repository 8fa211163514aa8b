"""The limits of a request, of its head and body, and of all bodies in flight."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headwaters.http.schema import Form

MOST_OUTSIDE = 1 << 16  # bytes of a request's head, and of the framing between chunks of its body
FORMS: dict[str, Form] = {
    "application/json": "array",
    "application/x-ndjson": "lines",
    "application/ndjson": "lines",
}
_GZIP = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 1000


@dataclass(frozen=True)
class Limits:
    """The limits of a request, and of all requests in flight together."""

    body: int = 8 << 20
    requests: int = 512
    bytes: int = 64 << 20
    body_seconds: float = 60.0


class Refusal(Exception):
    """A refused request: its code, a type for programs, a message for people."""

    def __init__(self, code: int, type_: str, message: str, **more: Any) -> None:
        """Store the parts of the answer, with the additional fields `more`."""
        super().__init__(code, type_, message)
        self.code, self.type, self.message, self.more = code, type_, message, more


@lru_cache(maxsize=64)
def form_of(content_type: str | None) -> Form:
    """Return the form of a body. Raises Refusal (415) for an unsupported type."""
    name, *parameters = (part.strip().lower() for part in (content_type or "").split(";"))
    charsets = [one.partition("=")[2].strip('"') for one in parameters if one[:7] == "charset"]
    form = FORMS.get(name)
    if form is None or any(charset not in ("utf-8", "utf8", "us-ascii") for charset in charsets):
        raise Refusal(
            415,
            "content_type",
            f"{content_type or 'no Content-Type'} is not taken: send application/json with an "
            "array, or application/x-ndjson with a record a line, in UTF-8",
        )
    return form


def is_gzip(content_encoding: str | None) -> bool:
    """Return true if a body is gzip. Raises Refusal (415) for another encoding."""
    name = (content_encoding or "identity").strip().lower()
    if name not in ("gzip", "x-gzip", "identity"):
        reason = f"{content_encoding} is not taken: send gzip, or no encoding"
        raise Refusal(415, "content_encoding", reason)
    return name != "identity"


def too_large(limit: int) -> Refusal:
    """Return the refusal of a body that exceeds the limit."""
    return Refusal(
        413, "too_large", f"a request may have {limit:,} bytes, also when unpacked: send several"
    )


def busy() -> Refusal:
    """Return the refusal of a request that arrives while too many are in flight."""
    return Refusal(429, "busy", "too many requests are in flight: try again", retry_after=1)


@dataclass
class Budget:
    """A limit of the bytes of all bodies in flight."""

    limit: int
    taken: int = 0

    def take(self, size: int) -> None:
        """Take bytes. Raises Refusal (429) if too few are left."""
        if self.taken + size > self.limit:
            raise busy()
        self.taken += size


@dataclass
class Body:
    """A body while it is read; `size` is its part of the budget."""

    budget: Budget
    limit: int
    size: int = 0

    async def read(self, chunks: AsyncIterator[bytes], gzip: bool) -> bytes:
        """Return the whole body, unpacked. Raises Refusal (400, 413, 429)."""
        unpack = _Unpacking() if gzip else None
        parts: list[bytes] = []
        sent = 0
        async for chunk in chunks:
            sent += len(chunk)
            if sent > self.limit:
                raise too_large(self.limit)
            for part in [chunk] if unpack is None else unpack.parts(chunk):
                self._take(len(part))
                parts.append(part)
        if unpack is not None and not unpack.whole:
            raise _broken()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, size: int) -> None:
        if self.size + size > self.limit:
            raise too_large(self.limit)
        self.budget.take(size)
        self.size += size

    def give_back(self) -> None:
        """Return its bytes to the budget."""
        self.budget.taken -= self.size
        self.size = 0


class _Unpacking:
    """A decoder of gzip in pieces of bounded size; several members may follow each other."""

    def __init__(self) -> None:
        self._members, self._unpack = 1, zlib.decompressobj(_GZIP)

    @property
    def whole(self) -> bool:
        return self._unpack.eof

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._unpack.eof:
                self._members += 1
                self._unpack = zlib.decompressobj(_GZIP)
            if self._members > _MOST_MEMBERS:
                raise _broken()
            try:
                part = self._unpack.decompress(chunk, 1 << 16)
            except zlib.error:
                raise _broken() from None
            chunk = self._unpack.unconsumed_tail or self._unpack.unused_data
            yield part


def _broken() -> Refusal:
    return Refusal(400, "content_encoding", "the body is not gzip, or not all of it")


class BoundedProtocol(HttpToolsProtocol):
    """A protocol that refuses requests with a larger head or larger trailers.

    httptools itself accepts headers of any size.
    """

    _outside = _headers = 0

    def data_received(self, data: bytes) -> None:
        """Count the bytes outside of bodies."""
        self._outside += len(data)
        super().data_received(data)
        if self._outside > MOST_OUTSIDE and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._headers = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer; one call of `data_received` may contain many, and bodies."""
        self._headers += len(name) + len(value)
        if self._headers > MOST_OUTSIDE:
            raise ValueError("The head of the request is too large.")  # answered with 400
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Exclude a part of a body from the count."""
        self._outside -= len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """End a chunk: trailers may follow the last."""
        self._outside = 0

    def on_message_complete(self) -> None:
        """End a request; the same data may contain the next one."""
        self._outside = 0
        super().on_message_complete()


def configured(application: ASGIApp, **settings: Any) -> uvicorn.Config:
    """Return the settings of the server."""
    return uvicorn.Config(
        application,
        http=BoundedProtocol,
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # the application reads them
        lifespan="on",
        **settings,
    )
