"""The source of a stream, with the format of its records."""

from __future__ import annotations

from headwaters.contract import Contract
from headwaters.formats.registry import format_of
from headwaters.sources.base import Source
from headwaters.sources.registry import new_source
from headwaters.stream import Stream


def source_of(stream: Stream, contract: Contract | None = None) -> Source:
    """The source of a stream, by its contract, or by the one that a batch began with."""
    contract = contract or stream.contract
    return new_source(stream, contract, format_of(contract))


def refresh_backlog(stream: Stream) -> None:
    """See what a stream has not yet read: as `Source.backlog`."""
    stream.pending = source_of(stream).backlog()
