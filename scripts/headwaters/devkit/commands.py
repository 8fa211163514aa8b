"""The commands of the development kit: set-up, the engine, Kafka, PostgreSQL, the metastore.

Commands import on demand, so that other commands do not wait for Spark and dbt.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwaters.platform.options import ProfilesDir, Target, find_project

engine_app = typer.Typer(no_args_is_help=True, help="One warm Spark for many (--target engine).")
kafka_app = typer.Typer(no_args_is_help=True, help="A local Kafka broker.")
metastore_app = typer.Typer(no_args_is_help=True, help="A Hive metastore in PostgreSQL.")
postgres_app = typer.Typer(no_args_is_help=True, help="A local PostgreSQL.")


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

    found = engine.find(find_project(profiles_dir, target).lake)
    typer.echo(
        f"engine at {found.address}, process {found.pid}" if found else "no engine runs here"
    )
    raise typer.Exit(0 if found else 1)


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

    stopped = broker.stop(find_project().lake)
    typer.echo("Kafka stopped" if stopped else "no Kafka broker runs here")


@kafka_app.command("status")
def kafka_status() -> None:
    """Print the address of this lake's Kafka broker; exit code 1 when none runs."""
    from headwaters.streams.sources import kafka_client

    found = kafka_client.find(find_project().lake)
    typer.echo(
        f"Kafka at {found.servers}, process {found.pid}" if found else "no Kafka broker runs here"
    )
    raise typer.Exit(0 if found else 1)


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

    stopped = postgres.stop(find_project().lake)
    typer.echo("PostgreSQL stopped" if stopped else "no PostgreSQL runs here")


@postgres_app.command("status")
def postgres_status(
    url: Annotated[
        bool, typer.Option("--url", help="Print the address for clients, with the password.")
    ] = False,
) -> None:
    """Print the address of this lake's PostgreSQL; exit code 1 when none runs."""
    from headwaters.platform import postgres

    found = postgres.find(find_project().lake)
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

    stopped = metastore.stop(find_project(profiles_dir, target).lake)
    typer.echo("metastore service stopped" if stopped else "no metastore service runs here")


@metastore_app.command("status")
def metastore_status(target: Target = None, profiles_dir: ProfilesDir = None) -> None:
    """Print the address of this lake's metastore service; exit code 1 when none runs."""
    from headwaters.platform import hive_metastore
    from headwaters.platform.servers import Server

    found = Server.running(hive_metastore.record(find_project(profiles_dir, target).lake))
    here = (
        f"metastore service at thrift://127.0.0.1:{found.port}, process {found.pid}"
        if found
        else ""
    )
    typer.echo(here or "no metastore service runs here")
    raise typer.Exit(0 if found else 1)
