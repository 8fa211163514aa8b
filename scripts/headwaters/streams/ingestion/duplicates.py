"""Records with a repeated key: `deduplicate` of a stream."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwaters.streams.contract import Contract
from headwaters.streams.formats.problems import problem_of, with_problem


def newest_event(contract: Contract, rows: Column | None = None) -> Column:
    """Return the newest event time of a table's rows in microseconds, capped at ingestion time.

    Otherwise one record from the far future would make all later records late.
    """
    assert contract.stream.deduplicate
    time = F.col(f"`{contract.stream.deduplicate.event_time}`")
    taken = F.when(time.isNotNull(), F.least(time, F.col("_ingested_at")))  # least() skips nulls
    return F.unix_micros(F.max(taken if rows is None else F.when(rows, taken))).alias("newest")


def mark_repeated(
    contract: Contract, parsed: DataFrame, bronze: DataFrame, newest: int | None
) -> DataFrame:
    """Mark good records of a parsed batch that repeat a key as `duplicate`.

    The watermark of event time is `newest` (microseconds) less the declared time; without `newest`,
    event times have no watermark. An older record is `late`, because bronze cannot prove that its
    key is new. Of the others, only the first of a key is good, over the batch and the rows of
    `bronze` that are not older.
    """
    wanted = contract.stream.deduplicate
    assert wanted
    time, keys = F.col(f"`{wanted.event_time}`"), [f"`{key}`" for key in wanted.key]
    good, late = F.col("_good"), F.lit(False)
    if newest is not None:
        watermark = F.timestamp_micros(F.lit(newest - int(wanted.within * 1e6)))
        late = F.coalesce(time < watermark, F.lit(False))
        bronze = bronze.where((time >= watermark) | time.isNull())
    known = bronze.select(*keys).distinct().withColumn("_seen", F.lit(True))
    parsed = parsed.join(known, list(wanted.key), "left")
    # a repeated batch must choose the same record; fully equal records are interchangeable
    order = Window.partitionBy(*keys, good & ~late).orderBy(time, *contract.source.place, "_raw")
    complete = reduce(Column.__and__, [F.col(key).isNotNull() for key in keys])
    repeated = complete & (F.col("_seen").isNotNull() | (F.row_number().over(order) > 1))
    name = F.lit(", ".join(wanted.key))
    what = F.lit(f"is older than the newest event by more than {wanted.within:g} s")
    verdict = F.when(late, problem_of("late", F.lit(wanted.event_time), what)).when(
        repeated, problem_of("duplicate", name, F.lit("came before"))
    )
    return with_problem(parsed, verdict)
