"""The `headwaters` command.

Commands import on demand: dbt takes two seconds, and `--help` does not need it.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer
from typer.core import TyperGroup

from headwaters.devkit import commands as dev
from headwaters.devkit.samples import commands as demo
from headwaters.platform.errors import (
    CodedError,
    UserError,
    WorkError,
    exit_code,
    java_ended,
    refused_file,
)
from headwaters.platform.options import ProfilesDir, Target, find_project

if TYPE_CHECKING:
    from headwaters.platform.project import Project
    from headwaters.streams.contract import Contract

# Packages that only some commands need, and the extra that installs them.
EXTRAS = {
    "confluent_kafka": "streams",
    "prometheus_client": "streams",
    "grpc": "connect",
    "obstore": "object-store",
    "openlineage": "openlineage",
    "psycopg": "publish",
    "deltalake": "report",
    **dict.fromkeys(("fastapi", "httptools", "msgspec", "starlette", "uvicorn", "uvloop"), "serve"),
}


class ShowByDefault(TyperGroup):
    """A group of commands whose first argument may be one of its command `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add `show` before arguments that begin with no command."""
        known = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if known else ["show", *args])


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command. Print one-line errors; exit 2 for usage errors, 1 for failures."""
    try:
        app(args=_spread(sys.argv[1:]))
    except Exception as error:
        shown = _coded(error)
        if shown is None:
            raise  # a defect needs its stack trace
        typer.echo(f"headwaters: {shown}", err=True)
        raise SystemExit(exit_code(shown)) from None


def _coded(error: Exception) -> CodedError | None:
    """Return the error for a one-line message, or None for a defect."""
    if isinstance(error, CodedError):
        return error
    if ended := java_ended():
        return ended
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = EXTRAS[error.name]
        return UserError("HW_NO_EXTRA", f"{error.name} is missing: {install_command(extra)}")
    if isinstance(error, OSError) and error.filename is not None:
        return refused_file(error, f"{error.filename} cannot be used")
    return None


def install_command(extra: str) -> str:
    """Return the pip command that adds an extra to this installation.

    An installation from a path or a URL is named by it, since an index may not have the package.
    """
    try:
        record = distribution("dbt-headwaters").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    origin = json.loads(record) if record else {}
    url = str(origin.get("url", ""))
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{url2pathname(urlsplit(url).path)}[{extra}]'"
    return f"pip install 'dbt-headwaters[{extra}]{f' @ {url}' if url else ''}'"


def _spread(arguments: list[str]) -> list[str]:
    """Expand `--select a b`, dbt's form, to `--select a --select b`, click's form."""
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
    """Split `--select a --select "b c"` into a, b, c: both forms are accepted."""
    return [word for option in options or () for word in option.split()]


# The development kit and the demonstration are separate packages with their own commands.
app.command()(dev.setup)
app.command()(demo.land)
app.command()(demo.summary)
app.add_typer(dev.cluster_app, name="cluster")
app.add_typer(dev.engine_app, name="engine")
app.add_typer(dev.kafka_app, name="kafka")
app.add_typer(dev.metastore_app, name="metastore")
app.add_typer(dev.platform_app, name="platform")
app.add_typer(dev.postgres_app, name="postgres")
app.add_typer(dev.flink_app, name="flink")
app.add_typer(dev.trino_app, name="trino")
app.add_typer(demo.simulate_app, name="simulate")


def _show_version(is_asked: bool) -> None:
    """Print the releases that are installed, and end."""
    if is_asked:
        names = ("dbt-headwaters", "dbt-core", "dbt-spark", "pyspark", "delta-spark")
        typer.echo("\n".join(f"{name} {distribution(name).version}" for name in names))
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the releases, and end."
        ),
    ] = False,
) -> None:
    """Ingest streams into bronze, and operate the dbt project."""


@app.command()
def jars(
    s3: Annotated[bool, typer.Option("--s3", help="With those for tables on S3.")] = False,
) -> None:
    """Download the locked jars that Spark needs into the installed pyspark."""
    from headwaters.platform import class_data
    from headwaters.platform.jars import find_java, install, installed_pyspark

    pyspark, java = installed_pyspark(), find_java()
    worked = install(pyspark, java, pyspark, typer.echo)
    worked |= class_data.make(pyspark, java, Path(sys.executable), typer.echo)
    if s3:
        from headwaters.platform.object_store import is_fetched
        from headwaters.platform.object_store import jars as jars_for_s3

        worked |= not is_fetched()
        jars_for_s3(typer.echo)
    if not worked:
        typer.echo("nothing to do: the jars are those of the lock")


store_app = typer.Typer(no_args_is_help=True, help="Delta tables on S3.")
app.add_typer(store_app, name="store")


@store_app.command("check")
def store_check(
    uri: Annotated[str, typer.Argument(help="A place that may be written: s3a://bucket/prefix.")],
    keys: Annotated[int, typer.Option(min=1, help="Keys to race for, in each of two ways.")] = 100,
    processes: Annotated[int, typer.Option(min=2, max=32, help="Processes that race.")] = 2,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Race processes for new keys, and report keys with two winners; exit code 1 if there are any.

    The store has to refuse all but one, for a put and for a multipart upload. Keys come from the
    environment or the machine's role. Inside a project, the target's settings of S3A apply.
    """
    import os

    from headwaters.platform import object_store
    from headwaters.platform.store_check import parse_uri, report
    from headwaters.platform.store_race import race, writers

    place = parse_uri(uri)
    try:
        parameters = find_project(profiles_dir, target).credentials.server_side_parameters
    except UserError as error:
        if error.code != "HW_PROJECT":
            raise
        parameters = {}  # outside of a project
    settings = object_store.hadoop_settings(parameters, os.environ)
    _say(f"racing {processes} processes for {keys} keys in each of two ways")
    with writers(processes, place, settings, object_store.jars(_say)) as competitors:
        found = race(keys, competitors)
    for line in report(found):
        typer.echo(line)
    if not found.is_safe:
        raise WorkError(
            "HW_STORE_UNSAFE",
            f"two drivers can overwrite each other's commits in {place}: write its tables from one "
            "driver at a time, or use another store",
        )


@store_app.command("jars")
def store_jars() -> None:
    """Print the jars for a Spark that writes Delta tables on S3, as the value of `--jars`."""
    from headwaters.platform.object_store import jars as jars_for_s3

    typer.echo(",".join(map(str, jars_for_s3(_say))))


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
        bool, typer.Option("--once", help="Read all unread records and end, ignoring the triggers.")
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
            help="Start of a stream without a checkpoint; table: after the rows of its tables. "
            "recreated: topics that were deleted and created again, from their beginning.",
        ),
    ] = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Read streams into bronze tables; bad records go to quarantine."""
    from headwaters.platform.fields import seconds
    from headwaters.streams.ingestion.run import ingest as run

    try:
        period = None if every is None else seconds(every)
    except ValueError as error:
        raise UserError("HW_ARGUMENT", f"--every {every} {error}") from None
    if once and every is not None:
        raise UserError("HW_ARGUMENT", "--once ends and --every runs on: choose one")
    chosen = _words(select), _words(exclude)
    project = find_project(profiles_dir, target)
    raise typer.Exit(run(project, *chosen, once, period, metrics_port, begin))


@app.command()
def serve(
    select: Select = None,
    exclude: Exclude = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any, and prints it.")] = 8080,
    keys_from: Annotated[
        str | None,
        typer.Option(help="Environment variable with the keys of clients, separated by blanks."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, as PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, as PEM.")] = None,
    linger: Annotated[
        str | None,
        typer.Option(help="How long a batch waits for more (default: Kafka 5ms, Delta 200ms)."),
    ] = None,
    max_body: Annotated[str, typer.Option(help="Largest request, also when unpacked.")] = "8m",
    max_in_flight: Annotated[str, typer.Option(help="Bytes of all requests in flight.")] = "64m",
    max_requests: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 512,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create topics that are missing.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Receive records over HTTP and write them to Kafka topics or Delta tables.

    POST /streams/<name> with a JSON array or NDJSON. The contract's types and limits are checked
    before anything is written. SIGTERM finishes the requests in progress.
    """
    from headwaters.http.limits import Limits
    from headwaters.http.run import ServeOptions
    from headwaters.http.run import serve as run
    from headwaters.platform.fields import bytes_of_size, seconds

    try:
        wait = None if linger is None else seconds(linger)
        limits = Limits(bytes_of_size(max_body), max_requests, bytes_of_size(max_in_flight))
    except ValueError as error:
        raise UserError("HW_ARGUMENT", f"--linger, --max-body or --max-in-flight {error}") from None
    options = ServeOptions(host, port, keys_from, tls_cert, tls_key, wait, create_topics, limits)
    project, contracts, _ = _contracts(select, exclude, target, profiles_dir)
    run(project, contracts, _words(select), options, typer.echo)


def _say(text: str) -> None:
    """Print the progress of a command, apart from its output."""
    typer.echo(text, err=True)


def _contracts(
    select: Select, exclude: Exclude, target: Target, profiles_dir: ProfilesDir
) -> tuple[Project, list[Contract], int]:
    """Return the right contracts of the selected streams, and the exit code of wrong ones."""
    from headwaters.streams.ingestion.contracts import load_contracts

    project = find_project(profiles_dir, target)
    contracts, refused = load_contracts(project, _words(select), _words(exclude))
    for problem in refused:
        typer.echo(f"headwaters: {problem}", err=True)
    return project, contracts, 2 if refused else 0


@app.command()
def streams(
    select: Select = None,
    exclude: Exclude = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Show each stream's progress, backlog and last error. Starts no Spark."""
    from headwaters.streams.ingestion.status import as_json, show, status

    project, contracts, code = _contracts(select, exclude, target, profiles_dir)
    states = [status(project, contract) for contract in contracts]
    if json:
        typer.echo(as_json(states))
    else:
        show(states)
    raise typer.Exit(code)


@app.command()
def sql(
    statement: Annotated[
        str | None,
        typer.Argument(help="A statement; without it a prompt, or those of standard input."),
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json"],
        typer.Option("--format", help="A table to read; CSV, or a line of JSON for each row."),
    ] = "table",
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="Rows to print; 0 prints all (default: 1,000 in a table)."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Allow statements that write, and ask before each.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --write: do not ask.")] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Query the lake in Spark SQL, on the running engine or on a Spark of its own.

    All streams that were ingested can be read, also before the first `dbt run`.
    """
    project = find_project(profiles_dir, target)
    from headwaters.query.run import QueryOptions
    from headwaters.query.run import run as run_sql

    run_sql(project, statement, QueryOptions(form, limit, write, yes))


@app.command()
def audit(
    select: Select = None,
    exclude: Exclude = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Reconcile input and bronze + quarantine, record by record; exit code 1 if they differ.

    Kafka is compared by topic, partition and offset. Files and Delta tables are parsed again and
    compared row by row, in all columns of the contract, by file or version. Batches and replays in
    progress are left out. Records that a broker, a folder or a log no longer has cannot be
    compared.
    """
    from headwaters.streams.ingestion.reconcile import (
        NONE_REMOVED,
        removed_records,
        right,
        settled_records,
        summarise,
    )
    from headwaters.streams.ingestion.reconcile import audit as run

    project, contracts, code = _contracts(select, exclude, target, profiles_dir)
    found = run(project, contracts, say=_say)
    compared = [one for one in contracts if not isinstance(found[one.name], CodedError)]
    removed = removed_records(project, [one for one in compared if not right(found[one.name])])
    for contract in contracts:
        balances, gone = found[contract.name], removed.get(contract.name, NONE_REMOVED)
        if isinstance(balances, CodedError):
            code = max(code, exit_code(balances))
        elif not right(balances, gone):
            code = max(code, 1)
        settled = settled_records(project, contract)
        for line in summarise(contract.name, balances, settled, gone):
            typer.echo(line)
    raise typer.Exit(code)


quarantine_app = typer.Typer(
    cls=ShowByDefault, help="Show records in quarantine, and settle them. `show` is the default."
)
app.add_typer(quarantine_app, name="quarantine")

StreamName = Annotated[str, typer.Argument(help="Name of the stream.")]
Where = Annotated[
    str, typer.Option(help="Condition in Spark SQL: \"cast(record as string) like '%p7%'\".")
]
Apply = Annotated[
    bool, typer.Option("--apply", help="Change the records; without it they are only counted.")
]


@quarantine_app.command("show")
def quarantine_show(
    stream: Annotated[str | None, typer.Argument(help="Name of a stream (default: all).")] = None,
    settled: Annotated[bool, typer.Option("--settled", help="Show settled records, too.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Newest records to show; 0 shows all.")] = 20,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Show the records in quarantine: reason, field, message, record and place. Starts no Spark."""
    from headwaters.streams.quarantine import read_quarantine
    from headwaters.streams.showing import lines
    from headwaters.streams.stream import Stream

    project, contracts, code = _contracts([stream] if stream else None, None, target, profiles_dir)
    found = [(one, read_quarantine(Stream.of(project, one), settled, limit)) for one in contracts]
    for line in lines(found):
        typer.echo(line)
    raise typer.Exit(code)


@quarantine_app.command("settle")
def quarantine_settle(
    stream: StreamName,
    where: Where,
    reason: Annotated[str, typer.Option(help="Why these records need no more work.")],
    apply: Apply = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Settle records that were corrected by others, or never will be: they no longer count as bad.

    They stay in quarantine with the reason, and in the reconciliation. Replays leave them out.
    """
    from headwaters.streams.ingestion.settle import settle
    from headwaters.streams.showing import settlement

    project, [contract], _ = _contracts([stream], None, target, profiles_dir)
    done = settle(project, contract, where, reason, apply, say=_say)
    for line in settlement(stream, done):
        typer.echo(line)


@quarantine_app.command("reopen")
def quarantine_reopen(
    stream: StreamName,
    where: Where,
    apply: Apply = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Undo settlements: the records count as bad again."""
    from headwaters.streams.ingestion.settle import settle

    project, [contract], _ = _contracts([stream], None, target, profiles_dir)
    done = settle(project, contract, where, None, apply, say=_say)
    verb = "opened again" if apply else "would open again (--apply opens them)"
    typer.echo(f"{stream}: {done.records:,} {verb}")


@app.command()
def publish(
    select: Annotated[
        list[str] | None, typer.Option("--select", "-s", help="Exposures, in dbt's syntax.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Exposures to leave out, in the same syntax.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Publish what is there and end, which is the default.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(help="Run on, and publish every 10s, 1m …, until stopped.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Publish nothing, and compare what is published.")
    ] = False,
    patience: Annotated[
        str, typer.Option(help="How long a target may be away, or its table locked.")
    ] = "60s",
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Send tables to PostgreSQL and Kafka, as exposures declare it (`config.meta.publish`).

    One transaction writes the net change since the target's version, and the new version. Starts no
    Spark.
    """
    from headwaters.platform.fields import seconds
    from headwaters.publish import run

    try:
        period, wait = None if every is None else seconds(every), seconds(patience)
    except ValueError as error:
        raise UserError("HW_ARGUMENT", f"--every or --patience {error}") from None
    if period == 0:
        raise UserError("HW_ARGUMENT", f"--every {every} has no pause: write 1s or more")
    if period is not None and (once or check):
        raise UserError("HW_ARGUMENT", "--every runs on, and --once and --check end: choose one")
    project = find_project(profiles_dir, target)
    found = run.load_publications(project, _words(select), _words(exclude))
    if check:
        raise typer.Exit(run.check(project, found, wait, typer.echo))
    raise typer.Exit(run.publish(project, found, period, wait, typer.echo))


@app.command()
def replay(
    select: Select = None,
    exclude: Exclude = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Move the records; without it they are only counted.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Move records that a corrected contract accepts from quarantine to bronze."""
    from headwaters.streams.ingestion.replay import replay as run

    project, contracts, code = _contracts(select, exclude, target, profiles_dir)
    replayed = run(project, contracts, dry_run=not apply, say=_say)
    for name, done in replayed.items():
        if isinstance(done, CodedError):
            typer.echo(f"{name}: not replayed: {done}")
            code = max(code, exit_code(done))
            continue
        moved = "moved to bronze" if apply else "would move to bronze (--apply moves them)"
        stays = ", ".join(f"{reason} {count:,}" for reason, count in done.refused.most_common())
        rest = f"; {done.refused.total():,} stay ({stays})" if stays else ""
        typer.echo(f"{name}: {done.accepted:,} {moved}{rest}")
    raise typer.Exit(code)


@app.command()
def relocate(
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the paths; without it they are only counted.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Rewrite the absolute paths of a copied or moved lake."""
    from headwaters.platform.relocate import relocate as run

    for line in run(find_project(profiles_dir, target), dry_run=not apply):
        typer.echo(line)


@app.command()
def review(
    base: Annotated[
        str, typer.Option(help="Branch or commit; compared is what HEAD shares with it.")
    ] = "main",
    select: Annotated[
        list[str] | None,
        typer.Option("--select", "-s", help="Models to compare, in dbt's selection syntax."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of what is written.")] = Path("review"),
    sample_above: Annotated[
        int, typer.Option(min=1, help="Compare a sample of tables with more rows than these.")
    ] = 100_000_000,
    clean: Annotated[
        bool, typer.Option("--clean", help="Drop the review's own schemas at its end.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Compare a branch's data with the base's: the same inputs under both versions of the SQL.

    Production is only read. The exit code is 0 also if rows differ. It is 1 if a test, a contract,
    a policy or the proof fails, or if none of the rows that may differ could be compared.
    """
    from headwaters.review.run import ReviewOptions
    from headwaters.review.run import review as run

    folder = out.absolute()
    project = find_project(profiles_dir, target)
    options = ReviewOptions(base, _words(select), sample_above, clean)
    raise typer.Exit(run(project, folder, options, typer.echo))


@app.command()
def report(
    out: Annotated[
        Path | None,
        typer.Option(help="File of the page (default: report.html).", show_default=False),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on 127.0.0.1, and keep it current.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(help="Port of --serve; without it any, which is printed.")
    ] = None,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Write the state of the lake as one self-contained HTML page. Starts no Spark.

    Streams, models, tables, expectations, operations, freshness. --serve adds /metrics for
    Prometheus, and sends OpenLineage events to the receiver in OpenLineage's own variables.
    """
    from headwaters.report import run

    if serve and out:
        raise UserError("HW_ARGUMENT", "--serve writes no file, and --out one: choose one")
    if port is not None and not serve:
        raise UserError("HW_ARGUMENT", "--port is that of --serve: give both, or neither")
    file = (out or Path("report.html")).absolute()
    project = find_project(profiles_dir, target)
    if serve:
        run.serve(project, port or 0, typer.echo)
    else:
        run.report(project, file, typer.echo)


@app.command()
def explain(
    select: Annotated[
        list[str] | None, typer.Option("--select", "-s", help="Models, in dbt's selection syntax.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Models to leave out, in the same syntax.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a run would be refused.")
    ] = False,
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Show each model's next run, its reason and its predicted cost. Starts no Spark.

    The logs of the tables answer, at this moment. `reads` and `writes` are predictions; an empty
    one is unknown. The lines are in the order of the runs.
    """
    from headwaters.report import next_runs

    project = find_project(profiles_dir, target)
    runs = next_runs.explain(project, _words(select), _words(exclude))
    if json:
        typer.echo(next_runs.as_json(runs))
    else:
        next_runs.show(runs)
    raise typer.Exit(1 if check and next_runs.refused(runs) else 0)


@app.command()
def lineage(
    name: Annotated[
        str,
        typer.Argument(metavar="MODEL[.COLUMN]", help="A model, seed or source, or its column."),
    ],
    up: Annotated[bool, typer.Option("--up", help="Only what it comes from.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what comes from it.")] = False,
    form: Annotated[
        Literal["text", "mermaid"], typer.Option("--format", help="A tree, or a flowchart.")
    ] = "text",
    target: Target = None,
    profiles_dir: ProfilesDir = None,
) -> None:
    """Show the lineage of a column, from sources to exposures. Starts no Spark.

    `value`: the column is copied, or computed from. `rows`: it only affects filters, groups, joins
    or order. For a model alone, show the direct origins of each of its columns.
    """
    from headwaters.platform.manifest import load_compiled
    from headwaters.report.lineage import show
    from headwaters.report.lineage.graph import Direction, LineageGraph
    from headwaters.report.lineage.tables import tables_of

    project = find_project(profiles_dir, target)
    compiled = load_compiled(project)
    graph = LineageGraph(
        tables_of(compiled.nodes, compiled.exposures, compiled.refused, project.root)
    )
    table, column = graph.find(name)
    both: list[Direction] = ["up", "down"] if column else ["up"]
    chosen: list[Direction] = ["up"] if up else []
    chosen += ["down"] if down else []
    print_as = show.mermaid if form == "mermaid" else show.text
    typer.echo(print_as(graph, table, column, chosen or both))


if __name__ == "__main__":
    main()
