"""The class of each source that `sources/declared.py` lists; a test compares the two.

mypy names the methods that a class lacks.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwaters.streams.contract import Contract
from headwaters.streams.formats.base import Format
from headwaters.streams.sources.base import Source
from headwaters.streams.sources.delta import Delta, DeltaChanges
from headwaters.streams.sources.files import Files
from headwaters.streams.sources.kafka import Kafka
from headwaters.streams.sources.rate import Rate
from headwaters.streams.stream import Stream

SOURCES: Mapping[str, type[Source]] = {
    "files": Files,
    "kafka": Kafka,
    "delta": Delta,
    "delta_changes": DeltaChanges,
    "rate": Rate,
}


def new_source(stream: Stream, contract: Contract, format_: Format) -> Source:
    """Return the source that a contract declares."""
    return SOURCES[contract.stream.source](stream, contract, format_)
