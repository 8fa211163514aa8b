"""`headwaters publish`: independent publications, once or at intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headwaters.platform import lake as lakes
from headwaters.platform import postgres
from headwaters.platform.errors import CodedError, UserError
from headwaters.platform.project import Project
from headwaters.publish.changes import PublishedTable
from headwaters.publish.target import Target
from headwaters.streams.ingestion.stopping import Stopping
from headwaters.streams.sources import kafka_client
from headwaters.tables.publications import Publication, ToPostgres

Say = Callable[[str], None]


def publish(
    project: Project,
    publications: Sequence[Publication],
    every: float | None,
    patience: float,
    say: Say,
) -> int:
    """Publish tables; with `every`, again after so many seconds, until a signal.

    A publication that fails does not stop the others. Returns 2 for a wrong declaration or set-up,
    1 if a publication failed, 130 or 143 after a signal. A signal that ends `every` gives 0.
    """
    lakes.enter(project.lake)
    told: dict[str, str] = {}
    with Stopping() as stopping:
        stopping.take_signals()
        while True:
            code = 0
            for one in publications:
                if stopping.signal:
                    break
                line, failed = _publish(project, one, patience, say)
                code = max(code, failed)
                if told.get(one.name) != line:
                    say(line)
                told[one.name] = line
            if every is None:
                return 128 + stopping.signal if stopping.signal else code
            if stopping.wait(every):
                return 0


def check(project: Project, publications: Sequence[Publication], patience: float, say: Say) -> int:
    """Compare published tables with their models row by row; return 1 if they differ."""
    lakes.enter(project.lake)
    code = 0
    for one in publications:
        try:
            target, source = _both(project, one, patience, say)
            found = target.compare(source)
        except CodedError as error:
            say(f"{one.name}: {error}")
            code = max(code, _blame(error))
            continue
        say(f"{one.name}: {found or 'nothing is published'}")
        code = max(code, 0 if found and found.equal else 1)
    return code


def _publish(project: Project, one: Publication, patience: float, say: Say) -> tuple[str, int]:
    try:
        target, source = _both(project, one, patience, say)
        return f"{one.name}: {target.publish(source)}", 0
    except CodedError as error:
        return f"{one.name}: {error}", _blame(error)


def _blame(error: CodedError) -> int:
    return 2 if isinstance(error, UserError) else 1


def _both(
    project: Project, one: Publication, patience: float, say: Say
) -> tuple[Target, PublishedTable]:
    folder = project.warehouse / f"{one.schema_name.lower()}.db" / one.table.lower()
    source = PublishedTable(f"{one.schema_name}.{one.table}", folder, one.key)
    declared = one.target
    # imported on demand, because psycopg is an extra, like Kafka's client
    if isinstance(declared, ToPostgres):
        from headwaters.publish.postgres import PostgresTarget

        variable = declared.connection.env
        url = partial(postgres.url, project.lake, variable)
        return PostgresTarget(declared.table, variable, url, patience), source
    from headwaters.publish.kafka import KafkaTarget

    servers = declared.servers or kafka_client.servers(project.lake)
    settings = partial(kafka_client.resolved, f"{one.file}: {one.exposure}", declared.client)
    return KafkaTarget(declared.topic, servers, settings, patience, say), source
