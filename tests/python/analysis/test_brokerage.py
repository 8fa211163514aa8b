"""Test the derivations of a brokerage warehouse in plain SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from analysis.refreshes import SEEDS, derived_of, inputs_with_keys, tried_history
from analysis.warehouse import SQL, rendered
from headwaters.analysis.derive import Question, derive
from headwaters.analysis.helpful_keys import helpful_key

# Strategy, unique_key and roles; `!` marks an input that replaces the table when it changes.
BROKERAGE: dict[str, str] = {
    "account_monthly_activity": (
        "affected_keys () cash_transactions by account_id, trades by account_id"
    ),
    "account_positions": (
        "affected_keys (account_id, symbol) current_accounts by account_id, current_holdings "
        "by account_id, daily_market by symbol = symbol of current_holdings"
    ),
    "account_trade_gaps": "affected_keys (trade_id) trades by account_id",
    "broker_daily_trades": (
        "affected_keys (broker_id, trade_date) fact_trades by broker_id, trade_date"
    ),
    "broker_market_shares": "staged (broker_id) broker_daily_trades, dim_broker",
    "broker_top_customers": (
        "affected_keys (broker_id, customer_id) current_customers by customer_id = "
        "customer_id of fact_trades, fact_trades by broker_id"
    ),
    "current_accounts": (
        "affected_keys (account_key) dim_account by account_key, dim_broker by broker_id = "
        "broker_id of dim_account, fact_cash_balances by account_id = account_id of "
        "dim_account"
    ),
    "current_customers": (
        "affected_keys (customer_key) account_versions by customer_id = customer_id of "
        "dim_customer, dim_customer by customer_key"
    ),
    "current_holdings": "affected_keys (account_id, symbol) holding_changes by account_id, symbol",
    "customer_segments": (
        "affected_keys (generation, country) dim_customer led to generation, country"
    ),
    "customer_symbols": (
        "affected_keys (customer_id) fact_trades by customer_id, watches by customer_id"
    ),
    "customer_timeline": (
        "affected_keys () cash_transactions by customer_id, customer_versions by "
        "customer_id, fact_trades by customer_id, watch_events by customer_id"
    ),
    "customer_value_ranks": "staged (customer_id) account_positions, current_customers",
    "customers_without_trades": (
        "affected_keys (customer_id) account_versions by customer_id, current_customers by "
        "customer_id, trades by account_id = account_id of account_versions"
    ),
    "daily_volume_ranks": "affected_keys (market_date, symbol) daily_market by market_date",
    "dim_account": (
        "affected_keys (account_version_id, customer_version_id) account_versions by "
        "customer_id, customer_versions by customer_id"
    ),
    "dim_broker": (
        "affected_keys (broker_id) account_versions by broker_id, employees by employee_id"
    ),
    "dim_company": (
        "affected_keys (company_version_id) company_versions by company_version_id, "
        "security_versions by company_id = company_id of company_versions"
    ),
    "dim_customer": (
        "affected_keys (customer_version_id) customer_versions led to customer_version_id, "
        "prospects led to customer_version_id"
    ),
    "dim_security": (
        "affected_keys (security_version_id, company_version_id) company_versions by "
        "company_id, security_versions by company_id"
    ),
    "dim_trade": "affected_keys (trade_id) trade_lifecycles by trade_id, trades by trade_id",
    "fact_cash_balances": (
        "affected_keys (account_id, transaction_date) cash_transactions by account_id"
    ),
    "fact_holdings": (
        "affected_keys () dim_account by account_id = account_id of holding_changes, "
        "dim_security by symbol = symbol of holding_changes, holding_changes by "
        "opening_trade_id, trades by trade_id"
    ),
    "fact_market_history": (
        "affected_keys () daily_market by symbol, dim_security by symbol, financials by "
        "company_id = company_id of dim_security"
    ),
    "fact_prospects": (
        "affected_keys (prospect_id, last_name, first_name, nameplate, credit_rating, "
        "net_worth) customer_versions led to prospect_id, last_name, first_name, nameplate, "
        "credit_rating, net_worth, prospects led to prospect_id, last_name, first_name, "
        "nameplate, credit_rating, net_worth"
    ),
    "fact_trades": (
        "affected_keys () dim_account by account_id, dim_broker by broker_id = broker_id of "
        "dim_account, dim_security by symbol = symbol of trades, trades by account_id"
    ),
    "fact_watches": (
        "affected_keys () dim_customer by customer_id, dim_security by symbol = symbol of "
        "watches, watches by customer_id"
    ),
    "industry_quarters": (
        "affected_keys (industry, fiscal_year, fiscal_quarter) company_versions by "
        "company_id = company_id of financials, financials by fiscal_quarter, fiscal_year"
    ),
    "security_daily_returns": "affected_keys (symbol, market_date) daily_market by symbol",
    "symbol_daily_trades": (
        "affected_keys (symbol, trade_date) daily_market by market_date, symbol, trades by "
        "symbol, trade_date"
    ),
    "symbol_watchers": (
        "affected_keys (symbol) current_customers by customer_id = customer_id of "
        "fact_watches, fact_watches by symbol"
    ),
    "trade_totals": "staged (trades) fact_trades",
    "unsettled_trades": "affected_keys (trade_id) trade_events by trade_id, trades by trade_id",
    "account_versions": "affected_keys (account_version_id) account_change by account_id",
    "cash_transactions": (
        "affected_keys () account_versions by account_id, cash_transaction by account_id"
    ),
    "company_versions": "affected_keys (company_version_id) company_filing by company_id",
    "contacts": (
        "affected_keys () customer_versions by last_name, employees by last_name, prospects "
        "by last_name"
    ),
    "customer_versions": "affected_keys (customer_version_id) customer_change by customer_id",
    "daily_market": "affected_keys (symbol, market_date) daily_price by symbol",
    "employees": "affected_keys (employee_id) employee led to employee_id",
    "financials": (
        "affected_keys (company_id, fiscal_year, fiscal_quarter) financial_report by company_id"
    ),
    "holding_changes": (
        "affected_keys (opening_trade_id, trade_id) holding_change by opening_trade_id, "
        "trade_id, trades by trade_id = trade_id of holding_change"
    ),
    "prospects": "change_feed (prospect_id) prospect",
    "security_versions": (
        "affected_keys () company_versions by company_id = company_id of security_filing, "
        "security_filing by symbol"
    ),
    "trade_events": (
        "affected_keys (trade_id, status_id) trade_event by trade_id, trades by trade_id"
    ),
    "trade_lifecycles": "affected_keys (trade_id) trade_events by trade_id",
    "trades": "change_feed (trade_id) trade",
    "watch_events": "affected_keys () security_versions by symbol, watch_event by symbol",
    "watches": "affected_keys (customer_id, symbol) watch_events by customer_id, symbol",
}


def told_of(
    strategy: str,
    unique_key: Sequence[str],
    roles: Mapping[str, Mapping[str, Any]],
    led_to: Sequence[str],
) -> str:
    """Return a line such as `affected_keys (id) a by id, b by id = a_id of a, c led to id, !d`."""
    told = []
    for name, role in sorted(roles.items()):
        if role["kind"] == "lookup":
            told += [] if name in SEEDS else [f"!{name}"]
        elif led_to:
            told.append(f"{name} led to {', '.join(led_to)}")
        elif role.get("via"):
            pairs = (f"{one} = {other}" for one, other in sorted(role["on"].items()))
            told.append(f"{name} by {', '.join(pairs)} of {role['via']}")
        else:
            columns = (role.get("key") or {}).values()
            told.append(" by ".join([name, *[", ".join(sorted(columns))] * bool(columns)]))
    return f"{strategy} ({', '.join(unique_key)}) {', '.join(told)}"


@pytest.mark.parametrize("model", SQL)
def test_what_is_derived(model: str) -> None:
    found = derived_of(model)
    roles = {source.name: vars(source) for source in found.inputs}
    assert told_of(found.strategy, found.unique_key, roles, found.key) == BROKERAGE[model]


def test_every_model_follows_every_input() -> None:
    assert len(BROKERAGE) == len(SQL) == 49
    assert {model for model, told in BROKERAGE.items() if "!" in told} == set()


# The tables whose keys a stranger declares.
DIMENSIONS = ("dim_account", "dim_customer", "dim_security")
# Models that replace the table without the other keys, with the reason.
WITHOUT_KEYS = {"dim_customer": "prospects may tie, and customers of several keys read the first"}


def test_hardly_any_declared_key_is_needed() -> None:
    found = {}
    for model in SQL:
        inputs = [
            source if source.name in DIMENSIONS else replace(source, unique=())
            for source in inputs_with_keys(model)
        ]
        found[model] = derive(Question(rendered(model), inputs, SEEDS, follows_ties=True))
    lost = {
        model
        for model, derived in found.items()
        for source in derived.inputs
        if not source.is_followed and source.name not in SEEDS
    }
    assert lost == WITHOUT_KEYS.keys()
    # without the keys, an order lets rows tie
    assert sum(bool(derived.ties) for derived in found.values()) == 13


def test_the_missing_key_is_named() -> None:
    inputs = [replace(source, unique=()) for source in inputs_with_keys("dim_customer")]
    found = helpful_key(Question(rendered("dim_customer"), inputs, SEEDS, follows_ties=True))
    assert found is not None
    source, columns, is_unique_enough = found
    assert (source.name, columns, is_unique_enough) == ("prospects", ("prospect_id",), False)


def test_what_is_derived_is_right_and_what_is_declared_is_unique() -> None:
    assert tried_history(seed=1, refreshes=2) == []
