"""The buyers, sellers and insured of the simulated streams.

The population is the same for every seed, so that one run's customers come back in the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

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

# claim type: median claim and its spread, median yearly premium, share of the policies
CLAIM_TYPES = {
    "motor": (2_200.0, 1.0, 750.0, 0.40),
    "home": (3_100.0, 1.1, 420.0, 0.25),
    "health": (900.0, 1.0, 1_400.0, 0.15),
    "travel": (600.0, 0.9, 90.0, 0.12),
    "pet": (350.0, 0.7, 310.0, 0.08),
}


class Account(NamedTuple):
    """A bank account."""

    id: str
    currency: str
    salary: float
    employer: str


class Merchant(NamedTuple):
    """A merchant who receives or pays money."""

    id: str
    category: str
    currency: str


class InsurancePolicy(NamedTuple):
    """An insurance policy of an account."""

    id: str
    account: Account
    claim_type: str
    premium: float


class Weighted(Generic[T]):
    """A collection to draw from by weight."""

    def __init__(self, things: list[T], weights: list[float]) -> None:
        """Set the weights, which need not sum to 1."""
        self._things = things
        self._cumulative = list(accumulate(weights))

    def draw(self, rng: Random) -> T:
        """Draw one item."""
        return rng.choices(self._things, cum_weights=self._cumulative)[0]


def _zipf(things: list[T], exponent: float, rng: Random) -> Weighted[T]:
    """Return the things in a random order of popularity that falls with rank ** -exponent."""
    order = sorted(things, key=lambda _: rng.random())
    return Weighted(order, [rank**-exponent for rank in range(1, len(order) + 1)])


@dataclass(frozen=True)
class Population:
    """The accounts, merchants and policies, and how often each occurs."""

    everyone: list[Account]
    accounts: Weighted[Account]
    categories: Weighted[str]
    merchants: dict[str, Weighted[Merchant]]
    policies: Weighted[InsurancePolicy]

    @classmethod
    def create(cls) -> Population:
        """Create the single population."""
        rng = Random("population")
        currencies = Weighted(list(CURRENCIES), [share for _, share in CURRENCIES.values()])
        employers = [f"M9{number:04d}" for number in range(1, EMPLOYERS + 1)]
        everyone = []
        for number in range(1, ACCOUNTS + 1):
            currency = currencies.draw(rng)
            salary = money(2_600 * math.exp(rng.gauss(0, 0.45)), currency)
            everyone.append(
                Account(f"A{number:06d}", currency, salary, employers[number % EMPLOYERS])
            )
        merchants = {}
        for block, category in enumerate(CATEGORIES):
            merchants[category] = _zipf(
                [
                    # one in ten merchants spells its category in its own way
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
                InsurancePolicy(
                    f"P{number:06d}", account, claim_type, money(premium, account.currency)
                )
            )
        return cls(
            everyone=everyone,
            accounts=_zipf(everyone, 0.7, rng),
            categories=Weighted(list(CATEGORIES), [share for *_, share in CATEGORIES.values()]),
            merchants=merchants,
            policies=_zipf(policies, 0.4, rng),
        )


def money(euros: float, currency: str) -> float:
    """Return an amount in the currency, never below its smallest unit."""
    digits = 0 if currency in WHOLE_UNITS else 2
    return max(round(euros * CURRENCIES[currency][0], digits), 10.0**-digits)
