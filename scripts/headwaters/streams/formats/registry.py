"""The class of each format that `formats/declared.py` lists; a test compares the two.

mypy names the methods that a class lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headwaters.streams.contract import Contract
from headwaters.streams.formats.avro import AvroFiles, AvroMessages
from headwaters.streams.formats.base import Format
from headwaters.streams.formats.columns import Columns
from headwaters.streams.formats.csv import Csv
from headwaters.streams.formats.debezium import Debezium
from headwaters.streams.formats.declared import Carrier
from headwaters.streams.formats.json import Json
from headwaters.streams.formats.parquet import Parquet
from headwaters.streams.formats.paths import with_objects
from headwaters.streams.formats.raw import Raw

FORMATS: Mapping[str, Mapping[Carrier, type[Format]]] = {
    "json": {"files": Json, "messages": Json},
    "csv": {"files": Csv},
    "parquet": {"files": Parquet},
    "avro": {"files": AvroFiles, "messages": AvroMessages},
    "raw": {"files": Raw, "messages": Raw},
}


@cache
def format_of(contract: Contract) -> Format:
    """Return the format of a stream, cached because it caches its expressions."""
    contract = with_objects(contract)
    format_, carrier = contract.format, contract.source.delivers
    if format_ is None or carrier is None:
        return Columns(contract)  # for any format, because rows have typed columns
    changes = contract.stream.changes
    if changes is not None and changes.envelope == "debezium":
        return Debezium(contract)
    return FORMATS[format_.name][carrier](contract)
