"""The commands of the demonstration: the sample data, simulated finance, the summary.

Commands import on demand, so that other commands do not wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from headwaters.platform.errors import UserError
from headwaters.platform.options import find_project

Out = Annotated[
    Path | None, typer.Option(help="Folder of the streams' folders (default: lake/landing).")
]
ToKafka = Annotated[
    bool, typer.Option("--to-kafka", help="Send to topics of the streams' names instead.")
]
ToHttp = Annotated[
    str | None,
    typer.Option(help="Send to the HTTP endpoint (`headwaters serve`) at this URL instead."),
]
KeyFrom = Annotated[
    str,
    typer.Option(help="Environment variable with the endpoint's key, if it needs one."),
]

simulate_app = typer.Typer(no_args_is_help=True, help="Make records that look real.")


def land() -> None:
    """Land the sample data and a simulated month in the folders of the streams."""
    from headwaters.devkit.samples.land import land as run

    project = find_project()
    for stream, count in run(project).items():
        typer.echo(f"{stream}: {count or 'no new'} files landed")
    simulate_finance()
    simulate_retail()
    simulate_clicks()


def summary() -> None:
    """Print each table, its rows, and the new rows since the last summary."""
    from headwaters.devkit.samples.summary import summary as run

    run(find_project())


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
        str, typer.Option(help="Moment when the field is_flagged begins, or off.")
    ] = "off",
    files: Annotated[int, typer.Option(help="Files for each stream.")] = 4,
    out: Out = None,
    to_kafka: ToKafka = False,
    to_http: ToHttp = None,
    key_from: KeyFrom = "HEADWATERS_SERVE_KEYS",
) -> None:
    """Simulate financial transactions and insurance claims, the same for the same options."""
    from headwaters.devkit.samples.clock import moment
    from headwaters.devkit.samples.finance_files import land, summary
    from headwaters.devkit.samples.simulate import STREAMS, FinanceConfig

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
    streams = {name: ((one.key, one.value) for one in of(config)) for name, of in STREAMS.items()}
    if _sent(streams, to_kafka, to_http, key_from):
        return
    for landed in land(config, out or _landing(), files):
        for line in summary(landed):
            typer.echo(line)


@simulate_app.command("retail")
def simulate_retail(
    customers: Annotated[int, typer.Option(help="Customers; a third is in the snapshot.")] = 150,
    products: Annotated[int, typer.Option(help="Products.")] = 40,
    orders: Annotated[int, typer.Option(help="Orders, with all that becomes of them.")] = 500,
    seed: Annotated[int, typer.Option(help="Another seed makes other events.")] = 7,
    start: Annotated[str, typer.Option(help="Time of the snapshot.")] = "2026-01-01T00:00:00Z",
    days: Annotated[int, typer.Option(help="Days with orders.")] = 28,
    duplicates: Annotated[float, typer.Option(help="Share of the events sent twice.")] = 0.03,
    late: Annotated[float, typer.Option(help="Share sent after events that follow it.")] = 0.03,
    files: Annotated[int, typer.Option(help="Files for each stream.")] = 2,
    out: Out = None,
    to_kafka: ToKafka = False,
    to_http: ToHttp = None,
    key_from: KeyFrom = "HEADWATERS_SERVE_KEYS",
) -> None:
    """Simulate a shop's change streams of customers, products and orders, the same each time."""
    from headwaters.devkit.samples import parts
    from headwaters.devkit.samples.clock import moment
    from headwaters.devkit.samples.retail import STREAMS, RetailConfig, events

    config = RetailConfig(
        customers=customers,
        products=products,
        orders=orders,
        seed=seed,
        start=moment(start, "--start"),
        days=days,
        duplicates=duplicates,
        late=late,
    )
    streams = {name: ((one.key, one.value) for one in events(config, name)) for name in STREAMS}
    if _sent(streams, to_kafka, to_http, key_from):
        return
    for stream, records in streams.items():
        # a file has no tombstones; the deletion before each one is enough
        _told(
            stream,
            list(_values(records)),
            parts.paths((out or _landing()) / stream, config.prefix, files),
        )


@simulate_app.command("clicks")
def simulate_clicks(
    visits: Annotated[int, typer.Option(help="Visits, some of them with a purchase.")] = 200,
    seed: Annotated[int, typer.Option(help="Another seed makes other events.")] = 7,
    start: Annotated[str, typer.Option(help="Time of the first visit.")] = "2026-01-01T00:00:00Z",
    rate: Annotated[
        float, typer.Option(help="Visits a second of event time, the mean of a week.")
    ] = 0.0005,
    bought: Annotated[float, typer.Option(help="Share of the carts that are bought.")] = 0.25,
    files: Annotated[int, typer.Option(help="Number of files.")] = 2,
    out: Out = None,
    to_kafka: ToKafka = False,
    to_http: ToHttp = None,
    key_from: KeyFrom = "HEADWATERS_SERVE_KEYS",
) -> None:
    """Simulate click events of a shop with purchases: CSV in files, elsewhere JSON."""
    from headwaters.devkit.samples import parts
    from headwaters.devkit.samples.clicks import COLUMNS, ClicksConfig, clicks, records
    from headwaters.devkit.samples.clock import moment

    config = ClicksConfig(
        visits=visits, seed=seed, start=moment(start, "--start"), rate=rate, bought=bought
    )
    if _sent({"click_events": records(config)}, to_kafka, to_http, key_from):
        return
    paths = parts.paths((out or _landing()) / "click_events", config.prefix, files, "csv")
    _told("click_events", list(clicks(config)), paths, ",".join(COLUMNS))


def _landing() -> Path:
    project = find_project()
    landing = project.lake / "landing"
    if not isinstance(landing, Path):
        raise UserError(
            "HW_ARGUMENT",
            f"simulate writes files to a folder, and the lake is {project.lake}: name a folder "
            f"with --out, and copy its files to {landing}",
        )
    project.enter()
    return landing


def _sent(
    streams: Mapping[str, Iterable[tuple[str, str | None]]],
    to_kafka: bool,
    to_http: str | None,
    key_from: str,
) -> bool:
    """Send keys and values to an HTTP endpoint or to topics; return false if files are wanted."""
    if to_http is not None:
        from headwaters.devkit.samples.post import post

        # a request has no tombstones; the deletion before each one is enough
        texts = {name: _values(records) for name, records in streams.items()}
        for stream, sent in post(texts, to_http, key_from).items():
            typer.echo(f"{stream}: {sent.accepted:,} accepted, {sent.refused:,} refused")
    elif to_kafka:
        from headwaters.devkit.samples.send import send_once
        from headwaters.streams.sources.kafka_client import servers

        for topic, records in streams.items():
            number = send_once(servers(find_project().local), topic, list(records))
            typer.echo(f"{topic}: {number:,} records sent" if number else f"{topic}: nothing new")
    return to_http is not None or to_kafka


def _values(records: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    return (value for _, value in records if value is not None)


def _told(stream: str, lines: list[str], paths: list[Path], header: str = "") -> None:
    """Write the lines, and report the files."""
    from headwaters.devkit.samples import parts

    new = len(parts.write(lines, paths, header))
    typer.echo(f"{stream}: {len(lines):,} records in {new or 'no new'} file{'s' * (new != 1)}")
