"""Generate the inputs of a brokerage warehouse: a history and daily batches, by DuckDB.

The tables are those of `tests/python/analysis/brokerage`, modelled on TPC-DI. Customers, accounts,
companies and securities arrive as changes; trades, payments, prices and a marketing list grow by
the day. Every value follows from its row's number, so the same scale gives the same rows.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

DAYS = 130  # of the history; a batch is one more day

# Rows of a table in the history at scale 1, and in each batch.
ROWS = {
    "employee": (500, 0),
    "company_filing": (500, 0),
    "security_filing": (1_000, 0),
    "financial_report": (4_000, 0),
    "customer_change": (2_500, 12),
    "account_change": (5_000, 25),
    "trade": (20_000, 130),
    "trade_event": (40_000, 260),
    "holding_change": (14_000, 90),
    "cash_transaction": (16_000, 110),
    "watch_event": (12_000, 80),
    "daily_price": (400 * DAYS, 400),
    "prospect": (2_500, 10),
}

# `i`: the row's number. `{day}`: its day. `{table}`: the rows of a table. `d(i, salt, n)` draws a
# number below n.
_MACROS = """
create macro d(i, salt, choices) as hash(i * 31 + salt) % choices;
create macro pick(i, salt, list) as list[1 + d(i, salt, len(list))::int];
create macro moment(i, salt, day) as timestamp '2024-01-01'
    + to_days(day::int) + to_seconds(d(i, salt, 86400)::int);
"""
_SQL = {
    "employee": """
        i as employee_id, if(i < 20, null, d(i, 1, 20))::bigint as manager_id,
        'First' || d(i, 2, 90) as first_name, 'Last' || d(i, 3, 400) as last_name,
        if(d(i, 4, 3) = 0, 100, 314)::int as job_code, pick(i, 5, ['East', 'West']) as branch,
        'O' || d(i, 6, 9) as office, '555-' || i as phone""",
    "company_filing": """
        i as filing_id, i % ({company_filing} // 2) as company_id, moment(i, 1, 0) as filed_at,
        'Company ' || i % ({company_filing} // 2) as name,
        pick(i, 2, ['ACTV', 'INAC']) as status_id,
        pick(i, 3, ['BN', 'SW', 'SC', 'OG']) as industry_id,
        pick(i, 4, ['AAA', 'B+', 'C']) as rating, 'Ceo ' || d(i, 5, 99) as ceo,
        date '1980-01-01' + d(i, 6, 9999)::int as founded_on""",
    "security_filing": """
        i as filing_id, 'S' || i % 400 as symbol, moment(i, 1, 0) as filed_at,
        'Share ' || i % 400 as name, pick(i, 2, ['COMMON', 'PREF_A']) as issue_type,
        pick(i, 3, ['ACTV', 'INAC']) as status_id, pick(i, 4, ['NYSE', 'NASDAQ']) as exchange_id,
        d(i % 400, 5, {company_filing} // 2)::bigint as company_id,
        1000 + d(i, 6, 9000)::bigint as shares_outstanding,
        d(i, 7, 400)::decimal(10, 2) as dividend""",
    "financial_report": """
        i // 16 as company_id, (2020 + i // 4 % 4)::int as fiscal_year,
        (1 + i % 4)::int as fiscal_quarter,
        make_date(2020 + i // 4 % 4, 1 + 3 * (i % 4), 1) as quarter_begins_on,
        make_date(2020 + i // 4 % 4, 1 + 3 * (i % 4), 20) as posted_on,
        d(i, 1, 90000)::decimal(18, 2) as revenue, d(i, 2, 9000)::decimal(18, 2) as earnings,
        d(i, 3, 40)::decimal(10, 2) as eps""",
    "customer_change": """
        i as change_id, i % ({customer_change} // 2) as customer_id,
        if(i < {customer_change} // 2, 'NEW', 'UPDCUST') as action,
        moment(i, 1, {day}) as changed_at,
        if(is_new or d(i, 2, 9) = 0, 'Last' || d(i, 3, 400), null) as last_name,
        if(is_new, 'First' || d(i, 4, 90), null) as first_name,
        if(is_new or d(i, 5, 2) = 0, i || '@example.org', null) as email,
        if(is_new or d(i, 6, 3) = 0, 1 + d(i, 7, 3), null)::int as tier,
        if(is_new, date '1950-01-01' + d(i, 8, 18000)::int, null) as birth_date,
        if(is_new, pick(i, 9, ['US', 'CA']), null) as country,
        if(is_new or d(i, 10, 2) = 0, 'City ' || d(i, 11, 60), null) as city,
        if(is_new, (10000 + d(i, 12, 90))::varchar, null) as postal_code,
        if(is_new, pick(i, 13, ['NY1', 'TX0']), null) as local_tax_id,
        if(is_new, pick(i, 14, ['US1', 'US2', 'CA1']), null) as national_tax_id""",
    "account_change": """
        i as change_id, i % ({account_change} // 2) as account_id,
        if(i < {account_change} // 2, 'NEW', 'UPDACCT') as action,
        moment(i, 1, {day}) as changed_at,
        if(is_new, d(i, 2, {customer_change} // 2), null)::bigint as customer_id,
        if(is_new or d(i, 3, 2) = 0, d(i, 4, {employee}), null)::bigint as broker_id,
        if(is_new or d(i, 5, 2) = 0, 'Account ' || i, null) as name,
        if(is_new or d(i, 6, 3) = 0, d(i, 7, 3), null)::int as tax_status""",
    "trade": """
        i as trade_id, moment(i, 1, {day}) as traded_at,
        if(is_old, 'CMPT', pick(i, 2, ['CMPT', 'PNDG', 'CNCL'])) as status_id,
        pick(i, 3, ['TMB', 'TMS', 'TLB', 'TLS', 'TSL']) as type_id, d(i, 4, 5) > 0 as is_cash,
        'S' || d(i, 5, 400) as symbol, (50 * (1 + d(i, 6, 9)))::int as quantity,
        (20 + d(i, 7, 40))::decimal(10, 2) as bid_price,
        d(i, 8, {account_change} // 2)::bigint as account_id, 'desk' || d(i, 9, 50) as executed_by,
        if(d(i, 10, 20) = 0, null, 20 + d(i, 7, 40))::decimal(10, 2) as trade_price,
        2::decimal(10, 2) as fee, d(i, 11, 10)::decimal(10, 2) as commission,
        1::decimal(10, 2) as tax""",
    "trade_event": """
        i // 2 as trade_id, ['PNDG', 'CMPT'][1 + i % 2] as status_id,
        moment(i // 2, 1, {day}) + to_minutes((30 * (i % 2))::int) as happened_at""",
    "holding_change": """
        d(i, 1, i * 10 // 7 + 1)::bigint as opening_trade_id, i * 10 // 7 as trade_id,
        (50 * d(i, 2, 9))::int as quantity_before, (50 * d(i, 3, 4))::int as quantity_after""",
    "cash_transaction": """
        d(i, 1, {account_change} // 2)::bigint as account_id, moment(i, 2, {day}) as happened_at,
        (d(i, 3, 4000)::int - 2000)::decimal(10, 2) as amount,
        'payment ' || d(i, 4, 30) as description""",
    "watch_event": """
        d(i, 1, {customer_change} // 2)::bigint as customer_id, 'S' || d(i, 2, 400) as symbol,
        moment(i, 3, {day}) as happened_at, pick(i, 4, ['ACTV', 'ACTV', 'CNCL']) as action""",
    "daily_price": """
        date '2024-01-01' + (i // 400)::int as market_date, 'S' || i % 400 as symbol,
        (30 + d(i, 1, 5))::decimal(10, 2) as close, (35 + d(i, 2, 9))::decimal(10, 2) as high,
        (20 + d(i, 3, 9))::decimal(10, 2) as low, d(i, 4, 50000)::bigint as volume""",
    "prospect": """
        'P' || i as prospect_id, 'Last' || d(i, 1, 400) as last_name,
        'First' || d(i, 2, 90) as first_name, 'City ' || d(i, 3, 60) as city,
        (10000 + d(i, 4, 90))::varchar as postal_code, 'US' as country,
        (20 + d(i, 5, 60))::int as age, (1000 * d(i, 6, 250))::int as income,
        (10000 * d(i, 7, 300))::int as net_worth, (500 + d(i, 8, 300))::int as credit_rating,
        d(i, 9, 9)::int as cards, d(i, 10, 5)::int as cars, d(i, 11, 5)::int as children""",
}
# Statements over rows of earlier days: `{number}` is that of the batch.
CHANGES = (
    "update inputs.trade set status_id = 'CMPT', trade_price = bid_price"
    " where status_id = 'PNDG' and trade_id % 40 = {number}",
    "update inputs.prospect set net_worth = net_worth + 50000"
    " where income % 97000 = {number} * 1000",
)


def generate(folder: Path, scale: float, batches: int) -> int:
    """Write `<folder>/<batch>/<table>.parquet`, batch 0 the history. Return the history's rows."""
    sizes = {name: max(round(rows[0] * scale), 16) for name, rows in ROWS.items()}
    sizes["daily_price"] = 400 * DAYS  # securities and days do not grow
    total = 0
    with duckdb.connect() as db:
        db.execute(_MACROS)
        for number in range(batches + 1):
            (folder / str(number)).mkdir(parents=True, exist_ok=True)
            for name, (_, more) in ROWS.items():
                more = more if name == "daily_price" else round(more * scale)
                first = 0 if number == 0 else sizes[name] + (number - 1) * more
                last = first + (more if number else sizes[name])
                day = DAYS + number - 1 if number else f"i * {DAYS} // {sizes[name]}"
                columns = _SQL[name].format(**sizes, day=day)
                db.execute(
                    f"copy (select {columns} from (select range::bigint as i,"
                    f" range < {sizes[name] // 2} as is_new, range < {sizes[name] * 95 // 100}"
                    f" as is_old from range({first}, {last})))"
                    f" to '{folder / str(number) / name}.parquet'"
                )
                total += 0 if number else last
    return total
