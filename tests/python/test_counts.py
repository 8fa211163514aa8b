"""Compare the tables with the raw files, computed a second time without Spark or dbt.

The sample data lands in two steps, with a whole run after each (scripts/dbt-test), so that most
tables were built incrementally before the comparison. Plain Python computes finance, DuckDB the
rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from processes import environment
from retail_expected import tables

from headwaters.devkit.samples.clicks import ClicksConfig, clicks
from headwaters.devkit.samples.retail import STREAMS, RetailConfig, events
from headwaters.devkit.samples.simulate import FinanceConfig

ROOT = Path(__file__).resolve().parents[2]
Row = tuple[Any, ...]

COUNTY_FILES = f"read_parquet('{ROOT}/lake/dbt-test/landing/county_cases/*.parquet')"
COUNTY_ROWS = 51_866
# the sample, which has no purchase, and simulated visits
CLICK_FILES = f"read_csv('{ROOT}/lake/dbt-test/landing/click_events/*.csv', all_varchar = true)"


def raw(sql: str) -> list[Row]:
    """Return the rows that DuckDB computes from the files."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def described(layer: str) -> dict[str, dict[str, str]]:
    """Return the columns and types of a layer's tables, as their YAML declares them."""
    described_tables = {}
    for path in sorted((ROOT / "models" / layer).glob("*.yml")):
        for model in yaml.safe_load(path.read_text()).get("models", []):
            columns = {c["name"]: c["data_type"].replace(", ", ",") for c in model["columns"]}
            described_tables[model["name"]] = columns
    return described_tables


def not_null(layer: str) -> dict[str, list[str]]:
    """Return the columns that may not be NULL, by table, as the YAML of a layer declares them.

    Those of change streams are left out: their delete events have the key alone.
    """
    found = {}
    for path in sorted((ROOT / "models" / layer).glob("*.yml")):
        declared = yaml.safe_load(path.read_text())
        of_sources = [table for source in declared.get("sources", []) for table in source["tables"]]
        of_rows = [
            table for table in of_sources if "changes" not in table["config"]["meta"]["stream"]
        ]
        for table in (*declared.get("models", []), *of_rows):
            found[table["name"]] = [
                column["name"]
                for column in table["columns"]
                if {"type": "not_null"} in column.get("constraints", [])
            ]
    return {name: columns for name, columns in found.items() if columns}


@pytest.mark.parametrize("layer", ["silver", "gold"])
def test_tables_have_the_columns_that_their_yaml_says(
    lake_tables: Any, spark: Any, layer: str
) -> None:
    expected = described(layer)
    assert {name: dict(spark.table(f"{layer}.{name}").dtypes) for name in expected} == expected


@pytest.mark.parametrize("layer", ["silver", "gold"])
def test_tables_have_the_checks_that_their_yaml_says(
    lake_tables: Any, spark: Any, layer: str
) -> None:
    prefix = "delta.constraints."
    expected = {
        name: {f"{prefix}{column}_not_null": f"`{column}` is not null" for column in columns}
        for name, columns in not_null(layer).items()
    }
    found = {
        name: {
            key: value
            for key, value in spark.sql(f"show tblproperties {layer}.{name}").collect()
            if key.startswith(prefix)
        }
        for name in expected
    }
    assert sum(map(len, expected.values())) > 20
    assert found == expected


@pytest.mark.parametrize("layer", ["bronze", "silver", "gold"])
def test_columns_are_not_null_that_their_yaml_says_are_not(lake_tables: Any, layer: str) -> None:
    expected = not_null(layer)
    assert sum(map(len, expected.values())) > 15
    parts = []
    for name, columns in expected.items():
        counts = ", ".join(f"'{column}', count_if({column} is null)" for column in columns)
        parts.append(
            f"select '{name}', map_filter(map({counts}), (name, nulls) -> nulls > 0)"
            f" from {layer}.{name}"
        )
    assert dict(lake_tables(" union all ".join(parts))) == {name: {} for name in expected}


# --- bronze ---------------------------------------------------------------------------------------


def test_bronze_has_every_record(lake_tables: Any) -> None:
    config = FinanceConfig()
    malformed = int(config.rows * config.malformed)
    counts = {
        "county_cases": COUNTY_ROWS,
        "county_cases_quarantine": 0,
        "click_events": 169 + len(list(clicks(ClicksConfig()))),
        "click_events_quarantine": 0,
        "financial_transactions": config.rows - malformed,
        "financial_transactions_quarantine": malformed,
        "insurance_claims": len(claim_records()),
        "insurance_claims_quarantine": int(config.claims * config.malformed),
    }
    for stream, values in retail_records().items():
        counts |= {stream: len(values), f"{stream}_quarantine": 0}
    found = {name: lake_tables(f"select count(*) from bronze.{name}")[0][0] for name in counts}
    assert found == counts


# --- health ---------------------------------------------------------------------------------------


def test_county_cases(lake_tables: Any) -> None:
    summary = """
        select state, count(*), count(distinct county), count(distinct {date}), count(fips),
            sum(cast(fips as bigint)), sum(cases), count(deaths), sum(deaths), min({date}),
            max({date})
        from {table} group by state
    """
    expected = raw(summary.format(date="cast(date as date)", table=COUNTY_FILES))
    found = lake_tables(summary.format(date="report_date", table="silver.silver_county_cases"))
    assert sorted(found) == sorted(expected)
    assert sum(row[1] for row in found) == COUNTY_ROWS
    unlike = "length(fips) <> 5 or is_unallocated <> (county = 'Unknown')"
    assert lake_tables(f"select * from silver.silver_county_cases where {unlike}") == []


DAILY = f"""
    with reports as (
        select state, county, cast(date as date) as day, cases, deaths,
            row_number() over (partition by state, county order by date) as nth
        from {COUNTY_FILES}
    ),
    steps as (
        select now.state, now.county, now.day, now.cases, now.deaths,
            now.cases - coalesce(before.cases, 0) as case_change,
            now.deaths - coalesce(before.deaths, 0) as death_change,
            now.day - before.day as gap,
            min(now.day) over (partition by now.state, now.county) as first_day
        from reports as now
        left join reports as before
            on now.state = before.state and now.county = before.county and now.nth = before.nth + 1
    ),
    daily as (
        select *,
            case when case_change > 0 then case_change else 0 end as new_cases,
            case when case_change < 0 then case_change else 0 end as case_correction,
            case when death_change > 0 then death_change when death_change <= 0 then 0 end
                as new_deaths,
            case when death_change < 0 then death_change when death_change >= 0 then 0 end
                as death_correction
        from steps
    )
"""


def test_county_daily_cases(lake_tables: Any) -> None:
    expected = raw(
        f"""
        {DAILY},
        means as (
            select *, round(
                sum(new_cases) over (
                    partition by state, county order by day
                    range between interval 6 days preceding and current row
                ) / least(day - first_day + 1, 7), 2
            ) as mean
            from daily
        )
        select state, count(*), sum(new_cases), sum(case_correction), sum(new_deaths),
            sum(death_correction),
            sum(case when case_change < 0 or death_change < 0 then 1 else 0 end),
            sum(gap), count(gap), sum(cast(round(mean * 100) as bigint))
        from means group by state
        """
    )
    found = lake_tables(
        """
        select state, count(*), sum(new_cases), sum(case_correction), sum(new_deaths),
            sum(death_correction), count_if(has_correction), sum(days_since_previous_report),
            count(days_since_previous_report), cast(sum(new_cases_7_day_mean) * 100 as bigint)
        from gold.county_daily_cases group by state
        """
    )
    assert sorted(found) == sorted(expected)
    assert sum(row[1] for row in found) == COUNTY_ROWS
    assert sum(row[6] for row in found) > 812  # cases alone fell; no fall was swallowed


def test_new_cases_and_corrections_add_up_to_the_count(lake_tables: Any) -> None:
    wrong = """
        select state, county from gold.county_daily_cases group by state, county
        having sum(new_cases) + sum(case_correction) <> max_by(cases, report_date)
    """
    assert lake_tables(wrong) == []


def test_state_weekly_summary(lake_tables: Any) -> None:
    found = lake_tables(
        """
        select state, week_start, counties, days_reported, new_cases, case_correction, new_deaths,
            death_correction
        from gold.state_weekly_summary
        """
    )
    expected = raw(
        f"""
        {DAILY}
        select state, cast(date_trunc('week', day) as date), count(distinct county),
            count(distinct day), sum(new_cases), sum(case_correction), sum(new_deaths),
            sum(death_correction)
        from daily group by 1, 2
        """
    )
    assert sorted(found, key=str) == sorted(expected, key=str)
    rates = lake_tables(
        """
        select cast(new_cases_per_100k as string) from gold.state_weekly_summary
        where state = 'Iowa' and week_start = '2020-11-09'
        """
    )
    cases = next(row[4] for row in expected if (row[0], str(row[1])) == ("Iowa", "2020-11-09"))
    assert rates == [(str(cents(Decimal(cases) * 100_000 / 3_190_369)),)]


# --- commerce -------------------------------------------------------------------------------------


def test_click_events(lake_tables: Any) -> None:
    found = lake_tables(
        """
        select cast(occurred_at as string), event_type, product_id, category_id, category_code,
            brand, price, user_id, session_id
        from silver.silver_click_events
        """
    )
    expected = raw(
        f"""
        select distinct replace(event_time, ' UTC', ''), event_type, cast(product_id as bigint),
            cast(category_id as bigint), category_code, brand, cast(price as decimal(12, 2)),
            cast(user_id as bigint), user_session
        from {CLICK_FILES}
        """
    )
    assert len(expected) > 169
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_sessions_funnel_and_revenue(lake_tables: Any) -> None:
    expected = raw(
        f"""
        select user_session, count(*), count(distinct product_id),
            sum(case when event_type = 'view' then 1 else 0 end),
            sum(case when event_type = 'cart' then 1 else 0 end),
            min(replace(event_time, ' UTC', '')), max(replace(event_time, ' UTC', ''))
        from {CLICK_FILES} group by user_session
        """
    )
    found = lake_tables(
        """
        select session_id, events, products, views, carts, cast(started_at as string),
            cast(ended_at as string)
        from gold.sessions
        """
    )
    assert len(found) == 129 + ClicksConfig().visits
    assert sorted(found) == sorted(expected)

    expected = raw(
        f"""
        select cast(product_id as bigint), cast(left(event_time, 10) as date),
            sum(case when event_type = 'view' then 1 else 0 end), count(distinct user_session),
            count(distinct case when event_type <> 'view' then user_session end),
            count(distinct case when event_type = 'purchase' then user_session end)
        from {CLICK_FILES} group by 1, 2
        """
    )
    found = lake_tables(
        """
        select product_id, event_date, views, visits, visits_with_cart, visits_with_purchase
        from gold.product_daily_funnel
        """
    )
    assert sorted(found) == sorted(expected)

    expected = raw(
        f"""
        select brand, cast(left(event_time, 10) as date), count(*),
            cast(sum(cast(price as decimal(12, 2))) as decimal(28, 2))
        from {CLICK_FILES} where event_type = 'purchase' group by 1, 2
        """
    )
    columns = "brand, event_date, purchases, revenue"
    found = lake_tables(f"select {columns} from gold.brand_daily_revenue")
    assert len(found) > 10
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_every_category_of_the_sample_has_a_name(lake_tables: Any) -> None:
    nameless = "category_code is not null and category is null"
    assert lake_tables(f"select * from gold.product_daily_funnel where {nameless}") == []


# --- retail ---------------------------------------------------------------------------------------


def retail_records() -> dict[str, list[str | None]]:
    """Return the records of the change streams, as files have them: without tombstones."""
    config = RetailConfig()
    return {
        stream: [one.value for one in events(config, stream) if one.value is not None]
        for stream in STREAMS
    }


RETAIL = tables(retail_records())


@pytest.mark.parametrize("table", RETAIL)
def test_what_changes_of_retail_leave(lake_tables: Any, table: str) -> None:
    columns, expected = RETAIL[table]
    found = lake_tables(f"select {columns} from {table}")
    assert len(found) > 30
    assert sorted(found, key=str) == sorted(expected, key=str)


# --- finance --------------------------------------------------------------------------------------


def records(stream: str, key: str, amount: str, time: str) -> list[dict[str, Any]]:
    """Return the well-formed records of a simulated stream, in the order of sending."""
    from headwaters.devkit.samples.simulate import STREAMS

    found = []
    for record in STREAMS[stream](FinanceConfig()):
        try:
            row = json.loads(record.value, parse_float=Decimal, parse_int=Decimal)
            moment = datetime.fromisoformat(row[time])
            row[time] = int(moment.timestamp() * 1000 + 0.5)
            row["day"] = moment.astimezone(UTC).date()
            assert isinstance(row[amount], Decimal)
            assert row[key]
        except (ValueError, KeyError, AssertionError):
            continue
        found.append(row)
    return found


def transactions() -> list[dict[str, Any]]:
    """Return the current transactions: the latest record of each."""
    latest: dict[str, dict[str, Any]] = {}
    for row in records("financial_transactions", "transaction_id", "amount", "timestamp"):
        present = latest.get(row["transaction_id"])
        if present is None or row["timestamp"] > present["timestamp"]:
            latest[row["transaction_id"]] = row
    return list(latest.values())


def claim_records() -> list[dict[str, Any]]:
    """Return all well-formed records of claims."""
    return records("insurance_claims", "claim_id", "claim_amount", "claimed_at")


def claims() -> list[dict[str, Any]]:
    """Return the current claims: the most advanced record of each."""
    furthest: dict[str, dict[str, Any]] = {}
    steps = {"open": 1, "approved": 2, "rejected": 2, "paid": 3}
    for row in claim_records():
        present = furthest.get(row["claim_id"])
        if present is None or steps[row["status"]] > steps[present["status"]]:
            furthest[row["claim_id"]] = row
    return list(furthest.values())


def rates() -> dict[str, Decimal]:
    """Return euros for one unit of each currency, from the seed's file."""
    lines = (ROOT / "seeds/exchange_rates.csv").read_text().splitlines()[1:]
    cells = [line.split(",") for line in lines]
    return {code: Decimal(rate) for code, _, rate, _ in cells if rate}


def cents(amount: Decimal) -> Decimal:
    """Round to two digits after the point."""
    return rounded(amount, 2)


def rounded(amount: Decimal, digits: int) -> Decimal:
    """Round halves away from zero, as Spark does."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def test_financial_transactions(lake_tables: Any) -> None:
    expected = [
        (
            row["transaction_id"],
            row["timestamp"],
            row["day"],
            row["account_id"],
            row["merchant_id"],
            row["transaction_type"],
            row["category"].lower(),
            cents(row["amount"]),
            row["currency"],
        )
        for row in transactions()
    ]
    assert len(expected) == 19_300
    columns = """
        transaction_id, unix_millis(transacted_at), transaction_date, account_id, merchant_id,
        transaction_type, category, amount, currency
    """
    for table in ("silver.silver_financial_transactions", "gold.financial_transactions_dim"):
        assert sorted(lake_tables(f"select {columns} from {table}")) == sorted(expected)


def test_transactions_in_euros(lake_tables: Any) -> None:
    euros = rates()
    expected = [
        (row["transaction_id"], rounded(row["amount"] * euros[row["currency"]], 4))
        for row in transactions()
    ]
    found = lake_tables("select transaction_id, amount_eur from gold.financial_transactions_dim")
    assert sorted(found) == sorted(expected)


def test_account_daily_spend(lake_tables: Any) -> None:
    euros = rates()
    spent: dict[Row, list[Decimal]] = defaultdict(list)
    for row in transactions():
        if row["transaction_type"] == "debit":
            spent[row["account_id"], row["day"], row["currency"]].append(cents(row["amount"]))
    expected = [
        (*key, len(amounts), sum(amounts), rounded(sum(amounts) * euros[key[2]], 6))
        for key, amounts in spent.items()
    ]
    found = lake_tables(
        """
        select account_id, transaction_date, currency, transactions, amount, amount_eur
        from gold.account_daily_spend
        """
    )
    assert sorted(found) == sorted(expected)


def test_merchant_activity(lake_tables: Any) -> None:
    numbers: Counter[Row] = Counter()
    sums: dict[Row, Decimal] = defaultdict(Decimal)
    for row in transactions():
        key = (row["merchant_id"], row["currency"], row["transaction_type"])
        numbers[key] += 1
        sums[key] += cents(row["amount"])
    expected = [
        (
            *key,
            numbers[*key, "debit"] + numbers[*key, "credit"],
            numbers[*key, "debit"],
            numbers[*key, "credit"],
            sums[*key, "debit"],
            sums[*key, "credit"],
        )
        for key in {key[:2] for key in numbers}
    ]
    found = lake_tables(
        """
        select merchant_id, currency, transactions, debits, credits, debited_amount,
            credited_amount
        from gold.merchant_activity
        """
    )
    assert sorted(found) == sorted(expected)


def test_insurance_claims(lake_tables: Any) -> None:
    expected = [
        (
            row["claim_id"],
            row["claimed_at"],
            row["incident_date"],
            cents(row["claim_amount"]),
            None if row["paid_amount"] is None else cents(row["paid_amount"]),
            row["status"],
        )
        for row in claims()
    ]
    assert len(expected) == 1_980
    found = lake_tables(
        """
        select claim_id, unix_millis(claimed_at), cast(incident_date as string), claim_amount,
            paid_amount, status
        from silver.silver_insurance_claims
        """
    )
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_claims_loss_ratio(lake_tables: Any) -> None:
    groups: dict[Row, list[dict[str, Any]]] = defaultdict(list)
    for row in claims():
        year = int(row["incident_date"][:4])
        groups[row["claim_type"], year, row["currency"]].append(row)
    expected = []
    for key, members in groups.items():
        # A policy's premium never changes in the simulation.
        premium = sum({row["policy_id"]: cents(row["premium_amount"]) for row in members}.values())
        paid = sum((cents(row["paid_amount"] or Decimal(0)) for row in members), Decimal(0))
        expected.append(
            (
                *key,
                len({row["policy_id"] for row in members}),
                len(members),
                sum(row["status"] == "open" for row in members),
                sum(cents(row["claim_amount"]) for row in members),
                paid,
                premium,
                rounded(paid / premium, 6),
            )
        )
    found = lake_tables(
        """
        select claim_type, accident_year, currency, policies, claims, open_claims, claimed_amount,
            paid_amount, premium_amount, loss_ratio
        from gold.claims_loss_ratio
        """
    )
    assert sorted(found) == sorted(expected)


def test_insurance_claim_status_history(lake_tables: Any) -> None:
    current = "select claim_id, status from gold.insurance_claim_status_history where is_current"
    assert sorted(lake_tables(current)) == sorted(
        (row["claim_id"], row["status"]) for row in claims()
    )
    # A claim of the first step that advanced in the second has two adjacent periods.
    ended = """
        select count(*), count_if(next.claim_id is not null)
        from gold.insurance_claim_status_history as period
        left join gold.insurance_claim_status_history as next
            on period.claim_id = next.claim_id and period.valid_to = next.valid_from
        where not period.is_current
    """
    ((periods, followed),) = lake_tables(ended)
    assert periods == followed > 0


# --- afterwards -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plain_dbt_run_goes_on_from_what_an_engine_left(lake_tables: Any, tmp_path: Path) -> None:
    """Run dbt with a separate Spark, which uses the lake's metastore."""
    command = [sys.executable, "-m", "dbt.cli.main", "run", "--select", "state_weekly_summary"]
    command += ["--target-path", str(tmp_path / "target"), "--log-path", str(tmp_path / "logs")]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment(ROOT / "lake" / "dbt-test"), "DBT_USE_COLORS": "false"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (said,) = [
        line for line in ran.stdout.splitlines() if "state_weekly_summary" in line and "OK" in line
    ]
    assert "no changes" in said
