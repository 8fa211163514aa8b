"""`headwaters publish`: independent publications, once or at intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

from headwaters.platform import postgres
from headwaters.platform.errors import CodedError, UserError, exit_code
from headwaters.platform.manifest import invoke
from headwaters.platform.project import Project
from headwaters.publish.changes import PublishedTable
from headwaters.publish.target import Target
from headwaters.streams.ingestion.stopping import Stopping
from headwaters.streams.sources import kafka_client
from headwaters.tables.publications import Publication, ToPostgres, declared
from headwaters.tables.publications import publications as publications_of

Say = Callable[[str], None]


def load_publications(
    project: Project, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Publication]:
    """Return the publications of the selected exposures, by name; without a selection, all of them.

    A bare name of an exposure means that exposure. Raises UserError for a project that dbt cannot
    parse, also because of a wrong declaration, and for a selection that publishes nothing.
    """
    manifest = invoke(project, ["parse"])
    exposures = {
        key: exposure.to_dict()
        for key, exposure in manifest.exposures.items()
        if exposure.config.enabled and declared(exposure.to_dict())
    }
    chosen = set(exposures)
    if select or exclude:
        names = {one["name"]: f"exposure:{one['name']}" for one in exposures.values()}
        arguments = ["ls", "--resource-types", "exposure", "--output", "json"]
        arguments += ["--output-keys", "unique_id"]
        for option, words in (("--select", select), ("--exclude", exclude)):
            if words:
                arguments += [option, *(names.get(word, word) for word in words)]
        lines = invoke(project, arguments, manifest)
        chosen &= {json.loads(line)["unique_id"] for line in lines}
    nodes = {key: node.to_dict() for key, node in manifest.nodes.items()}
    found = [
        one
        for key in sorted(chosen)
        for one in publications_of(exposures[key], nodes)
        if isinstance(one, Publication)
    ]
    if not found:
        wanted = " ".join(select) or "this project"
        known = ", ".join(sorted(one["name"] for one in exposures.values())) or "none"
        raise UserError(
            "HW_NO_SUCH_PUBLICATION",
            f"{wanted} publishes nothing (exposures with `publish`: {known})",
        )
    return found


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
    project.enter()
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
    project.enter()
    code = 0
    for one in publications:
        try:
            target, source = opened(project, one, patience, say)
            found = target.compare(source)
        except CodedError as error:
            say(f"{one.name}: {error}")
            code = max(code, exit_code(error))
            continue
        say(f"{one.name}: {found or 'nothing is published'}")
        code = max(code, 0 if found and found.equal else 1)
    return code


def _publish(project: Project, one: Publication, patience: float, say: Say) -> tuple[str, int]:
    try:
        target, source = opened(project, one, patience, say)
        return f"{one.name}: {target.publish(source)}", 0
    except CodedError as error:
        return f"{one.name}: {error}", exit_code(error)


def opened(
    project: Project, one: Publication, patience: float, say: Say
) -> tuple[Target, PublishedTable]:
    """Return the target of a publication and its table, pinned at the newest version.

    `patience` is how many seconds the target may be away. Raises UserError and WorkError if the
    table is missing or cannot be published.
    """
    folder = project.warehouse / f"{one.schema_name.lower()}.db" / one.table.lower()
    source = PublishedTable(f"{one.schema_name}.{one.table}", folder, one.key)
    declared = one.target
    # imported on demand, because psycopg is an extra, like Kafka's client
    if isinstance(declared, ToPostgres):
        from headwaters.publish.postgres import PostgresTarget

        variable = declared.connection.env
        url = partial(postgres.url, project.local, variable)
        return PostgresTarget(declared.table, variable, url, patience), source
    from headwaters.publish.kafka import KafkaTarget

    servers = declared.servers or kafka_client.servers(project.local)
    settings = partial(kafka_client.resolved, f"{one.file}: {one.exposure}", declared.client)
    return KafkaTarget(declared.topic, servers, settings, patience, say), source
