"""Kafka records with a key and no value: the rows that `changes.tombstones` makes of them.

This module only builds expressions; it reads and writes nothing.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwaters.streams.contract import Contract
from headwaters.streams.formats.problems import Problem, problem_of
from headwaters.streams.formats.schema_registry import unframed
from headwaters.streams.formats.values import fitted_text


def accepts_tombstones(contract: Contract) -> bool:
    """Return true if a tombstone becomes a row of bronze: only a message can be one."""
    changes = contract.stream.changes
    messages = contract.source.delivers == "messages"
    return messages and changes is not None and changes.tombstones == "rows"


def is_tombstone() -> Column:
    """Return true for a tombstone. Without a key it would delete nothing, and is malformed."""
    return F.col("_raw").isNull() & F.col("_key").isNotNull()


def key_columns(contract: Contract) -> dict[str, Column]:
    """Return the values of `changes.key` in a message's key, in their types.

    A key is a JSON object, with or without Debezium's schema, or the text itself if there is one
    column. Values that do not fit are null, as is all of a key that is not UTF-8, or that has the
    bytes of a schema registry without a word of the contract.
    """
    changes = contract.stream.changes
    if changes is None or not accepts_tombstones(contract):
        return {}
    key = unframed(F.col("_key")) if contract.stream.registry else F.col("_key")
    text = F.when(F.is_valid_utf8(key) & ~key.startswith(F.lit(b"\0")), key.cast("string"))
    is_object = F.json_object_keys(text).isNotNull()
    columns = {column.name: column for column in contract.columns}
    found = {}
    for name in changes.key:
        field = columns[name].field
        paths = (f"$.payload['{field}']", f"$['{field}']")
        said = F.coalesce(*[F.get_json_object(text, path) for path in paths])
        if len(changes.key) == 1:
            said = F.when(is_object, said).otherwise(text)
        found[name] = fitted_text(columns[name], said)
    return found


def no_key(name: str) -> Problem:
    """Return the problem of a change whose row is unknown."""
    column = F.col(f"`{name}`")
    return column.isNull(), problem_of("not_null", F.lit(name), F.lit("is null"))
