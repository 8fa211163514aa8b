"""Realistic financial transactions and insurance claims, with faults of known number.

Pure functions make records (`transactions`, `claims`), `land` writes them as files. Every draw
comes from `random.Random.random()` of named, seeded generators, so the same configuration gives the
same bytes on every machine and in every process.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Literal, NamedTuple

from headwaters.devkit.samples.clock import arrivals, at, date, iso, milliseconds
from headwaters.devkit.samples.population import (
    ACCOUNTS,
    CATEGORIES,
    CLAIM_TYPES,
    CURRENCIES,
    WHOLE_UNITS,
    Population,
    money,
)
from headwaters.devkit.samples.simulation import Simulation, check_rate, check_share
from headwaters.platform.errors import UserError

Kind = Literal["ordinary", "late", "correction", "duplicate", "malformed"]

SALARY = "Salary"
REFUND_SHARE = 0.02
STAYS_OPEN = 0.08
REJECTED = 0.22
STAYS_UNPAID = 0.05

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000  # in milliseconds, as all times here


@dataclass(frozen=True)
class FinanceConfig(Simulation):
    """The settings of the simulation. Shares are of `rows` and of `claims`, rounded down.

    Raises UserError for an impossible value.
    """

    rows: int = 20_000  # transaction records of all kinds
    claims: int = 2_000  # claims; each gives one to three records
    seed: int = 7
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    rate: float = 0.01  # transactions a second of event time, the mean of a week
    duplicates: float = 0.02
    corrections: float = 0.005
    late: float = 0.01
    malformed: float = 0.01
    flagged_from: datetime | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.rows < 0 or self.claims < 0:
            raise UserError(
                "HW_ARGUMENT", "--rows and --claims count records: they cannot be negative"
            )
        check_rate(self.rate, "events")
        shares = {
            name: float(getattr(self, name))
            for name in ("duplicates", "corrections", "late", "malformed")
        }
        for name, share in shares.items():
            check_share(name, share, "all records")
        if sum(shares.values()) > 0.5:
            raise UserError(
                "HW_ARGUMENT",
                "--duplicates, --corrections, --late and --malformed together may be at most half"
                f" of the records: they are {sum(shares.values()):g}",
            )


class SentRecord(NamedTuple):
    """One sent record: a line of a file, or the value of a message."""

    key: str  # the key for partitions of a topic
    sent_at: int  # milliseconds since 1970
    kind: Kind
    value: str  # one line of JSON, possibly spoiled
    fault: str | None = None  # the fault of a malformed record


def _count(total: int, share: float) -> int:
    return math.floor(total * share + 1e-9)  # 0.29 * 100 is 28.999999999999996


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(", ", ": "))


class _Outbox:
    """A queue of records that are due later, in the order of their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], SentRecord]]] = []
        self._pushed = 0

    def push(self, due: int, make: Callable[[int], SentRecord]) -> None:
        self._pushed += 1  # a tie-break: functions have no order
        heapq.heappush(self._heap, (due, self._pushed, make))

    def until(self, time: float) -> Iterator[SentRecord]:
        while self._heap and self._heap[0][0] <= time:
            due, _, make = heapq.heappop(self._heap)
            yield make(due)


def _resend_delay(rng: Random) -> int:
    """Return the delay of a duplicate: mostly below two minutes, for one in ten up to two days."""
    if rng.random() < 0.9:
        return int(1_000 + rng.random() * 2 * MINUTE)
    return int(HOUR + rng.random() * 47 * HOUR)


def _late_delay(rng: Random, least: int, most: int) -> int:
    """Return a delay between `least` and `most`, with equally likely orders of magnitude."""
    return int(least * math.exp(rng.random() * math.log(most / least)))


FAULTS = ("amount is text", "no identifier", "broken JSON", "bad timestamp")


def _spoil(row: dict[str, Any], fault: str, key: str, amount: str, time: str) -> str:
    """Return the row's line with one fault in it."""
    if fault == "amount is text":
        return _line({**row, amount: "FIVE HUNDRED"})
    if fault == "no identifier":
        return _line({name: value for name, value in row.items() if name != key})
    if fault == "bad timestamp":
        return _line({**row, time: "2026-02-30T25:61:00Z"})
    line = _line(row)
    return line[: len(line) * 2 // 3]


def _choose(rng: Random, among: list[int], number: int) -> set[int]:
    return set(rng.sample(among, number))


def transactions(config: FinanceConfig) -> Iterator[SentRecord]:
    """Yield `config.rows` records of the stream financial_transactions, in the order of sending.

    Fields: transaction_id, timestamp (ISO 8601, UTC), account_id, amount (a number above 0),
    currency, transaction_type (debit, credit), merchant_id, category; and is_flagged in records
    sent from `config.flagged_from` on.

    A late record has a timestamp hours to days before that of its neighbours. A duplicate repeats
    an earlier record to the letter. A correction repeats its transaction_id with another amount and
    a later timestamp. A malformed record is sent once and never corrected.
    """
    population = Population.create()
    rng, faults, flags = (config.random(f"transactions:{use}") for use in ("", "faults", "flags"))
    duplicates = _count(config.rows, config.duplicates)
    corrections = _count(config.rows, config.corrections)
    originals = config.rows - duplicates - corrections
    everything = list(range(originals))
    spoiled = sorted(_choose(faults, everything, _count(config.rows, config.malformed)))
    fault_of = {index: FAULTS[place % len(FAULTS)] for place, index in enumerate(spoiled)}
    sound = [index for index in everything if index not in fault_of]
    # A late record needs an earlier one that is not late, so the first sound one stays on time.
    late = _choose(faults, sound[1:], _count(config.rows, config.late))
    duplicated = _choose(faults, sound, duplicates)
    corrected = _choose(faults, sound, corrections)

    start = milliseconds(config.start)
    flagged_from = milliseconds(config.flagged_from) if config.flagged_from else None
    outbox = _Outbox()
    purchases: deque[dict[str, Any]] = deque(maxlen=500)

    def with_flag(row: dict[str, Any], sent_at: int) -> dict[str, Any]:
        if flagged_from is None or sent_at < flagged_from:
            return row
        large = row["amount"] > 500 * CURRENCIES[row["currency"]][0]
        return {**row, "is_flagged": flags.random() < (0.08 if large else 0.01)}

    def correct(row: dict[str, Any]) -> Callable[[int], SentRecord]:
        amount = _corrected(row["amount"], row["currency"], faults)

        def make(due: int) -> SentRecord:
            again = with_flag({**row, "timestamp": iso(due), "amount": amount}, due)
            return SentRecord(row["account_id"], due, "correction", _line(again))

        return make

    def resend(record: SentRecord) -> Callable[[int], SentRecord]:
        return lambda due: record._replace(sent_at=due, kind="duplicate")

    previous = start
    times = arrivals(rng, start, config.rate)
    for index, now in zip(range(originals), times, strict=False):
        yield from outbox.until(now)
        time = previous - _late_delay(faults, 2 * HOUR, 10 * DAY) if index in late else now
        row = {
            "transaction_id": f"T{config.fingerprint}-{index:07d}",
            "timestamp": iso(time),
            **_movement(population, purchases, rng, now),
        }
        sent = with_flag(row, now)
        fault = fault_of.get(index)
        if fault:
            value = _spoil(sent, fault, "transaction_id", "amount", "timestamp")
            yield SentRecord(row["account_id"], now, "malformed", value, fault)
        else:
            kind: Kind = "late" if index in late else "ordinary"
            record = SentRecord(row["account_id"], now, kind, _line(sent))
            yield record
            if index in duplicated:
                outbox.push(now + _resend_delay(faults), resend(record))
            if index in corrected:
                outbox.push(int(now + MINUTE + faults.random() * DAY), correct(row))
        previous = now
    yield from outbox.until(math.inf)


def _corrected(amount: float, currency: str, rng: Random) -> float:
    """Return another amount, above 0."""
    rate = CURRENCIES[currency][0]
    other = money(amount / rate * rng.choice((0.5, 0.9, 1.1, 1.25)), currency)
    step = 1.0 if currency in WHOLE_UNITS else 0.01
    return other if other != amount else round(amount + step, 2)


def _movement(
    population: Population, purchases: deque[dict[str, Any]], rng: Random, now: int
) -> dict[str, Any]:
    """Return the fields of one transaction except its identifier and time."""
    day = at(now).day
    dice = rng.random()
    salaries = 0.08 if day >= 25 else 0.005
    if dice < salaries:
        account = population.everyone[int(rng.random() * ACCOUNTS)]
        return {
            "account_id": account.id,
            "amount": account.salary,
            "currency": account.currency,
            "transaction_type": "credit",
            "merchant_id": account.employer,
            "category": SALARY,
        }
    if dice < salaries + REFUND_SHARE and purchases:
        refunded = purchases[int(rng.random() * len(purchases))]
        return {**refunded, "transaction_type": "credit"}
    account = population.accounts.draw(rng)
    category = population.categories.draw(rng)
    merchant = population.merchants[category].draw(rng)
    median, spread, _ = CATEGORIES[category]
    # Travellers pay in the local currency.
    currency = merchant.currency if category == "Travel" else account.currency
    purchase = {
        "account_id": account.id,
        "amount": money(median * math.exp(rng.gauss(0, spread)), currency),
        "currency": currency,
        "transaction_type": "debit",
        "merchant_id": merchant.id,
        "category": merchant.category,
    }
    purchases.append(purchase)
    return purchase


def claims(config: FinanceConfig) -> Iterator[SentRecord]:
    """Yield the records of `config.claims` insurance claims, in the order of sending.

    Fields: claim_id, policy_id, account_id, claim_type, claimed_at (ISO 8601, UTC), incident_date,
    claim_amount, paid_amount (null until paid), premium_amount (of the policy, a year), currency,
    status. A claim is sent as a whole when it opens and at each change of its status: open, then
    approved or rejected, then paid if approved. Some stay open or unpaid. Claims open during the
    time of the transactions; their changes come days later.

    A late claim was claimed weeks before its neighbours. A duplicate repeats an earlier record to
    the letter, so an old status may follow a newer one. A malformed claim is sent once, when it
    opens, and never again.
    """
    population = Population.create()
    rng, faults = (config.random(f"claims:{use}") for use in ("", "faults"))
    everything = list(range(config.claims))
    spoiled = sorted(_choose(faults, everything, _count(config.claims, config.malformed)))
    fault_of = {index: FAULTS[place % len(FAULTS)] for place, index in enumerate(spoiled)}
    sound = [index for index in everything if index not in fault_of]
    late = _choose(faults, sound[1:], _count(config.claims, config.late))
    duplicated = _choose(faults, sound, _count(config.claims, config.duplicates))

    start = milliseconds(config.start)
    rate = config.rate * config.claims / config.rows if config.rows else config.rate
    outbox = _Outbox()

    def send(key: str, row: dict[str, Any], kind: Kind = "ordinary") -> Callable[[int], SentRecord]:
        return lambda due: SentRecord(key, due, kind, _line(row))

    previous = start
    times = arrivals(rng, start, rate) if config.claims else iter(())
    for index, now in zip(everything, times, strict=False):
        yield from outbox.until(now)
        claimed_at = previous - _late_delay(faults, 5 * DAY, 40 * DAY) if index in late else now
        history = _claim(population, rng, f"C{config.fingerprint}-{index:06d}", claimed_at, now)
        _, opened = history[0]
        key = opened["claim_id"]
        fault = fault_of.get(index)
        if fault:
            value = _spoil(opened, fault, "claim_id", "claim_amount", "claimed_at")
            yield SentRecord(key, now, "malformed", value, fault)
        else:
            yield send(key, opened, "late" if index in late else "ordinary")(now)
            for due, row in history[1:]:
                outbox.push(due, send(key, row))
            if index in duplicated:
                due, row = history[int(faults.random() * len(history))]
                outbox.push(due + _resend_delay(faults) * 60, send(key, row, "duplicate"))
        previous = now
    yield from outbox.until(math.inf)


def _claim(
    population: Population, rng: Random, claim_id: str, claimed_at: int, sent_at: int
) -> list[tuple[int, dict[str, Any]]]:
    """Return the records of one claim, each with its time."""
    policy = population.policies.draw(rng)
    median, spread, _, _ = CLAIM_TYPES[policy.claim_type]
    currency = policy.account.currency
    euros = median * math.exp(rng.gauss(0, spread))
    row = {
        "claim_id": claim_id,
        "policy_id": policy.id,
        "account_id": policy.account.id,
        "claim_type": policy.claim_type,
        "claimed_at": iso(claimed_at),
        "incident_date": date(int(claimed_at - rng.expovariate(1 / (9 * DAY)))),
        "claim_amount": money(euros, currency),
        "paid_amount": None,
        "premium_amount": policy.premium,
        "currency": currency,
        "status": "open",
    }
    # Every claim makes the same number of draws, so that claims do not affect each other's.
    stays_open, rejected, stays_unpaid = (
        rng.random() < share for share in (STAYS_OPEN, REJECTED, STAYS_UNPAID)
    )
    decided_at = sent_at + int(4 * DAY * math.exp(rng.gauss(0, 0.8)))
    paid_at = decided_at + int(2 * DAY * math.exp(rng.gauss(0, 0.6)))
    paid = money(euros * (0.7 + 0.3 * rng.random()), currency)
    history = [(sent_at, row)]
    if not stays_open:
        history.append((decided_at, {**row, "status": "rejected" if rejected else "approved"}))
        if not rejected and not stays_unpaid:
            history.append((paid_at, {**row, "status": "paid", "paid_amount": paid}))
    return history


STREAMS: dict[str, Callable[[FinanceConfig], Iterator[SentRecord]]] = {
    "financial_transactions": transactions,
    "insurance_claims": claims,
}
