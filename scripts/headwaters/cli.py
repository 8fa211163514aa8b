"""The `headwaters` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
simulate_app = typer.Typer(no_args_is_help=True, help="Make records that look real.")
app.add_typer(simulate_app, name="simulate")


@simulate_app.callback()
def _simulate() -> None:
    """Make records that look real."""


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
) -> None:
    """Financial transactions and insurance claims as JSON lines, the same for the same options."""
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
    for landed in land(config, out or Project.find().lake / "landing", files):
        for line in summary(landed):
            typer.echo(line)
