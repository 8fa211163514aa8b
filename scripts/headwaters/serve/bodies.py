"""The body of a request, read as it comes, within limits: as it is sent, and unpacked."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import lru_cache

from headwaters.serve.records import Form

FORMS: dict[str, Form] = {
    "application/json": "array",
    "application/x-ndjson": "lines",
    "application/ndjson": "lines",
}
_GZIP = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 1000


class Refusal(Exception):
    """A request that is refused: its code, a type for programs, a message for people."""

    def __init__(self, code: int, type_: str, message: str, **more: object) -> None:
        """A refusal; `more` goes into the answer."""
        super().__init__(code, type_, message)
        self.code, self.type, self.message, self.more = code, type_, message, more


@lru_cache(maxsize=64)
def form_of(content_type: str | None) -> Form:
    """What a body is. Raises Refusal (415) for a type that no stream takes."""
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


def packed(content_encoding: str | None) -> bool:
    """Whether a body is gzip. Raises Refusal (415) for another encoding."""
    name = (content_encoding or "identity").strip().lower()
    if name in ("gzip", "x-gzip"):
        return True
    if name == "identity":
        return False
    raise Refusal(
        415, "content_encoding", f"{content_encoding} is not taken: send gzip, or no encoding"
    )


def too_large(limit: int) -> Refusal:
    """The refusal of a body that exceeds the limit."""
    return Refusal(
        413, "too_large", f"a request may have {limit:,} bytes, also when unpacked: send several"
    )


@dataclass
class Budget:
    """The bytes of all bodies in flight, of which each request takes as much as it has."""

    limit: int
    taken: int = 0

    def take(self, size: int) -> None:
        """Take bytes. Raises Refusal (429) where there are none left."""
        if self.taken + size > self.limit:
            raise busy()
        self.taken += size


def busy() -> Refusal:
    """The refusal of a request that comes while too many are in flight."""
    return Refusal(429, "busy", "too many requests are in flight: try again", retry_after=1)


@dataclass
class Body:
    """One body while it is read: `size` is what it has taken of the budget."""

    budget: Budget
    limit: int
    size: int = 0

    async def read(self, chunks: AsyncIterator[bytes], gzip: bool) -> bytes:
        """The whole body, unpacked. Raises Refusal (400, 413, 429)."""
        unpack = _Unpacking() if gzip else None
        found: list[bytes] = []
        sent = 0
        async for chunk in chunks:
            sent += len(chunk)
            if sent > self.limit:
                raise too_large(self.limit)
            for part in [chunk] if unpack is None else unpack.parts(chunk):
                self._take(len(part))
                found.append(part)
        if unpack is not None and not unpack.whole:
            raise _broken()
        return found[0] if len(found) == 1 else b"".join(found)

    def _take(self, size: int) -> None:
        if self.size + size > self.limit:
            raise too_large(self.limit)
        self.budget.take(size)
        self.size += size

    def give_back(self) -> None:
        """Give its bytes back to the budget."""
        self.budget.taken -= self.size
        self.size = 0


class _Unpacking:
    """gzip in pieces of bounded size; members may follow each other."""

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
