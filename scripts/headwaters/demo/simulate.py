"""Financial transactions and insurance claims that look real, with faults of known number.

Pure functions make records (`transactions`, `claims`), `land` writes them as files. Everything is
drawn from `random.Random.random()` of named, seeded generators, so the same configuration gives the
same bytes on every machine and in every process.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from headwaters import drafts
from headwaters.errors import UserError, WorkError

T = TypeVar("T")
Kind = Literal["ordinary", "late", "correction", "duplicate", "malformed"]

# Part of every file name and identifier: raise it when the same arguments give other bytes.
FORMAT = 1

ACCOUNTS = 5_000
POLICIES = 4_000
MERCHANTS_PER_CATEGORY = 60
EMPLOYERS = 40

# Units in one euro, to keep amounts comparable; share of the accounts.
CURRENCIES = {
    "EUR": (1.0, 0.42),
    "GBP": (0.85, 0.20),
    "USD": (1.10, 0.20),
    "CHF": (0.95, 0.08),
    "SEK": (11.3, 0.06),
    "JPY": (160.0, 0.04),
}
WHOLE_UNITS = {"JPY"}

# category: median in euros, spread of the log-normal, share of the purchases
CATEGORIES = {
    "Groceries": (32.0, 0.7, 0.27),
    "Restaurants": (24.0, 0.6, 0.19),
    "Transport": (9.0, 0.8, 0.15),
    "Fuel": (52.0, 0.35, 0.07),
    "Clothing": (48.0, 0.7, 0.09),
    "Entertainment": (18.0, 0.6, 0.08),
    "Health": (38.0, 0.8, 0.05),
    "Utilities": (85.0, 0.5, 0.04),
    "Electronics": (120.0, 1.0, 0.04),
    "Travel": (240.0, 0.9, 0.02),
}
SALARY = "Salary"
REFUND_SHARE = 0.02

# claim type: median claim and its spread, median yearly premium, share of the policies
CLAIM_TYPES = {
    "motor": (2_200.0, 1.0, 750.0, 0.40),
    "home": (3_100.0, 1.1, 420.0, 0.25),
    "health": (900.0, 1.0, 1_400.0, 0.15),
    "travel": (600.0, 0.9, 90.0, 0.12),
    "pet": (350.0, 0.7, 310.0, 0.08),
}
STAYS_OPEN = 0.08
REJECTED = 0.22
STAYS_UNPAID = 0.05

# Relative activity by hour of the day (UTC) and by day of the week from Monday.
HOURS = [
    0.25, 0.15, 0.10, 0.08, 0.10, 0.20, 0.50, 0.90, 1.20, 1.30, 1.35, 1.50,
    1.70, 1.50, 1.30, 1.30, 1.45, 1.70, 1.80, 1.60, 1.30, 1.00, 0.70, 0.45,
]  # fmt: skip
WEEKDAYS = [0.95, 0.95, 1.00, 1.05, 1.25, 1.15, 0.65]
_WEEK = [day * hour for day in WEEKDAYS for hour in HOURS]
WEEK = [weight * len(_WEEK) / sum(_WEEK) for weight in _WEEK]  # 168 hours from Monday, mean 1

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000  # in milliseconds, as all times here
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FinanceConfig:
    """What to simulate. Shares are shares of `rows`, and of `claims`, rounded down.

    Raises UserError when a value makes no sense.
    """

    rows: int = 20_000  # transaction records in all, whatever their kind
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
            raise UserError("--rows and --claims count records: they cannot be negative")
        if not self.rate > 0 or math.isinf(self.rate):
            raise UserError(f"--rate is events a second: {self.rate} is not above 0")
        shares = {
            name: float(getattr(self, name))
            for name in ("duplicates", "corrections", "late", "malformed")
        }
        for name, share in shares.items():
            if not 0 <= share <= 0.5:
                raise UserError(f"--{name} is a share of all records: {share} is not in 0 to 0.5")
        if sum(shares.values()) > 0.5:
            raise UserError(
                "--duplicates, --corrections, --late and --malformed together may be at most half"
                f" of the records: they are {sum(shares.values()):g}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Eight characters that stand for these values: equal fingerprints, equal records."""
        values = repr((FORMAT, *astuple(self))).encode()
        return hashlib.blake2b(values, digest_size=4).hexdigest()

    def random(self, purpose: str) -> Random:
        """A generator for one purpose: a change in one does not move the draws of another."""
        return Random(f"{self.seed}:{purpose}")


class Record(NamedTuple):
    """One record as it is sent: a line of a file, or the value of a message."""

    key: str  # what a topic would be partitioned by
    sent_at: int  # milliseconds since 1970
    kind: Kind
    value: str  # one line of JSON, or what is left of it
    fault: str | None = None  # what a malformed record suffers from


@dataclass
class Truth:
    """What was sent to one stream, counted while it was made."""

    stream: str
    records: int = 0
    duplicates: int = 0
    corrections: int = 0
    late: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    flagged: int = 0  # records with the field `is_flagged`
    keys: int = 0  # different transactions or claims with at least one well-formed record

    def count(self, record: Record, seen: set[str]) -> None:
        """Add one record; `seen` holds the keys of entities met so far."""
        self.records += 1
        self.duplicates += record.kind == "duplicate"
        self.corrections += record.kind == "correction"
        self.late += record.kind == "late"
        self.flagged += '"is_flagged"' in record.value
        if record.fault:
            self.malformed[record.fault] += 1
        else:
            # The identifier is the first field of every record.
            seen.add(record.value.split('"', 4)[3])
            self.keys = len(seen)


# --- the population: the same for every seed, so that one run's customers come back in the next ---


class Account(NamedTuple):
    """A bank account."""

    id: str
    currency: str
    salary: float
    employer: str


class Merchant(NamedTuple):
    """Where money is spent, or comes from."""

    id: str
    category: str
    currency: str


class Policy(NamedTuple):
    """An insurance policy of an account."""

    id: str
    account: Account
    claim_type: str
    premium: float


class Weighted(Generic[T]):
    """Things to draw from by weight."""

    def __init__(self, things: list[T], weights: list[float]) -> None:
        """`weights` need not sum to 1."""
        self._things = things
        self._cumulative = list(accumulate(weights))

    def draw(self, rng: Random) -> T:
        """One of the things."""
        return rng.choices(self._things, cum_weights=self._cumulative)[0]


def _zipf(things: list[T], exponent: float, rng: Random) -> Weighted[T]:
    """The things in a random order of popularity that falls with rank ** -exponent."""
    order = sorted(things, key=lambda _: rng.random())
    return Weighted(order, [rank**-exponent for rank in range(1, len(order) + 1)])


@dataclass(frozen=True)
class Population:
    """Accounts, merchants and policies, and how often each turns up."""

    everyone: list[Account]
    accounts: Weighted[Account]
    categories: Weighted[str]
    merchants: dict[str, Weighted[Merchant]]
    policies: Weighted[Policy]

    @classmethod
    def create(cls) -> Population:
        """The one population there is."""
        rng = Random("population")
        currencies = Weighted(list(CURRENCIES), [share for _, share in CURRENCIES.values()])
        employers = [f"M9{number:04d}" for number in range(1, EMPLOYERS + 1)]
        everyone = []
        for number in range(1, ACCOUNTS + 1):
            currency = currencies.draw(rng)
            salary = _money(2_600 * math.exp(rng.gauss(0, 0.45)), currency)
            everyone.append(
                Account(f"A{number:06d}", currency, salary, employers[number % EMPLOYERS])
            )
        merchants = {}
        for block, category in enumerate(CATEGORIES):
            merchants[category] = _zipf(
                [
                    # One merchant in ten writes its category its own way, as merchants do.
                    Merchant(
                        f"M{block:01d}{number:04d}",
                        category.upper() if number % 10 == 0 else category,
                        currencies.draw(rng),
                    )
                    for number in range(1, MERCHANTS_PER_CATEGORY + 1)
                ],
                1.0,
                rng,
            )
        claim_types = Weighted(list(CLAIM_TYPES), [share for *_, share in CLAIM_TYPES.values()])
        policies = []
        for number in range(1, POLICIES + 1):
            account = everyone[int(rng.random() * ACCOUNTS)]
            claim_type = claim_types.draw(rng)
            premium = CLAIM_TYPES[claim_type][2] * math.exp(rng.gauss(0, 0.3))
            policies.append(
                Policy(f"P{number:06d}", account, claim_type, _money(premium, account.currency))
            )
        return cls(
            everyone=everyone,
            accounts=_zipf(everyone, 0.7, rng),
            categories=Weighted(list(CATEGORIES), [share for *_, share in CATEGORIES.values()]),
            merchants=merchants,
            policies=_zipf(policies, 0.4, rng),
        )


# --- time, money, lines ---------------------------------------------------------------------------


LAST = 253_402_300_799  # the last second of the year 9999
OUT_OF_TIME = (
    "--start, --rows and --rate lead to times outside of the years 1 to 9999: choose others"
)


def _milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _at(time: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        raise UserError(OUT_OF_TIME) from None


def _iso(time: int) -> str:
    return _at(time).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _date(time: int) -> str:
    return _at(time).date().isoformat()


def _money(euros: float, currency: str) -> float:
    """An amount in the currency's own units, never below its smallest one."""
    digits = 0 if currency in WHOLE_UNITS else 2
    return max(round(euros * CURRENCIES[currency][0], digits), 10.0**-digits)


def _count(total: int, share: float) -> int:
    return math.floor(total * share + 1e-9)  # 0.29 * 100 is 28.999999999999996


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(", ", ": "))


def arrivals(rng: Random, start: int, rate: float) -> Iterator[int]:
    """Endless times of arrival from `start`: a Poisson process with the rhythm of WEEK.

    `rate` is the mean of a whole week, in events a second. Times are milliseconds, and rise.
    """
    now, last = start / 1000, start - 1
    while True:
        needed = rng.expovariate(rate)
        while True:
            if now > LAST:
                raise UserError(OUT_OF_TIME)
            hour = int(now // 3600)
            weight = WEEK[(hour + 72) % 168]  # 1970 began on a Thursday
            to_full_hour = (hour + 1) * 3600 - now
            if needed <= to_full_hour * weight:
                now += needed / weight
                break
            needed -= to_full_hour * weight
            now = (hour + 1) * 3600.0
        last = max(last + 1, int(now * 1000))
        yield last


class _Outbox:
    """Records that are due later than the one at hand, in the order of their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], Record]]] = []
        self._pushed = 0

    def push(self, due: int, make: Callable[[int], Record]) -> None:
        self._pushed += 1  # a tie-break: functions have no order
        heapq.heappush(self._heap, (due, self._pushed, make))

    def until(self, time: float) -> Iterator[Record]:
        while self._heap and self._heap[0][0] <= time:
            due, _, make = heapq.heappop(self._heap)
            yield make(due)


def _resend_delay(rng: Random) -> int:
    """Most duplicates follow within two minutes; one in ten takes up to two days."""
    if rng.random() < 0.9:
        return int(1_000 + rng.random() * 2 * MINUTE)
    return int(HOUR + rng.random() * 47 * HOUR)


def _late_delay(rng: Random, least: int, most: int) -> int:
    """Between `least` and `most`, each order of magnitude as likely as the next."""
    return int(least * math.exp(rng.random() * math.log(most / least)))


FAULTS = ("amount is text", "no identifier", "broken JSON", "bad timestamp")


def _spoil(row: dict[str, Any], fault: str, key: str, amount: str, time: str) -> str:
    """The row's line with one fault in it."""
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


# --- the streams ----------------------------------------------------------------------------------


def transactions(config: FinanceConfig) -> Iterator[Record]:
    """`config.rows` records of the stream financial_transactions, in the order of sending.

    Fields: transaction_id, timestamp (ISO 8601, UTC), account_id, amount (a number above 0),
    currency, transaction_type (debit, credit), merchant_id, category; and is_flagged in what is
    sent from `config.flagged_from` on.

    A late record has a timestamp hours to days before that of its neighbours. A duplicate repeats
    an earlier record to the letter. A correction repeats its transaction_id with another amount
    and a later timestamp. A malformed record is sent once and never corrected.
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
    # A record can only be late after one that is not: the first sound one is left out.
    late = _choose(faults, sound[1:], _count(config.rows, config.late))
    duplicated = _choose(faults, sound, duplicates)
    corrected = _choose(faults, sound, corrections)

    start = _milliseconds(config.start)
    flagged_from = _milliseconds(config.flagged_from) if config.flagged_from else None
    outbox = _Outbox()
    purchases: deque[dict[str, Any]] = deque(maxlen=500)

    def with_flag(row: dict[str, Any], sent_at: int) -> dict[str, Any]:
        if flagged_from is None or sent_at < flagged_from:
            return row
        large = row["amount"] > 500 * CURRENCIES[row["currency"]][0]
        return {**row, "is_flagged": flags.random() < (0.08 if large else 0.01)}

    def correct(row: dict[str, Any]) -> Callable[[int], Record]:
        amount = _corrected(row["amount"], row["currency"], faults)

        def make(due: int) -> Record:
            again = with_flag({**row, "timestamp": _iso(due), "amount": amount}, due)
            return Record(row["account_id"], due, "correction", _line(again))

        return make

    def resend(record: Record) -> Callable[[int], Record]:
        return lambda due: record._replace(sent_at=due, kind="duplicate")

    previous = start
    times = arrivals(rng, start, config.rate)
    for index, now in zip(range(originals), times, strict=False):
        yield from outbox.until(now)
        time = previous - _late_delay(faults, 2 * HOUR, 10 * DAY) if index in late else now
        row = {
            "transaction_id": f"T{config.fingerprint}-{index:07d}",
            "timestamp": _iso(time),
            **_movement(population, purchases, rng, now),
        }
        sent = with_flag(row, now)
        fault = fault_of.get(index)
        if fault:
            value = _spoil(sent, fault, "transaction_id", "amount", "timestamp")
            yield Record(row["account_id"], now, "malformed", value, fault)
        else:
            kind: Kind = "late" if index in late else "ordinary"
            record = Record(row["account_id"], now, kind, _line(sent))
            yield record
            if index in duplicated:
                outbox.push(now + _resend_delay(faults), resend(record))
            if index in corrected:
                outbox.push(int(now + MINUTE + faults.random() * DAY), correct(row))
        previous = now
    yield from outbox.until(math.inf)


def _corrected(amount: float, currency: str, rng: Random) -> float:
    """Another amount, above 0."""
    rate = CURRENCIES[currency][0]
    other = _money(amount / rate * rng.choice((0.5, 0.9, 1.1, 1.25)), currency)
    step = 1.0 if currency in WHOLE_UNITS else 0.01
    return other if other != amount else round(amount + step, 2)


def _movement(
    population: Population, purchases: deque[dict[str, Any]], rng: Random, now: int
) -> dict[str, Any]:
    """The fields of one transaction besides its identifier and time."""
    day = _at(now).day
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
    # Who travels pays in the money of the place.
    currency = merchant.currency if category == "Travel" else account.currency
    purchase = {
        "account_id": account.id,
        "amount": _money(median * math.exp(rng.gauss(0, spread)), currency),
        "currency": currency,
        "transaction_type": "debit",
        "merchant_id": merchant.id,
        "category": merchant.category,
    }
    purchases.append(purchase)
    return purchase


def claims(config: FinanceConfig) -> Iterator[Record]:
    """The records of `config.claims` insurance claims, in the order of sending.

    Fields: claim_id, policy_id, account_id, claim_type, claimed_at (ISO 8601, UTC), incident_date,
    claim_amount, paid_amount (null until paid), premium_amount (of the policy, a year), currency,
    status. A claim is sent when it is opened and again, whole, when its status changes: open, then
    approved or rejected, then paid if approved; some stay open or unpaid. Claims are opened over
    the time that the transactions take; what follows comes days later.

    A late claim was claimed weeks before its neighbours. A duplicate repeats an earlier record to
    the letter, so an old status may follow a newer one. A malformed claim is sent once, when it is
    opened, and never again.
    """
    population = Population.create()
    rng, faults = (config.random(f"claims:{use}") for use in ("", "faults"))
    everything = list(range(config.claims))
    spoiled = sorted(_choose(faults, everything, _count(config.claims, config.malformed)))
    fault_of = {index: FAULTS[place % len(FAULTS)] for place, index in enumerate(spoiled)}
    sound = [index for index in everything if index not in fault_of]
    late = _choose(faults, sound[1:], _count(config.claims, config.late))
    duplicated = _choose(faults, sound, _count(config.claims, config.duplicates))

    start = _milliseconds(config.start)
    rate = config.rate * config.claims / config.rows if config.rows else config.rate
    outbox = _Outbox()

    def send(key: str, row: dict[str, Any], kind: Kind = "ordinary") -> Callable[[int], Record]:
        return lambda due: Record(key, due, kind, _line(row))

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
            yield Record(key, now, "malformed", value, fault)
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
    """What is sent of one claim, and when."""
    policy = population.policies.draw(rng)
    median, spread, _, _ = CLAIM_TYPES[policy.claim_type]
    currency = policy.account.currency
    euros = median * math.exp(rng.gauss(0, spread))
    row = {
        "claim_id": claim_id,
        "policy_id": policy.id,
        "account_id": policy.account.id,
        "claim_type": policy.claim_type,
        "claimed_at": _iso(claimed_at),
        "incident_date": _date(int(claimed_at - rng.expovariate(1 / (9 * DAY)))),
        "claim_amount": _money(euros, currency),
        "paid_amount": None,
        "premium_amount": policy.premium,
        "currency": currency,
        "status": "open",
    }
    # Every claim makes the same draws, so that one claim's fate does not move the next.
    stays_open, rejected, stays_unpaid = (
        rng.random() < share for share in (STAYS_OPEN, REJECTED, STAYS_UNPAID)
    )
    decided_at = sent_at + int(4 * DAY * math.exp(rng.gauss(0, 0.8)))
    paid_at = decided_at + int(2 * DAY * math.exp(rng.gauss(0, 0.6)))
    paid = _money(euros * (0.7 + 0.3 * rng.random()), currency)
    history = [(sent_at, row)]
    if not stays_open:
        history.append((decided_at, {**row, "status": "rejected" if rejected else "approved"}))
        if not rejected and not stays_unpaid:
            history.append((paid_at, {**row, "status": "paid", "paid_amount": paid}))
    return history


# --- the sink -------------------------------------------------------------------------------------

STREAMS: dict[str, Callable[[FinanceConfig], Iterator[Record]]] = {
    "financial_transactions": transactions,
    "insurance_claims": claims,
}


@dataclass
class Landed:
    """What `land` did with one stream."""

    truth: Truth
    written: list[Path]
    kept: list[Path]  # files that were there already


def land(config: FinanceConfig, out: Path, files: int = 4) -> list[Landed]:
    """Write both streams as JSON lines to `<out>/<stream>/`, each in `files` files.

    A file appears whole or not at all: it is written under a hidden name and renamed. Its name says
    which configuration it is from, and a file that is there is left alone; so the same call again
    writes nothing, and a call after an interrupted one completes it.

    Raises UserError when the same records lie there in another number of files, and WorkError when
    a file cannot be written.
    """
    if files < 1:
        raise UserError(f"--files must be at least 1: it is {files}")
    results = []
    for stream, make in STREAMS.items():
        folder = out / stream
        paths = _paths(config, folder, files)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            results.append(_land(stream, list(make(config)), paths))
        except OSError as error:
            raise WorkError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return results


def _paths(config: FinanceConfig, folder: Path, files: int) -> list[Path]:
    prefix = f"seed-{config.seed}-{config.fingerprint}-part"
    width = len(str(files))
    paths = [folder / f"{prefix}-{part:0{width}d}-of-{files}.jsonl" for part in range(1, files + 1)]
    others = sorted(set(folder.glob(f"{prefix}-*.jsonl")) - set(paths))
    if others:
        number = others[0].stem.rpartition("-")[2]
        raise UserError(
            f"{folder} holds these records already, in {number} files:"
            f" use --files {number}, or another --seed"
        )
    return paths


def _land(stream: str, records: list[Record], paths: list[Path]) -> Landed:
    landed = Landed(Truth(stream), [], [])
    seen: set[str] = set()
    for record in records:
        landed.truth.count(record, seen)
    edges = [len(records) * part // len(paths) for part in range(len(paths) + 1)]
    for path, (first, last) in zip(paths, pairwise(edges), strict=True):
        if first == last:
            continue  # more files than records
        if path.exists():
            landed.kept.append(path)
            continue
        with drafts.draft(path) as hidden, hidden.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{record.value}\n" for record in records[first:last])
        landed.written.append(path)
    return landed


def summary(landed: Landed) -> list[str]:
    """What a person wants to know of one stream, in two lines."""
    truth, paths = landed.truth, landed.written + landed.kept
    if not paths:
        return [f"{truth.stream}: no records"]
    folder = paths[0].parent
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    if not landed.written:
        what = f"nothing new: its {truth.records:,} records are in {folder} already"
    elif landed.kept:
        what = f"{truth.records:,} records in {files} ({len(landed.written)} new) in {folder}"
    else:
        what = f"{truth.records:,} records in {files} in {folder}"
    malformed = f"{truth.malformed.total():,} malformed"
    if truth.malformed:
        malformed += f" ({', '.join(f'{n:,} {fault}' for fault, n in truth.malformed.items())})"
    counts = [f"{truth.keys:,} {truth.stream.rpartition('_')[2]}"]
    counts += [f"{truth.duplicates:,} duplicates", f"{truth.late:,} late", malformed]
    if truth.corrections:
        counts.insert(2, f"{truth.corrections:,} corrections")
    if truth.flagged:
        counts.append(f"{truth.flagged:,} with is_flagged")
    return [f"{truth.stream}: {what}", f"  {' · '.join(counts)}"]


def moment(text: str, option: str) -> datetime:
    """A moment that a person wrote, as UTC. One without an offset is taken as UTC.

    Raises UserError when it is not ISO 8601.
    """
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} wants a moment such as 2026-01-01T00:00:00Z: '{text}' is none"
        ) from None
