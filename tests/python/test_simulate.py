"""Test the simulator: the same records each time, and a known number of faults."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwaters import cli
from headwaters.devkit.samples.clicks import ClicksConfig
from headwaters.devkit.samples.clock import arrivals, moment
from headwaters.devkit.samples.finance_files import Landed, land
from headwaters.devkit.samples.retail import RetailConfig
from headwaters.devkit.samples.simulate import FAULTS, FinanceConfig, claims, transactions
from headwaters.platform.errors import UserError

ROOT = Path(__file__).parents[2]
FLAGGED_FROM = datetime(2026, 1, 10, tzinfo=UTC)
CONFIG = FinanceConfig(rows=20_000, claims=2_000, flagged_from=FLAGGED_FROM)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> list[Landed]:
    return land(CONFIG, tmp_path_factory.mktemp("landing"), files=4)


def lines(landed: Landed) -> list[str]:
    return [line for path in landed.written for line in path.read_text().splitlines()]


def fault_of(line: str, key: str, amount: str, time: str) -> str | None:
    """Return the fault of a line, found as a reader would find it."""
    try:
        row = json.loads(line)
    except ValueError:
        return "broken JSON"
    if key not in row:
        return "no identifier"
    if not isinstance(row[amount], int | float):
        return "amount is text"
    try:
        datetime.fromisoformat(row[time])
    except ValueError:
        return "bad timestamp"
    return None


def split(found: list[str], *fields: str) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the sound rows without repeated lines, in order, and the number of each fault."""
    faults = {line: fault_of(line, *fields) for line in found}
    sound = [json.loads(line) for line in dict.fromkeys(found) if faults[line] is None]
    return sound, Counter(fault for line in found if (fault := faults[line]))


def steps_back(times: list[str]) -> int:
    """Count the times that lie before an earlier one."""
    latest, late = "", 0
    for time in times:
        late += time < latest
        latest = max(latest, time)
    return late


def test_transaction_files_hold_exactly_the_shares_that_were_asked_for(
    landed: list[Landed],
) -> None:
    truth, found = landed[0].truth, lines(landed[0])
    sound, faults = split(found, "transaction_id", "amount", "timestamp")
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sound:
        by_id[row["transaction_id"]].append(row)

    assert len(found) == truth.records == 20_000
    assert len(found) - len(set(found)) == truth.duplicates == 400
    assert len(sound) - len(by_id) == truth.corrections == 100
    assert faults == truth.malformed == {fault: 50 for fault in FAULTS}
    assert len(by_id) == truth.keys == 20_000 - 400 - 100 - 200
    assert steps_back([row["timestamp"] for row in sound]) == truth.late == 200
    for first, *again in by_id.values():
        for correction in again:
            assert correction["timestamp"] > first["timestamp"]
            assert correction["amount"] != first["amount"]
            changed = {"timestamp", "amount", "is_flagged"}
            assert {k: v for k, v in correction.items() if k not in changed} == {
                k: v for k, v in first.items() if k not in changed
            }


def test_claim_files_hold_exactly_the_shares_that_were_asked_for(landed: list[Landed]) -> None:
    truth, found = landed[1].truth, lines(landed[1])
    sound, faults = split(found, "claim_id", "claim_amount", "claimed_at")
    opened = [row for row in sound if row["status"] == "open"]

    assert len(found) == truth.records
    assert len(found) - len(set(found)) == truth.duplicates == 40
    assert faults == truth.malformed == {fault: 5 for fault in FAULTS}
    assert len(opened) == truth.keys == 2_000 - 20
    assert steps_back([row["claimed_at"] for row in opened]) == truth.late == 20


def test_a_claim_is_opened_then_decided_then_paid_and_paid_amount_comes_with_the_payment(
    landed: list[Landed],
) -> None:
    sound, _ = split(lines(landed[1]), "claim_id", "claim_amount", "claimed_at")
    lives: dict[str, list[str]] = defaultdict(list)
    for row in sound:
        lives[row["claim_id"]].append(row["status"])
        assert (row["paid_amount"] is not None) == (row["status"] == "paid")
        assert (row["paid_amount"] or 0) <= row["claim_amount"]
        assert row["incident_date"] <= row["claimed_at"]
    assert {tuple(life) for life in lives.values()} == {
        ("open",),
        ("open", "rejected"),
        ("open", "approved"),
        ("open", "approved", "paid"),
    }


def test_records_have_the_fields_of_the_contract(landed: list[Landed]) -> None:
    first = json.loads(lines(landed[0])[0])
    last = json.loads(lines(landed[0])[-1])
    claim = json.loads(lines(landed[1])[0])
    fields = [
        "transaction_id", "timestamp", "account_id", "amount", "currency", "transaction_type",
        "merchant_id", "category",
    ]  # fmt: skip
    assert list(first) == fields
    assert list(last) == [*fields, "is_flagged"]
    assert list(claim) == [
        "claim_id", "policy_id", "account_id", "claim_type", "claimed_at", "incident_date",
        "claim_amount", "paid_amount", "premium_amount", "currency", "status",
    ]  # fmt: skip


def test_the_contracts_of_the_streams_have_a_column_for_every_field(landed: list[Landed]) -> None:
    from headwaters.platform.project import Project
    from headwaters.streams.ingestion.contracts import load_contracts

    streams = {contract.name: contract for contract in load_contracts(Project(ROOT))[0]}
    for one in landed:
        columns = [column.name for column in streams[one.truth.stream].read_columns]
        assert columns == list(json.loads(lines(one)[0]))


def test_is_flagged_appears_at_its_moment_and_changes_nothing_else() -> None:
    since = int(FLAGGED_FROM.timestamp() * 1000)
    for record in transactions(CONFIG):
        if record.kind != "duplicate" and record.fault != "broken JSON":
            assert ('"is_flagged"' in record.value) == (record.sent_at >= since)

    def bodies(config: FinanceConfig) -> list[dict[str, Any]]:
        rows = (json.loads(r.value) for r in transactions(config) if not r.fault)
        return [{k: v for k, v in row.items() if k not in {"transaction_id", "is_flagged"}}
                for row in rows]  # fmt: skip

    assert bodies(CONFIG) == bodies(FinanceConfig(rows=20_000, claims=2_000))


def test_the_same_arguments_make_the_same_bytes_and_another_seed_makes_others() -> None:
    small = FinanceConfig(rows=500, claims=100)
    assert list(transactions(small)) == list(transactions(small))
    assert list(claims(small)) == list(claims(small))
    # Never change these: a change alters the files that `make run` lands, and must raise FORMAT.
    assert next(transactions(small)).value == (
        '{"transaction_id": "Tffffffff-0000000", "timestamp": "2026-01-01T00:08:04.440Z",'
        ' "account_id": "A000169", "amount": 72.71, "currency": "GBP",'
        ' "transaction_type": "debit", "merchant_id": "M00053", "category": "Groceries"}'
    ).replace("ffffffff", small.fingerprint)
    other = FinanceConfig(rows=500, claims=100, seed=8)
    ids = {record.value.split('"')[3] for record in transactions(small)}
    assert not ids & {
        record.value.split('"')[3] for record in transactions(other) if not record.fault
    }


def test_values_that_are_equal_make_the_same_bytes_however_they_are_written() -> None:
    start = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    one = FinanceConfig(rows=500, claims=100, malformed=0.0, rate=1.0, late=0.0)
    other = FinanceConfig(rows=500, claims=100, malformed=0, rate=1, late=-0.0, start=start)
    assert one == other
    assert list(transactions(one)) == list(transactions(other))
    assert list(claims(one)) == list(claims(other))
    assert RetailConfig(late=0).fingerprint == RetailConfig(late=0.0).fingerprint
    assert ClicksConfig(bought=1).fingerprint == ClicksConfig(bought=1.0).fingerprint
    # files that landed before keep their names
    usual = (FinanceConfig(), RetailConfig(), ClicksConfig())
    assert [one.fingerprint for one in usual] == ["14860a2a", "f0d924bf", "b28e1554"]


def test_records_are_sent_in_the_order_of_time() -> None:
    for make in (transactions, claims):
        times = [record.sent_at for record in make(FinanceConfig(rows=2_000, claims=500))]
        assert times == sorted(times)


def test_accounts_and_merchants_are_skewed_and_amounts_are_log_normal() -> None:
    rows = [json.loads(r.value) for r in transactions(FinanceConfig(malformed=0))]
    debits = [row for row in rows if row["transaction_type"] == "debit"]

    def share_of_top(field: str, number: int) -> float:
        counts = Counter(row[field] for row in debits)
        return sum(n for _, n in counts.most_common(number)) / len(debits)

    assert 0.15 < share_of_top("account_id", 50) < 0.25  # the top 1 % of 5,000 accounts
    assert 0.12 < share_of_top("merchant_id", 6) < 0.40  # of 600 merchants
    assert 0.90 < len(debits) / len(rows) < 0.98
    groceries = sorted(
        row["amount"]
        for row in debits
        if row["category"].lower() == "groceries" and row["currency"] == "EUR"
    )
    median, mean = groceries[len(groceries) // 2], sum(groceries) / len(groceries)
    assert median == pytest.approx(32, rel=0.1)
    assert mean == pytest.approx(32 * 2.71828 ** (0.7**2 / 2), rel=0.1)
    assert all(row["amount"] > 0 for row in rows)
    assert all(row["amount"] == int(row["amount"]) for row in rows if row["currency"] == "JPY")


def test_an_account_keeps_its_currency_except_when_it_travels() -> None:
    homes = defaultdict(set)
    for seed in (1, 2):
        for record in transactions(FinanceConfig(rows=5_000, seed=seed, malformed=0)):
            row = json.loads(record.value)
            if row["category"].lower() != "travel":
                homes[row["account_id"]].add(row["currency"])
    assert {len(currencies) for currencies in homes.values()} == {1}


def test_days_and_weeks_have_their_rhythm_and_the_rate_is_the_mean_of_a_week() -> None:
    start = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1000)  # a Monday
    week = 7 * 24 * 3_600_000
    times = []
    for time in arrivals(FinanceConfig().random("test"), start, 0.1):
        if time >= start + week:
            break
        times.append(time - start)
    hours = Counter(time // 3_600_000 % 24 for time in times)
    days = Counter(time // 86_400_000 for time in times)
    assert len(times) == pytest.approx(0.1 * 7 * 86_400, rel=0.02)
    assert hours[18] > 10 * hours[3]
    assert days[4] > 1.5 * days[6]  # Friday, Sunday


def test_landing_again_writes_nothing_and_an_interrupted_landing_is_completed(
    tmp_path: Path,
) -> None:
    config = FinanceConfig(rows=100, claims=10)
    land(config, tmp_path, files=3)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*.jsonl")}
    again = land(config, tmp_path, files=3)
    assert [(len(one.written), len(one.kept)) for one in again] == [(0, 3), (0, 3)]
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*.jsonl")} == before

    lost = sorted(before)[1]
    lost.unlink()
    lost.with_name(f".{lost.name}.new").write_text("half a rec")
    assert [one.written for one in land(config, tmp_path, files=3)] == [[lost], []]
    assert lost.read_bytes() == before[lost][0]
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted(before)

    with pytest.raises(UserError, match="in 3 files: use --files 3, or another --seed"):
        land(config, tmp_path, files=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": -1}, "cannot be negative"),
        ({"rate": 0.0}, "is not above 0"),
        ({"late": 1.5}, "--late is a share of all records: 1.5 is not in 0 to 0.5"),
        ({"late": 0.3, "malformed": 0.3}, "at most half"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FinanceConfig(**values)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("share", [0.0, 0.125, 0.5])
def test_a_few_rows_are_enough(rows: int, share: float) -> None:
    config = FinanceConfig(rows=rows, claims=rows, duplicates=share, corrections=0, late=0,
                           malformed=0)  # fmt: skip
    assert len(list(transactions(config))) == rows
    assert len({record.value.split('"')[3] for record in claims(config)}) == rows


def test_a_moment_without_an_offset_is_utc() -> None:
    assert moment("2026-01-01", "--start") == datetime(2026, 1, 1, tzinfo=UTC)
    assert moment("2026-01-01T02:00:00+02:00", "--start") == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(UserError, match="--start wants a moment such as"):
        moment("yesterday", "--start")


def test_the_command_says_what_it_landed_and_that_nothing_is_new(tmp_path: Path) -> None:
    arguments = ["simulate", "finance", "--rows", "400", "--claims", "0", "--malformed", "0.01"]
    arguments += ["--files", "1", "--out", str(tmp_path)]
    first = CliRunner().invoke(cli.app, arguments)
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [
        f"financial_transactions: 400 records in 1 file in {tmp_path}/financial_transactions",
        "  386 transactions · 8 duplicates · 2 corrections · 4 late · 4 malformed"
        " (1 amount is text, 1 no identifier, 1 broken JSON, 1 bad timestamp)",
        "insurance_claims: no records",
    ]
    second = CliRunner().invoke(cli.app, arguments)
    assert "nothing new: its 400 records are in" in second.stdout
