"""The commands of the development kit: set-up, the engine, Kafka, PostgreSQL.

Commands import on demand, so that other commands do not wait for Spark and dbt.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headwaters.platform.options import ProfilesDir, Target, find_project

engine_app = typer.Typer(no_args_is_help=True, help="One warm Spark for many (--target engine).")
kafka_app = typer.Typer(no_args_is_help=True, help="A local Kafka broker.")
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
