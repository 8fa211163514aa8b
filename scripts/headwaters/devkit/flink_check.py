"""Read published topics with Flink, and compare their rows with those of their tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwaters.devkit import flink
from headwaters.platform.errors import CodedError, UserError, exit_code
from headwaters.platform.jars import Say
from headwaters.platform.project import Project
from headwaters.publish.changes import Field
from headwaters.publish.kafka import KafkaTarget
from headwaters.publish.run import opened
from headwaters.tables.publications import Publication, ToKafka, base_type

# Flink's types of the values in a record, by Delta's; a nested value is read as its JSON.
TYPES = {
    "integer": "int",
    "varchar": "string",
    "char": "string",
    "timestamp": "timestamp_ltz(6)",
    "timestamp_ntz": "timestamp(6)",
    "binary": "bytes",
    "array": "string",
    "struct": "string",
    "map": "string",
}


def check(project: Project, publications: Sequence[Publication], say: Say) -> int:
    """Count the rows of topics in Flink; return 1 if a number is not that of its table.

    Raises UserError if no table is published to Kafka.
    """
    to_kafka = [one for one in publications if isinstance(one.target, ToKafka)]
    if not to_kafka:
        raise UserError("HW_NO_SUCH_PUBLICATION", "no table is published to Kafka")
    code = 0
    for one in to_kafka:
        try:
            target, source = opened(project, one, 60.0, say)
            assert isinstance(target, KafkaTarget)
            created = create_table(target.topic, target.servers, source.fields, source.key)
            output = flink.run_sql(project.local, [created, "select count(*) from published"])
        except CodedError as error:
            say(f"{one.name}: {error}")
            code = max(code, exit_code(error))
            continue
        found = int((flink.last_row(output) or ["0"])[0])  # no row changes an empty count
        rows = f"{found:,} rows in Flink"
        if found == source.count:
            say(f"{one.name}: {rows}, as in {source.name}")
        else:
            say(
                f"{one.name}: {rows}, and {source.count:,} in {source.name}: publish it, then check"
            )
            code = max(code, 1)
    return code


def create_table(topic: str, servers: str, fields: Sequence[Field], key: Sequence[str]) -> str:
    """Return the statement of Flink SQL for the table of a published topic, as far as it has come.

    `fields` are the columns of the model, and `key` is its unique key.
    """
    columns = ", ".join(f"`{field.name}` {_type(field.type)}" for field in fields)
    keys = ", ".join(f"`{name}`" for name in key)
    options = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": servers,
        "properties.isolation.level": "read_committed",
        "scan.bounded.mode": "latest-offset",
        "key.format": "json",
        "key.json.timestamp-format.standard": "ISO-8601",
        "value.format": "json",
        "value.json.timestamp-format.standard": "ISO-8601",
        "value.fields-include": "ALL",
    }
    given = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    return f"create table published ({columns}, primary key ({keys}) not enforced) with ({given})"


def _type(delta: str) -> str:
    base = base_type(delta)
    if base == "decimal":
        return re.sub(r"\s", "", delta)
    return TYPES.get(base, base)
