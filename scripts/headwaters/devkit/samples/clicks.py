"""Visits of a shop as click events: products viewed, put into the cart, and bought.

They have the columns and spellings of the sample in `data/ecomm`, which has no purchase. The same
configuration gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from headwaters.devkit.samples.clock import arrivals, at, milliseconds
from headwaters.devkit.samples.simulation import Simulation, check_rate, check_share
from headwaters.platform.errors import UserError

COLUMNS = (
    "event_time", "event_type", "product_id", "category_id", "category_code", "brand", "price",
    "user_id", "user_session",
)  # fmt: skip
# category: identifier, brands, median price
CATEGORIES = {
    "electronics.smartphone": (2053013555631882655, ("apple", "samsung", "xiaomi"), 320.0),
    "electronics.audio.headphone": (2053013554658804075, ("jbl", "sony", ""), 75.0),
    "appliances.kitchen.washer": (2053013563810775923, ("bosch", "lg"), 410.0),
    "computers.notebook": (2053013558920217191, ("acer", "lenovo"), 650.0),
    "": (2053013553559896355, ("", "elmer"), 30.0),
}
PRODUCTS = 60


@dataclass(frozen=True)
class ClicksConfig(Simulation):
    """The settings of the simulation. Raises UserError for an impossible value."""

    visits: int = 200
    seed: int = 7
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    rate: float = 0.0005  # visits a second, the mean of a week
    bought: float = 0.25  # share of the carts

    def __post_init__(self) -> None:
        """Check the values."""
        if self.visits < 0:
            raise UserError("HW_ARGUMENT", "--visits counts visits: it cannot be negative")
        check_rate(self.rate, "visits")
        check_share("bought", self.bought, "the carts", most=1)


@dataclass(frozen=True)
class _Product:
    id: int
    category: str
    brand: str
    price: float


def _range() -> list[_Product]:
    """Return the products of the shop, the same for every seed."""
    rng, products = Random("clicks"), []
    for number in range(PRODUCTS):
        category = rng.choice(tuple(CATEGORIES))
        _, brands, median = CATEGORIES[category]
        price = round(median * math.exp(rng.gauss(0, 0.4)), 2)
        products.append(_Product(1_000_000 + 37 * number, category, rng.choice(brands), price))
    return products


class _Click(NamedTuple):
    time: int  # milliseconds since 1970
    step: str
    product: _Product
    user: int
    session: str


def clicks(config: ClicksConfig) -> Iterator[str]:
    """Yield the events as lines of CSV without a header, in the order of time within a visit."""
    for click in _clicks(config):
        moment, price = f"{at(click.time):%Y-%m-%d %H:%M:%S} UTC", f"{click.product.price:.2f}"
        yield ",".join(map(str, _cells(click, moment, price)))


def records(config: ClicksConfig) -> Iterator[tuple[str, str]]:
    """Yield the same events as JSON, keyed by visit. Empty cells of the CSV are null."""
    for click in _clicks(config):
        cells = _cells(click, f"{at(click.time):%Y-%m-%dT%H:%M:%SZ}", click.product.price)
        values = (None if cell == "" else cell for cell in cells)
        yield click.session, json.dumps(dict(zip(COLUMNS, values, strict=True)))


def _clicks(config: ClicksConfig) -> Iterator[_Click]:
    rng, products = Random(f"{config.seed}:clicks"), _range()
    times = arrivals(rng, milliseconds(config.start), config.rate)
    for number, began in zip(range(config.visits), times, strict=False):
        user = 510_000_000 + int(rng.random() * 400)
        session = f"{config.fingerprint}-{number:06d}"
        time = began
        for _ in range(1 + int(rng.expovariate(0.6))):
            product = rng.choice(products)
            steps = ["view"]
            if rng.random() < 0.3:
                steps += ["cart", "purchase"] if rng.random() < config.bought else ["cart"]
            for step in steps:
                time += 1_000 + int(rng.expovariate(1 / 40_000))
                yield _Click(time, step, product, user, session)


def _cells(click: _Click, moment: str, price: float | str) -> tuple[float | str, ...]:
    """Return the values of an event in the order of the columns."""
    product = click.product
    category, _, _ = CATEGORIES[product.category]
    described = (product.id, category, product.category, product.brand, price)
    return (moment, click.step, *described, click.user, click.session)
