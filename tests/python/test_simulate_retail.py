"""Test the simulated shop: change streams of a database, and visits with purchases."""

from __future__ import annotations

import csv
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import environment
from typer.testing import CliRunner

from headwaters import cli
from headwaters.devkit.samples import retail
from headwaters.devkit.samples.clicks import COLUMNS, ClicksConfig, clicks
from headwaters.devkit.samples.retail import RetailConfig
from headwaters.platform.errors import UserError

ROOT = Path(__file__).parents[2]


def test_changes_of_retail_are_what_a_database_can_do_and_every_kind_occurs() -> None:
    present: dict[str, dict[int, Any]] = {table: {} for table in retail.KEYS}
    deleted, again = set(), set()
    for change in retail.changes(RetailConfig()):
        rows, row = present[change.table], (change.table, change.key)
        assert change.before == rows.get(change.key)
        if change.after is None:
            del rows[change.key]
            deleted.add(row)
        else:
            rows[change.key] = change.after
            again |= {row} & deleted
    assert {table for table, _ in again} == {"customers", "products"}
    assert {table for table, _ in deleted} == {"customers", "products", "orders"}
    numbers = [change.lsn for change in retail.changes(RetailConfig())]
    assert numbers == sorted(set(numbers))
    renumbered = [key for key in present["customers"] if key > 10_000]
    assert renumbered
    ordered_by = {order["customer_id"] for order in present["orders"].values()}
    assert not ordered_by & {key - 10_000 for key in renumbered}


@pytest.mark.parametrize("stream", retail.STREAMS)
def test_every_change_of_retail_is_delivered_and_some_are_repeated_or_late(stream: str) -> None:
    config = RetailConfig(duplicates=0.1, late=0.1)
    sent = list(retail.events(config, stream))
    table = retail.STREAMS[stream]
    encoded = [
        retail.ENCODED[table](change) for change in retail.changes(config) if change.table == table
    ]
    values = [event.value for event in sent if event.value is not None]
    assert sorted(set(values)) == sorted(encoded)
    assert len(values) > len(encoded)
    assert list(dict.fromkeys(values)) != encoded
    kinds = {event.kind for event in sent}
    assert kinds == {"ordinary", "late", "duplicate"}
    # a tombstone follows the deletion of its key at once
    for before, event in itertools.pairwise(sent):
        if event.value is None:
            assert before.key == event.key
            assert '"d"' in str(before.value) or '"delete"' in str(before.value)
    assert sent == list(retail.events(config, stream))
    assert sent != list(retail.events(RetailConfig(seed=8, duplicates=0.1, late=0.1), stream))


def test_visits_have_purchases_after_carts_and_categories_that_have_names() -> None:
    rows = list(csv.DictReader([",".join(COLUMNS), *clicks(ClicksConfig())]))
    carts = {
        (row["user_session"], row["product_id"]) for row in rows if row["event_type"] == "cart"
    }
    bought = [
        (row["user_session"], row["product_id"]) for row in rows if row["event_type"] == "purchase"
    ]
    assert 0 < len(bought) < len(carts)
    assert set(bought) <= carts
    named = (ROOT / "seeds/product_categories.csv").read_text().splitlines()
    known = {line.partition(",")[0] for line in named} | {""}
    assert {row["category_code"] for row in rows} <= known
    assert list(clicks(ClicksConfig())) == list(clicks(ClicksConfig()))
    assert list(clicks(ClicksConfig(visits=0))) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RetailConfig(customers=0), "--customers, --products and --days must be at least"),
        (lambda: RetailConfig(late=0.6), "--late is a share of all events: 0.6 is not in 0 to 0.5"),
        (lambda: ClicksConfig(visits=-1), "--visits counts visits: it cannot be negative"),
        (lambda: ClicksConfig(rate=0), "--rate is visits a second: 0 is not above 0"),
        (lambda: ClicksConfig(bought=2), "--bought is a share of the carts: 2 is not in 0 to 1"),
    ],
)
def test_a_shop_that_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_retail_and_clicks_land_as_files_and_a_second_time_write_nothing(tmp_path: Path) -> None:
    def said(*arguments: str) -> list[str]:
        done = CliRunner().invoke(cli.app, ["simulate", *arguments, "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    config = RetailConfig(customers=20, products=5, orders=30)
    small = ["retail", "--customers", "20", "--products", "5", "--orders", "30"]
    values = {
        stream: [one.value for one in retail.events(config, stream) if one.value is not None]
        for stream in retail.STREAMS
    }
    assert said(*small) == [f"{s}: {len(of)} records in 2 files" for s, of in values.items()]
    for stream, of in values.items():
        files = sorted((tmp_path / stream).glob("*.jsonl"))
        assert "".join(file.read_text() for file in files).splitlines() == of
    assert said(*small) == [f"{s}: {len(of)} records in no new files" for s, of in values.items()]
    lines = list(clicks(ClicksConfig(visits=5)))
    assert said("clicks", "--visits", "5", "--files", "1") == [
        f"click_events: {len(lines)} records in 1 file"
    ]
    (file,) = (tmp_path / "click_events").glob("*.csv")
    assert file.read_text().splitlines() == [",".join(COLUMNS), *lines]


@pytest.mark.slow
def test_the_shop_goes_from_an_application_to_its_readers(tmp_path: Path) -> None:
    """Run `make run-retail` with all of its servers."""
    ran = subprocess.run(
        [ROOT / "scripts" / "run-retail"],
        env=environment(tmp_path / "lake"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()
    assert [line for line in said if line.endswith(": right")] == [
        "customer_changes: 328 read = 328 bronze + 0 quarantined: right",
        "order_changes: 1,822 read = 1,822 bronze + 0 quarantined: right",
        "product_changes: 178 read = 178 bronze + 0 quarantined: right",
    ]
    assert [line for line in said if line.endswith(", all equal")] == [
        "customer_service → PostgreSQL public.customer_value: version 0: 142 rows, all equal",
        "customer_service → topic customer_value: version 0: 142 rows, all equal",
        "revenue_report → PostgreSQL public.daily_revenue: version 0: 125 rows, all equal",
    ]
