"""Kafka topics as a source."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.checkpoint import Offsets, Pending
from headwaters.streams.sources import kafka_client as kafka
from headwaters.streams.sources.base import (
    Balance,
    Compare,
    Moment,
    Source,
    SourceReplaced,
    both_tables,
    last_batches,
    stored,
    utc,
)
from headwaters.streams.sources.declared import StartAt
from headwaters.streams.stream import From

Ends = dict[str, dict[int, tuple[int, int]]]
_COMPARED = 100  # records of each partition


@dataclass(frozen=True)
class Kafka(Source):
    """The records of some topics."""

    recreatable = True

    @property
    def servers(self) -> str:
        """Return the brokers."""
        return self.stream.contract.stream.servers or kafka.servers(self.stream.local)

    @property
    def client(self) -> dict[str, str]:
        """Return the settings of a Kafka client, secrets included: read on each use, never stored.

        Raises UserError for an environment variable that is not set.
        """
        return kafka.resolved(self._where, self.stream.contract.stream.client)

    @property
    def java_client(self) -> dict[str, str]:
        """Return the same as Spark options for Java's client, which looks up secrets itself."""
        settings = kafka.for_java(self._where, self.stream.contract.stream.client)
        return {f"kafka.{key}": value for key, value in settings.items()}

    @property
    def _where(self) -> str:
        return f"{self.stream.contract.file}: {self.stream.contract.name}"

    def describe(self) -> str:
        """Return its topics."""
        return " ".join(self.contract.stream.topics)

    def backlog(self) -> Pending:
        """Return the records that no batch has taken. Raises SourceReplaced."""
        ends = self._ends()
        if self.stream.begin != "recreated":
            self.check_identity()
        return self.stream.checkpoint.behind(ends)

    def _ends(self) -> Ends:
        return kafka.ranges(self.servers, self.stream.contract.stream.topics, self.client)

    def check_identity(self) -> None:
        """Raise SourceReplaced if a topic was recreated.

        Call it before and after each read, because this may happen at any moment of a batch.
        """
        self._known_topics()

    def keep_identity(self) -> None:
        """Store the identities of the topics."""
        self.stream.checkpoint.keep_topics(self._known_topics())

    def _known_topics(self) -> dict[str, str]:
        found = self._identities()
        if new := self._recreated(found):
            name, topics = self.stream.contract.name, ", ".join(new)
            raise SourceReplaced(
                "HW_TOPIC_RECREATED",
                f"the topic {topics} was deleted and created again since {name} last read it, "
                f"and its offsets began at 0 again: run headwaters ingest --select {name} --from "
                "recreated, which reads the new topic from its beginning and leaves out what "
                "bronze and quarantine hold of it",
            )
        return found

    def _identities(self) -> dict[str, str]:
        return kafka.identities(self.servers, self.stream.contract.stream.topics, self.client)

    def _recreated(self, found: Mapping[str, str]) -> list[str]:
        """Return the topics whose identity differs from the stored one."""
        known = self.stream.checkpoint.topics()
        return [topic for topic in found if known.get(topic, found[topic]) != found[topic]]

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the records with their lineage, since the checkpoint's start."""
        declared, batch = self.contract.stream, self.contract.stream.batch
        options = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(declared.topics),
            "includeHeaders": "true",
            "failOnDataLoss": str(declared.data_loss == "fail").lower(),
            **self.java_client,
            **self._start(),
        }
        if batch.max_records:
            options["maxOffsetsPerTrigger"] = str(batch.max_records)
        # a run that ends when nothing is left would otherwise omit the last records
        if batch.min_records and self.stream.endless:
            options["minOffsetsPerTrigger"] = str(batch.min_records)
            options["maxTriggerDelay"] = f"{int((batch.max_delay or 30) * 1000)}ms"
        raw = spark.readStream.format("kafka").options(**options).load()
        value = self.format.of_message(F.col("value"))
        return raw.select(
            value.alias("value"),
            *[F.col(name.removeprefix("_")).alias(name) for name in self.contract.origin],
        )

    def records(
        self, spark: SparkSession, batch: DataFrame, number: int, without: Collection[str] = ()
    ) -> list[DataFrame]:
        """Return the records of a batch, with the schemas that a registry has for them."""
        if self.contract.stream.schemas is None:
            return [batch]
        checkpoint = self.stream.checkpoint
        noted, unread = self.format.noted(batch, checkpoint.unread_schemas(number))
        checkpoint.keep_unread_schemas(number, unread)
        return [noted]

    def _start(self) -> dict[str, str]:
        start, topics = self.stream.start, self.stream.contract.stream.topics
        named = self.stream.checkpoint.begun().get("offsets")
        if named is None and isinstance(start, StartAt) and start.offsets is not None:
            named = {
                t: {str(p): at for p, at in parts.items()} for t, parts in start.offsets.items()
            }
        if named is not None:
            # Spark needs all partitions; the others start at their beginning
            ends = kafka.ranges(self.servers, topics, self.client)
            offsets = {t: {p: named.get(t, {}).get(str(p), -2) for p in ends[t]} for t in ends}
            return {"startingOffsets": json.dumps(offsets)}
        if isinstance(start, str):
            return {"startingOffsets": start}
        return {
            "startingTimestamp": str(int(utc(start).timestamp() * 1000)),
            "startingOffsetsByTimestampStrategy": "latest",
        }

    def position(self) -> str:
        """Return the next offset of each partition."""
        checkpoint = self.stream.checkpoint
        offsets = checkpoint.offsets(checkpoint.committed)
        parts = {
            t: " ".join(f"{p}:{at}" for p, at in sorted(o.items())) for t, o in offsets.items()
        }
        return ", ".join(f"{t} {o}" if len(parts) > 1 else o for t, o in parts.items())

    def place(self, row: Row) -> str:
        """Return the record's topic, partition and offset."""
        return f"{row['_topic']}, partition {row['_partition']}, offset {row['_offset']}"

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """Return positions after the rows of the tables, and 0 for recreated topics."""
        if begin != "table":
            return {}
        note, ends = self._stored(spark), self._ends()
        others = self._other_topics(spark, note, ends)
        for key in ("first", "offsets"):
            note[key] = {topic: at for topic, at in note[key].items() if topic not in others}
        return note | {"held": _capped(note["held"], ends), "recreated": sorted(others)}

    def decide_recreated(self, spark: SparkSession) -> None:
        """Store the beginning of each recreated topic, and the stored positions of the others.

        Records of a new topic that the tables already have are left out: same place, time and key.
        """
        checkpoint = self.stream.checkpoint
        found = self._identities()
        topics = self._recreated(found)
        begun, read_to = checkpoint.start(), checkpoint.offsets(checkpoint.committed)
        if not topics:
            return
        if not begun:  # no batch has run yet
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
            "held": _capped(self._stored(spark)["held"], self._ends()),
        }
        checkpoint.keep_begun(note)

    def _other_topics(self, spark: SparkSession, note: dict[str, Any], ends: Ends) -> set[str]:
        """Return the topics that were recreated since the tables read them.

        Their identities were lost with the checkpoint. A topic counts as recreated if it is shorter
        than its rows in the tables, or if its last common records differ from these rows.
        """
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
            "kafka.bootstrap.servers": self.servers,
            "assign": json.dumps(assigned),
            "startingOffsets": named(0),
            "endingOffsets": named(1),
            "failOnDataLoss": "false",
            **self.java_client,
        }
        columns = ("_topic", "_partition", "_offset", "_timestamp", "_key")
        sent = spark.read.format("kafka").options(**options).load()
        sent = sent.select(*[F.col(name[1:]).alias(f"sent{name}") for name in columns])
        bronze, quarantine = both_tables(spark, self.stream, *columns)
        same = [F.col(f"sent{name}") == F.col(name) for name in columns[:3]]
        both = sent.join(bronze.union(quarantine), same)
        equal = [F.col(f"sent{name}").eqNullSafe(F.col(name)) for name in columns[3:]]
        differ = both.where(~(equal[0] & equal[1])).select("_topic").distinct().collect()
        return others | {row["_topic"] for row in differ}

    def _stored(self, spark: SparkSession) -> dict[str, Any]:
        """Return each partition's first offset in the tables, its resume offset, and its end."""
        bronze, quarantine = both_tables(
            spark, self.stream, "_topic", "_partition", "_offset", "_batch_id"
        )
        known = bronze.union(quarantine)
        whole = ~F.col("_batch_id").isin(last_batches(spark, self.stream))
        places = known.groupBy("_topic", "_partition").agg(
            F.min("_offset").alias("first"),
            (F.max(F.when(whole, F.col("_offset"))) + 1).alias("again"),
            (F.max("_offset") + 1).alias("held"),
        )
        note: dict[str, Any] = {"first": {}, "offsets": {}, "held": {}}
        for row in places.collect():
            # only the last batch has read this partition
            again = row["first"] if row["again"] is None else row["again"]
            for key, offset in (("first", row["first"]), ("offsets", again), ("held", row["held"])):
                note[key].setdefault(row["_topic"], {})[str(row["_partition"])] = offset
        return note

    def without_stored(self, spark: SparkSession, parsed: DataFrame, number: int) -> DataFrame:
        """Remove the records that the tables already had from a parsed batch."""
        note = self.stream.checkpoint.begun()
        if "held" not in note:
            return parsed
        done = self.stream.checkpoint.offsets(number - 1)
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
        # in a recreated topic, a row at the same place may belong to the old topic
        keys = ("_topic", "_partition", "_offset", "_timestamp", "_key")
        bronze, quarantine = both_tables(spark, self.stream, *keys)
        known = bronze.union(quarantine).where(reduce(Column.__or__, again)).alias("known")
        same = [F.col(f"records.{key}").eqNullSafe(F.col(f"known.{key}")) for key in keys]
        return parsed.alias("records").join(known, reduce(Column.__and__, same), "left_anti")

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balances by topic, partition and offset, compared with the broker."""
        held = self._ends()
        spans = self._spans(now, held)
        keys = ["_topic", "_partition", "_offset", "_timestamp"]
        sent = self._sent(spark, spans, held)
        limits = spark.createDataFrame(
            [(one.topic, one.partition, one.first, one.end) for one in spans],
            "_topic string, _partition int, _first bigint, _end bigint",
        )
        known = stored(spark, self.stream, now, keys)
        inside = known.join(F.broadcast(limits), ["_topic", "_partition"])
        inside = inside.where("_offset >= _first and _offset < _end")
        rows = inside.groupBy(*keys).agg(
            F.count("*").alias("_rows"), F.sum("_bronze").alias("_bronze")
        )
        # the tables also keep rows of the old topic
        recreated = self.stream.checkpoint.begun().get("recreated", [])
        unsent = F.col("_sent").isNull()
        both = sent.join(rows, keys, "full").where(~(unsent & F.col("_topic").isin(recreated)))
        # compacted records no longer exist in the broker
        topics = kafka.compacted(self.servers, self.stream.contract.stream.topics, self.client)
        return _account(both.withColumn("_gone", unsent & F.col("_topic").isin(topics)))

    def _spans(self, now: Moment, held: Ends) -> list[_Span]:
        """Return the offsets that were read from each remaining partition."""
        checkpoint = self.stream.checkpoint
        # includes offsets that were read before the checkpoint was lost
        before = checkpoint.begun().get("first", {})
        known = {topic: {int(p): at for p, at in parts.items()} for topic, parts in before.items()}
        begun = checkpoint.start() | known
        spans = []
        for topic, partitions in checkpoint.offsets(now.committed).items():
            for partition, end in partitions.items():
                if partition in held.get(topic, {}):
                    low, _ = held[topic][partition]
                    start = begun.get(topic, {}).get(partition, 0)
                    # records past retention no longer exist in the topic
                    spans.append(_Span(topic, partition, min(max(start, low), end), end))
        return spans

    def _sent(self, spark: SparkSession, spans: Sequence[_Span], held: Ends) -> DataFrame:
        """Return the broker's records of these offsets."""
        first = {(one.topic, one.partition): one.first for one in spans}
        end = {(one.topic, one.partition): one.end for one in spans}
        options = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": ",".join(self.stream.contract.stream.topics),
            "startingOffsets": _named(first, held),
            "endingOffsets": _named(end, held),
            **self.java_client,
        }
        source = spark.read.format("kafka").options(**options).load()
        columns = [
            F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "timestamp")
        ]
        return source.select(*columns, F.lit(1).alias("_sent"))


@dataclass(frozen=True)
class _Span:
    """A range of offsets of a partition, without its end."""

    topic: str
    partition: int
    first: int
    end: int


def _account(both: DataFrame) -> list[Balance]:
    """Return the balances of sent records joined with the rows of both tables.

    `_gone` is true if the topic may have had the record.
    """

    def total(numbers: Column) -> Column:
        return F.coalesce(F.sum(numbers), F.lit(0))

    rows, bronze = F.col("_rows"), F.col("_bronze")
    found = both.groupBy("_topic", "_partition").agg(
        F.count("_sent").alias("read"),
        total(bronze).alias("bronze"),
        total(rows - bronze).alias("quarantine"),
        F.count_if(rows.isNull()).alias("missing"),
        total(rows - F.coalesce("_sent", F.col("_gone").cast("int"))).alias("extra"),
        F.count_if("_gone").alias("unproven"),
    )
    names = ("read", "bronze", "quarantine", "missing", "extra", "unproven")
    return [
        Balance(f"{row['_topic']} partition {row['_partition']}", *(row[name] for name in names))
        for row in found.orderBy("_topic", "_partition").collect()
    ]


def _capped(held: dict[str, dict[str, int]], ends: Ends) -> dict[str, dict[str, int]]:
    """Return the ends of the tables' rows of a topic, capped at the topic's end."""
    return {
        topic: {
            partition: min(end, ends[topic][int(partition)][1])
            for partition, end in partitions.items()
            if int(partition) in ends[topic]
        }
        for topic, partitions in held.items()
        if topic in ends
    }


def _named(offsets: dict[tuple[str, int], int], held: dict[str, dict[int, tuple[int, int]]]) -> str:
    """Return offsets in Spark's form, which must name every partition, also unread ones."""
    named: dict[str, dict[str, int]] = {
        topic: {str(p): offsets.get((topic, p), low) for p, (low, _) in partitions.items()}
        for topic, partitions in held.items()
    }
    return json.dumps(named)
