"""`headwaters ingest --from`: where a stream resumes whose checkpoint is gone, but not its tables.

`recreated` is for a topic that was deleted and created again, and replaces a checkpoint.

What is decided is written down in the new checkpoint before its first batch (`begin.json`), so that
it holds after a crash as well. `table` reads again from the last batch of bronze, whose part of
quarantine may be missing, and leaves out what the two tables hold.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from headwaters.contract import Contract
from headwaters.errors import UserError
from headwaters.ingestion.checkpoint import Offsets, landed
from headwaters.sources import kafka_client as kafka
from headwaters.sources.base import identities, latest_version, recreated

if TYPE_CHECKING:
    from headwaters.ingestion.run import Stream

From = Literal["earliest", "table", "latest", "recreated"]
# Of these, Spark keeps no end that it began at, or knows no such start: it is written down here.
KEEP_LATEST = ("files", "delta", "delta_changes")


def decide(spark: Any, stream: Stream, begin: From) -> None:
    """Write down where the first batch of a new checkpoint begins.

    Raises UserError for `table` where rows do not say what their place in the source was.
    """
    source = stream.contract.stream.source
    note: dict[str, Any] = {"from": begin}
    if begin == "latest" and source == "files":
        note["files"] = [_name(stream, str(file)) for file in landed(stream.path)]
    if begin == "latest" and source in ("delta", "delta_changes"):
        note["version"] = latest_version(spark, stream)
    if begin == "table":
        if source == "kafka":
            note |= _from_table(spark, stream)
        elif source == "files":
            note |= _files_note(spark, stream)
        else:
            raise UserError(
                f"{stream.contract.name}: --from table needs rows that know their offset or file, "
                f"and {source} has neither: choose --from earliest or latest, or declare a start"
            )
    stream.checkpoint.keep_begun(note)


def decide_recreated(spark: Any, stream: Stream) -> None:
    """Begin at the beginning of each topic that was recreated, and resume where the others are.

    What the tables hold of the new topics is left out: a record at the same place, with the same
    time and key.
    """
    checkpoint = stream.checkpoint
    found = identities(stream)
    topics = recreated(stream, found)
    begun, read_to = checkpoint.start(), checkpoint.offsets(checkpoint.committed)
    if not topics:
        return
    if not begun:  # nothing was read yet
        checkpoint.keep_topics(found)
        return
    before = checkpoint.begun().get("first", {})

    def others(offsets: Offsets) -> Offsets:
        return {topic: at for topic, at in offsets.items() if topic not in topics}

    note = {
        "from": "recreated",
        "replaces": checkpoint.id,
        "recreated": sorted({*topics, *checkpoint.begun().get("recreated", [])}),
        "topics": checkpoint.topics() | found,
        "first": others(begun) | {t: at for t, at in before.items() if t not in topics},
        "offsets": others(read_to or begun),
        "held": _capped(_kafka_note(spark, stream)["held"], _ends(stream)),
    }
    checkpoint.keep_begun(note)


Ends = dict[str, dict[int, tuple[int, int]]]


def _ends(stream: Stream) -> Ends:
    return kafka.ranges(stream.servers, stream.contract.stream.topics, stream.client)


def _capped(held: dict[str, dict[str, int]], ends: Ends) -> dict[str, dict[str, int]]:
    """Up to where the tables may hold records of a topic: not beyond its end."""
    return {
        topic: {
            partition: min(end, ends[topic][int(partition)][1])
            for partition, end in partitions.items()
            if int(partition) in ends[topic]
        }
        for topic, partitions in held.items()
        if topic in ends
    }


def _from_table(spark: Any, stream: Stream) -> dict[str, Any]:
    """Begin after what the tables hold; of a topic that is another by now, at its beginning."""
    note, ends = _kafka_note(spark, stream), _ends(stream)
    others = _other_topics(spark, stream, note, ends)
    for key in ("first", "offsets"):
        note[key] = {topic: at for topic, at in note[key].items() if topic not in others}
    return note | {"held": _capped(note["held"], ends), "recreated": sorted(others)}


_COMPARED = 100  # records of each partition


def _other_topics(spark: Any, stream: Stream, note: dict[str, Any], ends: Ends) -> set[str]:
    """The topics that are not those which the tables were read from.

    With the checkpoint, their identities are lost: a topic is another one where it is shorter than
    what the tables hold, or has other records than they at the last places that both have.
    """
    from pyspark.sql import functions as F

    others, places = set(), {}
    for topic, partitions in note["held"].items():
        for partition, held in partitions.items():
            low, high = ends.get(topic, {}).get(int(partition), (0, held))
            if high < held:
                others.add(topic)
            start = max(low, note["first"][topic][partition], held - _COMPARED)
            if topic in ends and start < held:
                places[topic, partition] = (start, held)
    places = {at: span for at, span in places.items() if at[0] not in others}
    if not places:
        return others

    def named(which: int) -> str:
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), span in places.items():
            found.setdefault(topic, {})[partition] = span[which]
        return json.dumps(found)

    assigned: dict[str, list[int]] = {}
    for topic, partition in places:
        assigned.setdefault(topic, []).append(int(partition))
    options = {
        "kafka.bootstrap.servers": stream.servers,
        "assign": json.dumps(assigned),
        "startingOffsets": named(0),
        "endingOffsets": named(1),
        "failOnDataLoss": "false",
        **stream.java_client,
    }
    columns = ("_topic", "_partition", "_offset", "_timestamp", "_key")
    sent = spark.read.format("kafka").options(**options).load()
    sent = sent.select(*[F.col(name[1:]).alias(f"sent{name}") for name in columns])
    bronze, quarantine = _both(spark, stream, *columns)
    same = [F.col(f"sent{name}") == F.col(name) for name in columns[:3]]
    both = sent.join(bronze.union(quarantine), same)
    equal = [F.col(f"sent{name}").eqNullSafe(F.col(name)) for name in columns[3:]]
    differ = both.where(~(equal[0] & equal[1])).select("_topic").distinct().collect()
    return others | {row["_topic"] for row in differ}


def _name(stream: Stream, path: str) -> str:
    return path.removeprefix(f"{stream.lake}/")


def _both(spark: Any, stream: Stream, *columns: str) -> tuple[Any, Any]:
    return tuple(
        spark.read.format("delta").load(str(table)).select(*columns)
        for table in (stream.bronze, stream.quarantine)
    )


def _last_batches(spark: Any, stream: Stream) -> list[int]:
    """The number of the last batch of each checkpoint that wrote bronze: clocks may go back."""
    from headwaters.tables import state

    batches = state(spark, stream.bronze).batches.items()
    return sorted({n for app, n in batches if not app.endswith(":replay")})


def _kafka_note(spark: Any, stream: Stream) -> dict[str, Any]:
    from pyspark.sql import functions as F

    bronze, quarantine = _both(spark, stream, "_topic", "_partition", "_offset", "_batch_id")
    known = bronze.union(quarantine)
    whole = ~F.col("_batch_id").isin(_last_batches(spark, stream))
    places = known.groupBy("_topic", "_partition").agg(
        F.min("_offset").alias("first"),
        (F.max(F.when(whole, F.col("_offset"))) + 1).alias("again"),
        (F.max("_offset") + 1).alias("held"),
    )
    note: dict[str, Any] = {"first": {}, "offsets": {}, "held": {}}
    for row in places.collect():
        # a partition that the last batch was the first to read
        again = row["first"] if row["again"] is None else row["again"]
        for key, offset in (("first", row["first"]), ("offsets", again), ("held", row["held"])):
            note[key].setdefault(row["_topic"], {})[str(row["_partition"])] = offset
    return note


def _files_note(spark: Any, stream: Stream) -> dict[str, Any]:
    from pyspark.sql import functions as F

    bronze, quarantine = _both(spark, stream, "_source_file", "_batch_id")

    def files(rows: Any) -> set[str]:
        return {row[0] for row in rows.select("_source_file").distinct().collect()}

    bad = files(quarantine)
    half = files(bronze.where(F.col("_batch_id").isin(_last_batches(spark, stream)))) - bad
    return {"files": sorted((files(bronze) | bad) - half), "half": sorted(half)}


def left_out(spark: Any, stream: Stream, contract: Contract, parsed: Any, number: int) -> Any:
    """A parsed batch without what the tables held when the new checkpoint was begun."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    note = stream.checkpoint.begun()
    if "files" in note:
        names = spark.createDataFrame([(name,) for name in note["files"]], "_source_file string")
        half = F.col("_source_file").isin(note.get("half", [])) & F.col("_good")
        return parsed.join(F.broadcast(names), "_source_file", "left_anti").where(~half)
    if "held" not in note:
        return parsed
    done = stream.checkpoint.offsets(number - 1)
    again = [
        (F.col("_topic") == topic)
        & (F.col("_partition") == int(partition))
        & (F.col("_offset") >= note["offsets"].get(topic, {}).get(partition, 0))
        & (F.col("_offset") < end)
        for topic, partitions in note["held"].items()
        for partition, end in partitions.items()
        if done.get(topic, {}).get(int(partition), 0) < end
    ]
    if not again:
        return parsed
    # of a topic that was recreated, a row at the same place may be of the topic before
    keys = ("_topic", "_partition", "_offset", "_timestamp", "_key")
    bronze, quarantine = _both(spark, stream, *keys)
    known = bronze.union(quarantine).where(reduce(Column.__or__, again)).alias("known")
    same = [F.col(f"records.{key}").eqNullSafe(F.col(f"known.{key}")) for key in keys]
    return parsed.alias("records").join(known, reduce(Column.__and__, same), "left_anti")
