"""Change events without their placeholders, and the names of the columns that had one.

This module only builds expressions; `placeholders` has the texts.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwaters.streams.contract import UNAVAILABLE, Contract
from headwaters.streams.formats import placeholders

NAME = UNAVAILABLE[0]


def without_placeholders(contract: Contract, events: DataFrame, row: Column) -> DataFrame:
    """Return events with `_unavailable`, and null in their JSON for each placeholder.

    `row` has the fields of the row as texts. Only an event with the text of a placeholder anywhere
    gets a closer check.
    """
    needles = _needles(contract)
    if not needles or contract.placeholder is None:
        return events.withColumn(NAME, F.lit(None).cast(UNAVAILABLE[1]))
    value = F.col("value")
    suspected = reduce(Column.__or__, [F.contains(value, F.lit(text)) for text in needles])
    read = [column.field for column in contract.read_columns]
    pattern = placeholders.pattern(contract.placeholder, read)
    cleared = F.regexp_replace(value, F.lit(pattern), F.lit("$1null"))
    events = events.withColumn(NAME, F.when(suspected, _names(contract, row)))
    return events.withColumn("value", F.when(F.col(NAME).isNotNull(), cleared).otherwise(value))


def is_unavailable(name: str) -> Column:
    """Return whether an event lacks the value of a column."""
    return F.coalesce(F.array_contains(NAME, F.lit(name)), F.lit(False))


def _needles(contract: Contract) -> tuple[str, ...]:
    if contract.placeholder is None:
        return ()
    return placeholders.needles(
        contract.placeholder, [column.data_type for column in contract.read_columns]
    )


def _names(contract: Contract, row: Column) -> Column:
    """Return the names of the columns whose value is unavailable, or null for none."""
    assert contract.placeholder is not None
    texts = [
        F.lit(placeholders.as_field(one)) for one in placeholders.texts_of(contract.placeholder)
    ]
    lacking = F.map_keys(F.map_filter(row, lambda _, text: text.isin(*texts)))
    found = [
        F.when(F.arrays_overlap(lacking, F.array(*map(F.lit, read))), F.lit(name))
        for name, read in contract.maybe_unavailable().items()
    ]
    names = F.array_compact(F.array(*found))
    return F.when(F.size(names) > 0, names)
