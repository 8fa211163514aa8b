"""The one list of formats. mypy names a format that is missing here, and what one lacks."""

from __future__ import annotations

from functools import cache

from headwaters.contract import Contract
from headwaters.formats.avro import AvroFiles, AvroMessages
from headwaters.formats.base import Format
from headwaters.formats.columns import Columns
from headwaters.formats.csv import Csv
from headwaters.formats.json import Json
from headwaters.formats.parquet import Parquet
from headwaters.formats.raw import Raw


@cache
def format_of(contract: Contract) -> Format:
    """The format of a stream; kept, since it keeps the expressions that it has built."""
    stream = contract.stream
    if stream.source not in ("files", "kafka"):
        return Columns(contract)  # whatever it says, these deliver columns that have their types
    match stream.format:
        case "json":
            return Json(contract)
        case "csv":
            return Csv(contract)
        case "parquet":
            return Parquet(contract)
        case "avro":
            return AvroFiles(contract) if stream.source == "files" else AvroMessages(contract)
        case "raw":
            return Raw(contract)
        case None:
            return Columns(contract)
