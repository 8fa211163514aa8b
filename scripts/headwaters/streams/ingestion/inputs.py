"""The source of a stream, with the format of its records."""

from __future__ import annotations

from headwaters.streams.contract import Contract
from headwaters.streams.formats.registry import format_of
from headwaters.streams.sources.base import Source
from headwaters.streams.sources.registry import new_source
from headwaters.streams.stream import Stream


def source_of(stream: Stream, contract: Contract | None = None) -> Source:
    """Return the source of a stream, by its contract, or by that of an interrupted batch."""
    contract = contract or stream.contract
    return new_source(stream, contract, format_of(contract))


def refresh_backlog(stream: Stream) -> None:
    """Update a stream's backlog from `Source.backlog`."""
    stream.pending = source_of(stream).backlog()
