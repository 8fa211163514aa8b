"""Draw random histories of the sources of the brokerage warehouse.

A history is drawn from a seed, as statements that Spark and DuckDB both run. Rows arrive on time
and late, and rows are updated, deleted and moved to other keys. Columns that the YAML declares
unique stay unique.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

from analysis.warehouse import columns_of, key_of, of_kind

SYMBOLS = ["AAX", "BBX", "CCX", "DDX", "EEX", "FFX", "GGX"]
LAST_NAMES = ["Lovelace", "Noether", "Hopper", "Curie", " noether "]
FIRST_NAMES = ["Ada", "Emmy", "Grace", "MARIE", "Ida"]
CITIES = ["Austin", "Boston", "Toronto", None]
POSTAL_CODES = ["10001", "73301", "m5h", "M5H"]
BEGIN = datetime(2024, 1, 1)
DAYS = 700

# `{m}`, `{r}`: rows by the remainder of a number. `History.chosen` fills in the other names.
UPDATES = [
    "update inputs.trade set trade_price = trade_price + 0.25, quantity = quantity + 10"
    " where trade_id % {m} = {r}",
    "update inputs.trade set status_id = 'CMPT' where trade_id % {m} = {r}",
    "update inputs.trade set traded_at = traded_at - interval 40 days where trade_id % {m} = {r}",
    "update inputs.trade set commission = 0, executed_by = 'desk' where account_id = {account}",
    "update inputs.trade_event set happened_at = happened_at + interval 90 minutes"
    " where trade_id % {m} = {r}",
    "update inputs.holding_change set quantity_after = 0 where trade_id % {m} = {r}",
    "update inputs.cash_transaction set amount = amount + 1 where account_id % {m} = {r}",
    "update inputs.cash_transaction set happened_at = happened_at - interval 1 day"
    " where account_id % {m} = {r}",
    "update inputs.watch_event set action = 'CNCL' where customer_id % {m} = {r}",
    "update inputs.daily_price set high = high + 5 where volume % {m} = {r}",
    "update inputs.daily_price set close = close - 1, volume = volume + 7"
    " where symbol = '{symbol}'",
    "update inputs.financial_report set eps = eps + 0.1, revenue = revenue - 5"
    " where company_id % {m} = {r}",
    "update inputs.employee set job_code = 314 where employee_id % {m} = {r}",
    "update inputs.employee set job_code = 100, phone = null where employee_id % {m} = {r}",
    "update inputs.employee set manager_id = {employee} where employee_id % {m} = {r}",
    "update inputs.employee set last_name = 'Married' where employee_id = {employee}",
    "update inputs.prospect set net_worth = net_worth + 500000 where age % {m} = {r}",
    "update inputs.company_filing set industry_id = 'SW', rating = 'CC'"
    " where filing_id % {m} = {r}",
    "update inputs.company_filing set filed_at = filed_at + interval 60 days"
    " where filing_id % {m} = {r}",
    "update inputs.security_filing set dividend = dividend + 1 where filing_id % {m} = {r}",
    "update inputs.customer_change set tier = {r}, city = null where change_id % {m} = {r}",
    "update inputs.customer_change set changed_at = changed_at + interval 30 days"
    " where change_id % {m} = {r}",
    "update inputs.account_change set changed_at = changed_at - interval 20 days"
    " where change_id % {m} = {r}",
    "update inputs.account_change set action = 'CLOSEACCT' where change_id % {m} = {r}",
]
MOVES = [
    "update inputs.account_change set customer_id = {customer} where account_id = {account}",
    "update inputs.account_change set account_id = {account} where change_id % {m} = {r}",
    "update inputs.account_change set broker_id = {employee} where change_id % {m} = {r}",
    "update inputs.account_change set broker_id = null where account_id = {account}",
    "update inputs.customer_change set customer_id = {customer} where change_id % {m} = {r}",
    "update inputs.customer_change set last_name = 'Curie', postal_code = '10001'"
    " where change_id % {m} = {r}",
    "update inputs.trade set account_id = {account} where trade_id % {m} = {r}",
    "update inputs.trade set symbol = '{symbol}' where trade_id % {m} = {r}",
    "update inputs.trade set trade_id = {new} where trade_id = {trade}",
    "update inputs.holding_change set opening_trade_id = {new} where opening_trade_id = {trade}",
    "update inputs.cash_transaction set account_id = {account} where account_id % {m} = {r}",
    "update inputs.watch_event set customer_id = {customer} where customer_id % {m} = {r}",
    "update inputs.watch_event set symbol = null where customer_id = {customer}",
    "update inputs.company_filing set company_id = {company} where filing_id % {m} = {r}",
    "update inputs.security_filing set company_id = {company} where filing_id % {m} = {r}",
    "update inputs.security_filing set symbol = '{symbol}' where filing_id % {m} = {r}",
    "update inputs.daily_price set symbol = 'N{new}' where symbol = '{symbol}'",
    "update inputs.financial_report set company_id = {new} where company_id = {company}",
    "update inputs.employee set employee_id = {new} where employee_id = {employee}",
    "update inputs.prospect set last_name = 'Hopper', first_name = 'grace', postal_code = '73301'"
    " where age % {m} = {r}",
]
DELETES = [
    "delete from inputs.customer_change where change_id % {m} = {r}",
    "delete from inputs.account_change where change_id % {m} = {r}",
    "delete from inputs.account_change where account_id = {account}",
    "delete from inputs.company_filing where filing_id % {m} = {r}",
    "delete from inputs.security_filing where filing_id % {m} = {r}",
    "delete from inputs.financial_report where fiscal_quarter = {r}",
    "delete from inputs.employee where employee_id = {employee}",
    "delete from inputs.trade where trade_id % {m} = {r}",
    "delete from inputs.trade_event where trade_id % {m} = {r}",
    "delete from inputs.trade_event where status_id = 'CMPT' and trade_id % {m} = {r}",
    "delete from inputs.holding_change where trade_id % {m} = {r}",
    "delete from inputs.cash_transaction where account_id % {m} = {r}",
    "delete from inputs.watch_event where customer_id % {m} = {r}",
    "delete from inputs.daily_price where volume % {m} = {r}",
    "delete from inputs.prospect where age % {m} = {r}",
]


class History:
    """Statements over the tables of `inputs`, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        """Draw from `seed`: the same seed gives the same statements."""
        self.draw = random.Random(seed)
        self.last = 1000  # a number that no key has
        self.now = BEGIN + timedelta(days=DAYS)
        self.customers = list(range(1, 15))
        self.accounts = list(range(1, 21))
        self.employees = list(range(1, 10))
        self.companies = list(range(1, 6))
        self.trades: list[int] = []

    def tables(self) -> list[str]:
        """Return the first rows of every table."""
        chosen = self.draw
        rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in of_kind("sources")}
        for employee in self.employees:
            rows["employee"].append(self.employee(employee))
        for company in self.companies:
            filings = [self.company_filing(company) for _ in range(2)]
            rows["company_filing"] += filings
            rows["financial_report"] += [
                self.financial_report(company, 2024 + n // 4, n % 4 + 1) for n in range(8)
            ]
        for symbol in SYMBOLS:
            rows["security_filing"] += [self.security_filing(symbol) for _ in range(2)]
            days = sorted(chosen.sample(range(DAYS), 12))
            rows["daily_price"] += [self.daily_price(symbol, day) for day in days]
        for customer in self.customers:
            first = self.early()
            rows["customer_change"].append(self.customer_change(customer, first, "NEW"))
            rows["customer_change"] += [
                self.customer_change(customer, self.moment(), "UPDCUST")
                for _ in range(chosen.randrange(3))
            ]
        for account in self.accounts:
            rows["account_change"].append(self.account_change(account, self.early(), "NEW"))
            rows["account_change"] += [
                self.account_change(account, self.moment(), "UPDACCT")
                for _ in range(chosen.randrange(3))
            ]
        for name, more in self.activity(60, self.moment):
            rows[name] += more
        rows["prospect"] = [self.prospect() for _ in range(16)]
        return [inserted(name, found) for name, found in rows.items()]

    def refresh(self, many: int = 12) -> list[str]:
        """Return new rows, late rows, and `many` updates, moves and deletions together."""
        self.now += timedelta(days=2)
        statements = [*self.arrivals(lambda: self.now - timedelta(hours=self.draw.randrange(40)))]
        if self.draw.random() < 0.7:
            statements += self.arrivals(self.moment)
        kinds = self.draw.choices([UPDATES, MOVES, DELETES], [5, 4, 2], k=many)
        return statements + [self.chosen(self.draw.choice(kind)) for kind in kinds]

    def chosen(self, statement: str) -> str:
        """Return a statement with its keys and remainders filled in."""
        draw = self.draw
        modulus = draw.randrange(3, 9)
        return statement.format(
            m=modulus,
            r=draw.randrange(modulus),
            customer=draw.choice(self.customers),
            account=draw.choice(self.accounts),
            employee=draw.choice(self.employees),
            company=draw.choice(self.companies),
            trade=draw.choice(self.trades),
            symbol=draw.choice(SYMBOLS),
            new=self.number(),
        )

    def arrivals(self, moment: Callable[[], datetime]) -> Iterator[str]:
        """Return new rows of every kind, with current or past timestamps."""
        for name, rows in self.activity(4, moment):
            if rows:
                yield inserted(name, rows)
        draw = self.draw
        customer, account = self.number(), self.number()
        new = [
            self.customer_change(customer, moment(), "NEW"),
            self.customer_change(draw.choice(self.customers), moment(), "UPDCUST"),
            self.customer_change(draw.choice(self.customers), moment(), "INACT"),
        ]
        self.customers.append(customer)
        yield inserted("customer_change", new)
        new = [
            self.account_change(account, moment(), "NEW"),
            self.account_change(draw.choice(self.accounts), moment(), "UPDACCT"),
        ]
        self.accounts.append(account)
        yield inserted("account_change", new)
        yield inserted(
            "company_filing", [self.company_filing(draw.choice(self.companies), moment())]
        )
        yield inserted("security_filing", [self.security_filing(draw.choice(SYMBOLS), moment())])
        # a day and a quarter that no other row has: keys stay unique
        day = (moment() - BEGIN).days
        yield from self.replaced("daily_price", self.daily_price(draw.choice(SYMBOLS), day))
        report = self.financial_report(draw.choice(self.companies), 2026, draw.randrange(1, 5))
        yield from self.replaced("financial_report", report)
        yield inserted("prospect", [self.prospect()])
        yield inserted("employee", [self.employee(self.number())])

    def replaced(self, name: str, row: tuple[Any, ...]) -> Iterator[str]:
        """Yield statements that replace the row of the same key."""
        places = list(columns_of(name))
        same = " and ".join(f"{key} = {literal(row[places.index(key)])}" for key in key_of(name))
        yield f"delete from inputs.{name} where {same}"
        yield inserted(name, [row])

    def activity(
        self, many: int, moment: Callable[[], datetime]
    ) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Return trades with events and holdings, payments and watches, some of them twice."""
        draw = self.draw
        trades, events, holdings = [], [], []
        for _ in range(many):
            trade, at = self.number(), moment()
            status = draw.choice(["CMPT", "CMPT", "PNDG", "CNCL"])
            trades.append(self.trade(trade, at, status))
            steps = ["PNDG", "SBMT", status][: draw.randrange(1, 4)]
            for place, step in enumerate(dict.fromkeys(steps)):
                events.append((trade, step, at + timedelta(minutes=place * draw.randrange(90))))
            if self.trades and draw.random() < 0.7:
                opening = draw.choice([*self.trades[-20:], trade])
                before = draw.randrange(0, 500, 50)
                holdings.append((opening, trade, before, draw.choice([0, before + 100])))
            self.trades.append(trade)
        yield "trade", trades
        yield "trade_event", events
        yield "holding_change", holdings
        amounts = [-250, 100, 1000, 35]
        payments = [
            (
                draw.choice(self.accounts),
                moment(),
                draw.choice(amounts),
                draw.choice([" fee", "pay", None]),
            )
            for _ in range(many)
        ]
        yield "cash_transaction", [*payments, *payments[: many // 4]]
        watches = [
            (
                draw.choice(self.customers),
                draw.choice(SYMBOLS),
                moment(),
                draw.choice(["ACTV", "ACTV", "CNCL"]),
            )
            for _ in range(many)
        ]
        yield "watch_event", [*watches, *watches[: many // 4]]

    def number(self) -> int:
        """Return a number that no key has yet."""
        self.last += 1
        return self.last

    def moment(self) -> datetime:
        """Return one of a few moments, so that some repeat."""
        return BEGIN + timedelta(
            days=self.draw.randrange(DAYS), hours=self.draw.randrange(0, 24, 6)
        )

    def early(self) -> datetime:
        """Return one of the first days."""
        return BEGIN + timedelta(days=self.draw.randrange(90))

    def employee(self, employee: int) -> tuple[Any, ...]:
        draw = self.draw
        manager = draw.choice([*self.employees, None])
        names = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
        job = draw.choice([314, 314, 100])
        return employee, manager, *names, job, draw.choice(["East", "West"]), "1", "555"

    def company_filing(self, company: int, at: datetime | None = None) -> tuple[Any, ...]:
        draw = self.draw
        industry = draw.choice(["BN", "SW", "SC", "OG", None])
        rating = draw.choice(["AAA", "B+", "C", None])
        described = f"Company {company}", draw.choice(["ACTV", "INAC"]), industry, rating
        founded = date(1980 + company, 1, 1)
        return self.number(), company, at or self.early(), *described, "Boss", founded

    def security_filing(self, symbol: str, at: datetime | None = None) -> tuple[Any, ...]:
        draw = self.draw
        described = (
            f"Share {symbol}",
            draw.choice(["COMMON", "PREF_A"]),
            draw.choice(["ACTV", "INAC"]),
        )
        of = draw.choice(["NYSE", "NASDAQ"]), draw.choice(self.companies)
        measures = draw.randrange(1000, 9000), draw.randrange(4)
        return self.number(), symbol, at or self.moment(), *described, *of, *measures

    def financial_report(self, company: int, year: int, quarter: int) -> tuple[Any, ...]:
        begin = date(year, quarter * 3 - 2, 1)
        draw = self.draw
        measures = draw.randrange(0, 900, 100), draw.randrange(-90, 300), draw.randrange(-2, 6)
        return company, year, quarter, begin, begin + timedelta(days=100), *measures

    def daily_price(self, symbol: str, day: int) -> tuple[Any, ...]:
        draw = self.draw
        low = draw.randrange(20, 40)
        high = low + draw.randrange(3)
        at = (BEGIN + timedelta(days=day)).date()
        return at, symbol, draw.choice([low, high]), high, low, draw.randrange(0, 5000, 10)

    def customer_change(self, customer: int, at: datetime, action: str) -> tuple[Any, ...]:
        draw = self.draw
        values: tuple[Any, ...] = (
            draw.choice(LAST_NAMES),
            draw.choice(FIRST_NAMES),
            f"{customer}@example.org",
            draw.choice([1, 2, 3]),
            date(draw.choice([1960, 1970, 1990]), 5, 5),
            draw.choice(["US", "CA"]),
            draw.choice(CITIES),
            draw.choice(POSTAL_CODES),
            draw.choice(["NY1", "TX0"]),
            draw.choice(["US1", "US2", "CA1"]),
        )
        if action != "NEW":
            values = tuple(value if draw.random() < 0.3 else None for value in values)
        return self.number(), customer, action, at, *values

    def account_change(self, account: int, at: datetime, action: str) -> tuple[Any, ...]:
        draw = self.draw
        broker = draw.choice([*self.employees, None])
        account_of, kind = draw.choice(self.customers), draw.choice([0, 1, 2])
        values: tuple[Any, ...] = account_of, broker, f"Account {account}", kind
        if action != "NEW":
            values = tuple(value if draw.random() < 0.4 else None for value in values)
        return self.number(), account, action, at, *values

    def trade(self, trade: int, at: datetime, status: str) -> tuple[Any, ...]:
        draw = self.draw
        of = draw.choice(["TMB", "TMS", "TLB", "TSL"]), draw.random() < 0.5, draw.choice(SYMBOLS)
        bid = draw.randrange(20, 40)
        account = draw.choice([*self.accounts, self.last])
        price = draw.choice([bid, bid + 1, None])
        costs = 2, draw.choice([5, 10]), 1
        return (
            trade,
            at,
            status,
            *of,
            draw.randrange(50, 400, 50),
            bid,
            account,
            "me",
            price,
            *costs,
        )

    def prospect(self) -> tuple[Any, ...]:
        draw = self.draw
        names = draw.choice(LAST_NAMES), draw.choice(FIRST_NAMES)
        place = draw.choice(CITIES), draw.choice(POSTAL_CODES), "US"
        income, worth = draw.choice([30000, 90000, 250000]), draw.choice([5000, 2000000])
        counts = draw.randrange(9), draw.randrange(5), draw.randrange(5)
        age, credit = draw.randrange(20, 70), draw.choice([550, 700])
        return f"P{self.number()}", *names, *place, age, income, worth, credit, *counts


def inserted(table: str, rows: list[tuple[Any, ...]]) -> str:
    """Return the statement that inserts rows."""
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    return f"insert into inputs.{table} values {values}"


def literal(value: object) -> str:
    """Return a value as a SQL literal."""
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return f"timestamp '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, date):
        return f"date '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
