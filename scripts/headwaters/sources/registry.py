"""The one list of sources. mypy names a kind that is missing here, and what a source lacks."""

from __future__ import annotations

from headwaters.contract import Contract
from headwaters.formats.base import Format
from headwaters.ingestion.stream import Stream
from headwaters.sources.base import Source
from headwaters.sources.delta import Delta, DeltaChanges
from headwaters.sources.files import Files
from headwaters.sources.kafka import Kafka
from headwaters.sources.rate import Rate


def new_source(stream: Stream, contract: Contract, format_: Format) -> Source:
    """The source that a contract declares."""
    match contract.stream.source:
        case "files":
            return Files(stream, contract, format_)
        case "kafka":
            return Kafka(stream, contract, format_)
        case "delta":
            return Delta(stream, contract, format_)
        case "delta_changes":
            return DeltaChanges(stream, contract, format_)
        case "rate":
            return Rate(stream, contract, format_)
