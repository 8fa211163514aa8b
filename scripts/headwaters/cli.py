"""The `headwaters` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwaters.errors import DISK, UserError, WorkError, java_ended

if TYPE_CHECKING:
    from headwaters.contract import Contract
    from headwaters.project import Project

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
engine_app = typer.Typer(no_args_is_help=True, help="One warm Spark for many (--target engine).")
app.add_typer(engine_app, name="engine")
kafka_app = typer.Typer(no_args_is_help=True, help="A Kafka broker of one's own.")
app.add_typer(kafka_app, name="kafka")
simulate_app = typer.Typer(no_args_is_help=True, help="Make records that look real.")
app.add_typer(simulate_app, name="simulate")


def main() -> None:
    """The console entry: what went wrong is one line, and the exit code says whose fault it is."""
    try:
        app(args=_spread(sys.argv[1:]))
    except UserError as error:
        typer.echo(f"headwaters: {error}", err=True)
        raise SystemExit(2) from None
    except WorkError as error:
        typer.echo(f"headwaters: {error}", err=True)
        raise SystemExit(1) from None
    except Exception as error:
        if said := java_ended():
            code = 1
        elif isinstance(error, OSError) and error.filename is not None:
            said = f"{error.filename} cannot be used: {error.strerror}"
            code = 1 if error.errno in DISK else 2
        else:
            raise  # a defect, which is to be seen whole
        typer.echo(f"headwaters: {said}", err=True)
        raise SystemExit(code) from None


def _spread(arguments: list[str]) -> list[str]:
    """`--select a b` → `--select a --select b`, as dbt takes it; click takes one word an option."""
    spread: list[str] = []
    option = None
    for argument in arguments:
        if argument.startswith("-"):
            option = argument if argument in ("--select", "-s", "--exclude") else None
        elif option and spread[-1] != option:
            spread.append(option)
        spread.append(argument)
    return spread


def _words(options: list[str] | None) -> list[str]:
    """`--select a --select "b c"` → a, b, c: dbt's habit and the shell's are both understood."""
    return [word for option in options or () for word in option.split()]


@app.callback()
def _app() -> None:
    """Streams into bronze, and the commands around the dbt project."""


@app.command()
def setup(
    dev: Annotated[bool, typer.Option("--dev", help="With what the checks need.")] = False,
) -> None:
    """Make .venv complete: packages and jars from their locks, Spark's configuration."""
    from headwaters.environment import setup as run
    from headwaters.project import Project

    if not run(Project.find().root, dev, typer.echo):
        typer.echo("nothing to do: the environment is complete")


@app.command()
def land() -> None:
    """Put the sample data and a simulated month of finance where the streams read."""
    from headwaters.land import land as run
    from headwaters.project import Project

    project = Project.find()
    for stream, count in run(project).items():
        typer.echo(f"{stream}: {count or 'no new'} files landed")
    simulate_finance()


Select = Annotated[
    list[str] | None, typer.Option("--select", "-s", help="Streams, in dbt's selection syntax.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Streams to leave out, in the same syntax.")
]


@app.command()
def ingest(
    select: Select = None,
    exclude: Exclude = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read what is there and end, whatever the triggers say.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(help="Run on, with a batch every 10s, 1m …, until stopped.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve Prometheus metrics on this port of 127.0.0.1.")
    ] = None,
    begin: Annotated[
        Literal["earliest", "table", "latest", "recreated"] | None,
        typer.Option(
            "--from",
            help="Where a stream whose checkpoint is lost resumes; table: after what it has. "
            "recreated: topics that were deleted and created again, from their beginning.",
        ),
    ] = None,
) -> None:
    """Read streams into bronze tables; what does not fit goes to quarantine."""
    from headwaters.contract import seconds
    from headwaters.ingest import ingest as run
    from headwaters.project import Project

    try:
        period = None if every is None else seconds(every)
    except ValueError as error:
        raise UserError(f"--every {every} {error}") from None
    if once and every is not None:
        raise UserError("--once ends and --every runs on: choose one")
    chosen = _words(select), _words(exclude)
    raise typer.Exit(run(Project.find(), *chosen, once, period, metrics_port, begin))


def _contracts(select: Select, exclude: Exclude) -> tuple[Project, list[Contract]]:
    from headwaters.manifest import load_contracts
    from headwaters.project import Project

    project = Project.find()
    return project, load_contracts(project.root, _words(select), _words(exclude))


@app.command()
def streams(select: Select = None, exclude: Exclude = None) -> None:
    """Show each stream: what it has read, what is left, its last error. Starts no Spark."""
    from headwaters.status import show, status

    project, contracts = _contracts(select, exclude)
    show([status(project, contract) for contract in contracts])


@app.command()
def audit(select: Select = None, exclude: Exclude = None) -> None:
    """Reconcile input and bronze + quarantine, record by record; exit code 1 where they differ.

    Kafka is compared by topic, partition and offset. Files and Delta tables are parsed again and
    compared row by row, in all columns of the contract, by file or version. A batch or a replay in
    flight is left out. What a broker, a folder or a log no longer has cannot be compared.
    """
    from headwaters.audit import audit as run
    from headwaters.audit import right, summarise

    found = run(*_contracts(select, exclude))
    for name, balances in found.items():
        for line in summarise(name, balances):
            typer.echo(line)
    raise typer.Exit(0 if all(map(right, found.values())) else 1)


@app.command()
def replay(
    select: Select = None,
    exclude: Exclude = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Move the records; without it they are only counted.")
    ] = False,
) -> None:
    """Move what a mended contract now accepts from quarantine to bronze."""
    from headwaters.replay import replay as run

    project, contracts = _contracts(select, exclude)
    replayed = run(project, contracts, dry_run=not apply)
    for name, done in replayed.items():
        if isinstance(done, WorkError):
            typer.echo(f"{name}: not replayed: {done}")
            continue
        moved = "moved to bronze" if apply else "would move to bronze (--apply moves them)"
        stays = ", ".join(f"{reason} {count:,}" for reason, count in done.refused.most_common())
        rest = f"; {done.refused.total():,} stay ({stays})" if stays else ""
        typer.echo(f"{name}: {done.accepted:,} {moved}{rest}")
    if any(isinstance(done, WorkError) for done in replayed.values()):
        raise typer.Exit(1)


@app.command()
def relocate(
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the paths; without it they are only counted.")
    ] = False,
) -> None:
    """Make a lake that was copied or moved one of its own, by the paths in its own files."""
    from headwaters.project import Project
    from headwaters.relocate import relocate as run

    for line in run(Project.find(), dry_run=not apply):
        typer.echo(line)


@app.command()
def summary() -> None:
    """Each table, its rows, and what is new since the last summary."""
    from headwaters.project import Project
    from headwaters.summary import summary as run

    run(Project.find())


@engine_app.command("start")
def engine_start(
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 [default: 15002, or a free one].")
    ] = None,
) -> None:
    """Start a local Spark Connect server on this lake, and wait until it listens."""
    from headwaters import engine
    from headwaters.project import Project

    started = engine.start(Project.find(), port)
    typer.echo(f"engine at {started.address}: dbt run --target engine")


@engine_app.command("stop")
def engine_stop() -> None:
    """Stop the engine of this lake."""
    from headwaters import engine
    from headwaters.project import Project

    stopped = engine.stop(Project.find())
    typer.echo("engine stopped" if stopped else "no engine runs here")


@engine_app.command("status")
def engine_status() -> None:
    """Say where the engine of this lake listens; exit code 1 when none runs."""
    from headwaters import engine
    from headwaters.project import Project

    found = engine.find(Project.find().lake)
    typer.echo(
        f"engine at {found.address}, process {found.pid}" if found else "no engine runs here"
    )
    raise typer.Exit(0 if found else 1)


@kafka_app.command("start")
def kafka_start(
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1 [default: any]")] = None,
) -> None:
    """Start this lake's Kafka broker, and wait until it listens."""
    from headwaters import kafka
    from headwaters.project import Project

    typer.echo(f"Kafka at {kafka.start(Project.find(), port).servers}")


@kafka_app.command("stop")
def kafka_stop() -> None:
    """Stop this lake's Kafka broker; its data is kept."""
    from headwaters import kafka
    from headwaters.project import Project

    stopped = kafka.stop(Project.find().lake)
    typer.echo("Kafka stopped" if stopped else "no Kafka broker runs here")


@kafka_app.command("status")
def kafka_status() -> None:
    """Say where this lake's Kafka broker listens; exit code 1 when none runs."""
    from headwaters import kafka
    from headwaters.project import Project

    found = kafka.find(Project.find().lake)
    typer.echo(
        f"Kafka at {found.servers}, process {found.pid}" if found else "no Kafka broker runs here"
    )
    raise typer.Exit(0 if found else 1)


@simulate_app.command("finance")
def simulate_finance(
    rows: Annotated[int, typer.Option(help="Transaction records in all.")] = 20_000,
    claims: Annotated[int, typer.Option(help="Insurance claims, one to three records each.")] = (
        2_000
    ),
    seed: Annotated[int, typer.Option(help="Another seed makes other records.")] = 7,
    start: Annotated[str, typer.Option(help="Time of the first event.")] = "2026-01-01T00:00:00Z",
    rate: Annotated[
        float, typer.Option(help="Transactions a second of event time, the mean of a week.")
    ] = 0.01,
    duplicates: Annotated[float, typer.Option(help="Share sent twice.")] = 0.02,
    corrections: Annotated[
        float, typer.Option(help="Share that corrects an earlier transaction.")
    ] = 0.005,
    late: Annotated[float, typer.Option(help="Share with a time long before it was sent.")] = 0.01,
    malformed: Annotated[float, typer.Option(help="Share that no schema fits.")] = 0.01,
    flagged_from: Annotated[
        str, typer.Option(help="Moment from which the field is_flagged is sent, or off.")
    ] = "off",
    files: Annotated[int, typer.Option(help="Files for each stream.")] = 4,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the streams' folders [default: lake/landing].")
    ] = None,
    to_kafka: Annotated[
        bool, typer.Option("--to-kafka", help="Send to topics of the streams' names instead.")
    ] = False,
) -> None:
    """Financial transactions and insurance claims as JSON lines, the same for the same options."""
    from headwaters.lake import enter
    from headwaters.project import Project
    from headwaters.simulate import FinanceConfig, land, moment, summary

    config = FinanceConfig(
        rows=rows,
        claims=claims,
        seed=seed,
        start=moment(start, "--start"),
        rate=rate,
        duplicates=duplicates,
        corrections=corrections,
        late=late,
        malformed=malformed,
        flagged_from=None if flagged_from == "off" else moment(flagged_from, "--flagged-from"),
    )
    if to_kafka:
        from headwaters import kafka

        for topic, sent in kafka.send_finance(config, kafka.servers(Project.find().lake)).items():
            typer.echo(f"{topic}: {sent:,} records sent" if sent else f"{topic}: nothing new")
        return
    if out is None:
        lake = Project.find().lake
        enter(lake)
        out = lake / "landing"
    for landed in land(config, out, files):
        for line in summary(landed):
            typer.echo(line)


if __name__ == "__main__":
    main()
