"""The commands of the demonstration: the sample data, simulated finance, the summary.

What a command needs is imported where it runs: the others should not wait for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwaters.options import find_project

simulate_app = typer.Typer(no_args_is_help=True, help="Make records that look real.")


def land() -> None:
    """Put the sample data and a simulated month of finance where the streams read."""
    from headwaters.demo.land import land as run

    project = find_project()
    for stream, count in run(project).items():
        typer.echo(f"{stream}: {count or 'no new'} files landed")
    simulate_finance()


def summary() -> None:
    """Each table, its rows, and what is new since the last summary."""
    from headwaters.demo.summary import summary as run

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
        str, typer.Option(help="Moment from which the field is_flagged is sent, or off.")
    ] = "off",
    files: Annotated[int, typer.Option(help="Files for each stream.")] = 4,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the streams' folders [default: lake/landing].")
    ] = None,
    to_kafka: Annotated[
        bool, typer.Option("--to-kafka", help="Send to topics of the streams' names instead.")
    ] = False,
    to_http: Annotated[
        str | None,
        typer.Option(help="Send to the front door (`headwaters serve`) at this URL instead."),
    ] = None,
    key_from: Annotated[
        str, typer.Option(help="Environment variable with the front door's key, if it has one.")
    ] = "HEADWATERS_SERVE_KEYS",
) -> None:
    """Financial transactions and insurance claims as JSON lines, the same for the same options."""
    from headwaters.demo.clock import moment
    from headwaters.demo.finance_files import land, summary
    from headwaters.demo.simulate import FinanceConfig
    from headwaters.lake import enter

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
    if to_http is not None:
        from headwaters.demo.post import post_finance

        for stream, posted in post_finance(config, to_http, key_from).items():
            typer.echo(f"{stream}: {posted.accepted:,} accepted, {posted.refused:,} refused")
        return
    if to_kafka:
        from headwaters.demo.send import send_finance
        from headwaters.sources.kafka_client import servers

        for topic, sent in send_finance(config, servers(find_project().lake)).items():
            typer.echo(f"{topic}: {sent:,} records sent" if sent else f"{topic}: nothing new")
        return
    if out is None:
        lake = find_project().lake
        enter(lake)
        out = lake / "landing"
    for landed in land(config, out, files):
        for line in summary(landed):
            typer.echo(line)
