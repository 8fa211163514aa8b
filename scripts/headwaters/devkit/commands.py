"""The commands of the development kit: set-up, and the servers around the project.

Commands import on demand, so that other commands do not wait for Spark and dbt.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from headwaters.platform.options import ProfilesDir, Target, find_project

cluster_app = typer.Typer(no_args_is_help=True, help="A Spark cluster on this machine.")
engine_app = typer.Typer(no_args_is_help=True, help="One warm Spark for many (--target engine).")
kafka_app = typer.Typer(no_args_is_help=True, help="A local Kafka broker.")
metastore_app = typer.Typer(no_args_is_help=True, help="A Hive metastore in PostgreSQL.")
platform_app = typer.Typer(no_args_is_help=True, help="All servers around the project, on S3.")
postgres_app = typer.Typer(no_args_is_help=True, help="A local PostgreSQL.")
flink_app = typer.Typer(no_args_is_help=True, help="Flink on the topics of publications.")
trino_app = typer.Typer(no_args_is_help=True, help="Trino on the tables of the lake.")


def setup(
    dev: Annotated[bool, typer.Option("--dev", help="With what the checks need.")] = False,
) -> None:
    """Make .venv complete: packages and jars from their locks, Spark's configuration."""
    from headwaters.devkit.environment import setup as run

    if not run(find_project().root, dev, typer.echo):
        typer.echo("nothing to do: the environment is complete")


@engine_app.command("start")
def engine_start(
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 (default: 15002, or a free one).")
    ] = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Start a local Spark Connect server on this lake, and wait until it listens."""
    from headwaters.devkit import engine

    started = engine.start(find_project(profiles_dir, target), port)
    typer.echo(f"engine at {started.address}: dbt run --target engine")


@engine_app.command("stop")
def engine_stop(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Stop the engine of this lake."""
    from headwaters.devkit import engine

    stopped = engine.stop(find_project(profiles_dir, target))
    typer.echo("engine stopped" if stopped else "no engine runs here")


@engine_app.command("status")
def engine_status(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print the address of this lake's engine; exit code 1 when none runs."""
    from headwaters.platform import engine

    found = engine.find(find_project(profiles_dir, target).local)
    typer.echo(
        f"engine at {found.address}, process {found.pid}" if found else "no engine runs here"
    )
    raise typer.Exit(0 if found else 1)


@cluster_app.command("start")
def cluster_start(
    workers: Annotated[int, typer.Option(help="Workers, of one core each.")] = 2,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Start a master, workers and a Spark Connect server on this lake; wait until they are ready.

    The Connect server has the settings of the target, and takes all cores but one.
    """
    from headwaters.devkit import cluster

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        typer.echo(line)

    started = cluster.start(find_project(profiles_dir, target), say, workers)
    if not said:
        typer.echo(f"nothing to do: the cluster runs, with Spark Connect at {started.address}")


@cluster_app.command("stop")
def cluster_stop(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Stop the processes of this lake's cluster."""
    from headwaters.devkit import cluster

    stopped = cluster.stop(find_project(profiles_dir, target).local)
    typer.echo(f"stopped {', '.join(reversed(stopped))}" if stopped else "no cluster runs here")


@cluster_app.command("status")
def cluster_status(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print a line for each process of this lake's cluster; exit code 1 unless all run."""
    from headwaters.devkit import cluster

    lake = find_project(profiles_dir, target).local
    lines, missing = cluster.status(lake), cluster.missing(lake)
    for line in [*lines, *(f"{name} does not run" for name in missing if lines)]:
        typer.echo(line)
    if not lines:
        typer.echo("no cluster runs here")
    raise typer.Exit(1 if missing else 0)


@kafka_app.command("start")
def kafka_start(
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1 (default: any).")] = None,
) -> None:
    """Start this lake's Kafka broker, and wait until it listens."""
    from headwaters.devkit import broker

    typer.echo(f"Kafka at {broker.start(find_project(), port).servers}")


@kafka_app.command("stop")
def kafka_stop() -> None:
    """Stop this lake's Kafka broker; its data is kept."""
    from headwaters.devkit import broker

    stopped = broker.stop(find_project().local)
    typer.echo("Kafka stopped" if stopped else "no Kafka broker runs here")


@kafka_app.command("status")
def kafka_status() -> None:
    """Print the address of this lake's Kafka broker; exit code 1 when none runs."""
    from headwaters.streams.sources import kafka_client

    found = kafka_client.find(find_project().local)
    typer.echo(
        f"Kafka at {found.servers}, process {found.pid}" if found else "no Kafka broker runs here"
    )
    raise typer.Exit(0 if found else 1)


With = Annotated[
    str | None, typer.Option("--with", help="Further servers, separated by commas: trino, flink.")
]


@platform_app.command("start")
def platform_start(
    more: With = None, target: Target = None, profiles_dir: ProfilesDir = None
) -> None:
    """Start PostgreSQL, an S3 store, a metastore, a Spark cluster and Kafka; print their addresses.

    The S3 store is built once by Go. The target's settings are those of the cluster's Spark.
    """
    from headwaters.devkit import services

    project = find_project(profiles_dir, target)
    chosen = services.selected(more)
    if services.start(project, typer.echo, chosen):
        file = services.file(services.home(project))
        typer.echo(f"use it: `. {os.path.relpath(file)}`, then dbt build --target cluster")
    else:
        typer.echo("nothing to do: the platform runs")


@platform_app.command("stop")
def platform_stop(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Stop the servers of the platform, the last started first; their data is kept."""
    from headwaters.devkit import services

    lake = services.home(find_project(profiles_dir, target))
    names = []
    for name in services.stop(lake, services.ALL):
        typer.echo(f"{name} stopped")
        names.append(name)
    if not names:
        typer.echo("no platform runs here")


@platform_app.command("status")
def platform_status(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print a line for each server of the platform; exit code 1 unless all run."""
    from headwaters.devkit import services

    lake = services.home(find_project(profiles_dir, target))
    for service in services.ALL:
        address = service.find(lake)
        if address or service in services.SERVICES:
            typer.echo(f"{service.name} {f'at {address}' if address else 'does not run'}")
    raise typer.Exit(0 if all(service.find(lake) for service in services.SERVICES) else 1)


@trino_app.command("config")
def trino_config(
    metastore: Annotated[
        str | None, typer.Option(help="Address of the metastore service: thrift://host:9083.")
    ] = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Print the catalog file of a Trino that reads and writes the tables of the lake.

    Save it as etc/catalog/delta.properties. Without --metastore, it names the service of this lake.
    The variables of AWS name the store, and Trino reads the keys from its own environment.
    """
    from headwaters.devkit import trino
    from headwaters.platform import hive_metastore, object_store

    project = find_project(profiles_dir, target)
    store = object_store.hadoop_settings(project.credentials.server_side_parameters, os.environ)
    address = metastore or hive_metastore.find("thrift", project.local).address  # type: ignore[union-attr]
    typer.echo(trino.text(trino.catalog(address, store)), nl=False)


@trino_app.command("check")
def trino_check(
    server: Annotated[
        str | None, typer.Option(help="Address of a Trino (default: that of this lake).")
    ] = None,
    catalog: Annotated[str, typer.Option(help="Catalog of the tables.")] = "delta",
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Compare the rows that Trino reads with those in the log of each table.

    Exit code 1 if a number differs, or if Trino cannot read a table.
    """
    from headwaters.devkit import trino_check

    project = find_project(profiles_dir, target)
    found = list(trino_check.compare(project, trino_check.address(project, server), catalog))
    width = max((len(table.name) for table in found), default=0)
    for table in found:
        typer.echo(table.line(width))
    wrong = [table for table in found if not table.is_right]
    typer.echo(f"{len(found)} tables in Trino: {f'{len(wrong)} wrong' if wrong else 'right'}")
    raise typer.Exit(1 if wrong else 0)


@flink_app.command("check")
def flink_check(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Count the rows of published topics in this lake's Flink, and compare with their tables.

    Exit code 1 if a number differs.
    """
    from headwaters.devkit import flink_check
    from headwaters.publish.run import load_publications

    project = find_project(profiles_dir, target)
    project.enter()
    raise typer.Exit(flink_check.check(project, load_publications(project), typer.echo))


@postgres_app.command("start")
def postgres_start(
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1 (default: any).")] = None,
) -> None:
    """Start this lake's PostgreSQL, and wait until it listens."""
    from headwaters.devkit import postgres

    typer.echo(f"PostgreSQL at {postgres.start(find_project(), port).address}")


@postgres_app.command("stop")
def postgres_stop() -> None:
    """Stop this lake's PostgreSQL; its data is kept."""
    from headwaters.devkit import postgres

    stopped = postgres.stop(find_project().local)
    typer.echo("PostgreSQL stopped" if stopped else "no PostgreSQL runs here")


@postgres_app.command("status")
def postgres_status(
    url: Annotated[
        bool, typer.Option("--url", help="Print the address for clients, with the password.")
    ] = False,
) -> None:
    """Print the address of this lake's PostgreSQL; exit code 1 when none runs."""
    from headwaters.platform import postgres

    found = postgres.find(find_project().local)
    if url and found:
        typer.echo(found.url)
    else:
        here = f"PostgreSQL at {found.address}, process {found.pid}" if found else ""
        typer.echo(here or "no PostgreSQL runs here")
    raise typer.Exit(0 if found else 1)


@metastore_app.command("init")
def metastore_init(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Make the tables of an empty metastore; tables of another version are never changed."""
    from headwaters.devkit import metastore

    metastore.init(find_project(profiles_dir, target), typer.echo)


@metastore_app.command("check")
def metastore_check(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print version and number of objects of the target's metastore; exit code 1 or 2 if bad."""
    from headwaters.devkit import metastore

    typer.echo(metastore.check(find_project(profiles_dir, target)))


@metastore_app.command("move")
def metastore_move(
    to: Annotated[
        Literal["postgresql", "derby"], typer.Option(help="The metastore that the lake will have.")
    ],
    apply: Annotated[
        bool, typer.Option("--apply", help="Copy the objects; without it they are only counted.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Move the lake's schemas, tables and views to another metastore; no file of a table changes.

    PostgreSQL is the database that HEADWATERS_METASTORE names, or the lake's own.
    """
    from headwaters.devkit import metastore

    metastore.move(find_project(profiles_dir, target), to, apply, typer.echo)


@metastore_app.command("serve")
def metastore_serve(
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 (default: 9083, or a free one).")
    ] = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Start the metastore's Thrift service for Spark and Trino, and wait until it listens."""
    from headwaters.devkit import metastore

    started = metastore.serve(find_project(profiles_dir, target), port)
    typer.echo(f"metastore service at thrift://127.0.0.1:{started.port}")


@metastore_app.command("stop")
def metastore_stop(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Stop this lake's metastore service."""
    from headwaters.devkit import metastore

    stopped = metastore.stop(find_project(profiles_dir, target).local)
    typer.echo("metastore service stopped" if stopped else "no metastore service runs here")


@metastore_app.command("status")
def metastore_status(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print the address of this lake's metastore service; exit code 1 when none runs."""
    from headwaters.platform import hive_metastore
    from headwaters.platform.servers import Server

    found = Server.running(hive_metastore.record(find_project(profiles_dir, target).local))
    here = (
        f"metastore service at thrift://127.0.0.1:{found.port}, process {found.pid}"
        if found
        else ""
    )
    typer.echo(here or "no metastore service runs here")
    raise typer.Exit(0 if found else 1)
