"""Test texts in statements of Spark SQL: Spark reads quoted texts unchanged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.platform.sql import literal, renamed

ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)


def as_spark_reads(quoted: str) -> str:
    """Return Spark's reading of a literal, which has no other escapes than these."""
    one = {"\\": "\\", "'": "'"}
    return ESCAPED.sub(lambda m: chr(int(m[1][1:], 16)) if m[1][1:] else one[m[1]], quoted[1:-1])


@given(st.text(st.sampled_from("a\\'${}u0024\n%_")))
def test_a_literal_is_read_as_the_text_that_it_was(text: str) -> None:
    quoted = literal(text)
    assert as_spark_reads(quoted) == text
    assert "${" not in quoted  # Spark would put a variable there, before it reads the literal
    assert re.search(r"(?<!\\)(?:\\\\)*'", quoted[1:-1]) is None  # nothing ends it early


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("it's", r"'it\'s'"), ("${spark.app.name}", r"'\u0024{spark.app.name}'"), ("\\", r"'\\'")],
)
def test_a_literal_is_written_as_the_macro_writes_it(text: str, quoted: str) -> None:
    assert literal(text) == quoted


NAMES = {"silver.orders": "review_x__in_silver.orders", "silver.or": "there.or"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from silver.orders as o", "from review_x__in_silver.orders as o"),
        ('{"source": "Silver.Orders"}', '{"source": "review_x__in_silver.orders"}'),
        ("silver.orders_2, xsilver.orders, a.silver.orders", None),
        ("`silver.orders`", None),
        ("silver.or, silver.orders.id", "there.or, review_x__in_silver.orders.id"),
    ],
)
def test_names_of_tables_are_replaced_as_a_whole(text: str, found: str | None) -> None:
    assert renamed(text, NAMES) == (text if found is None else found)
    assert renamed(text, {}) == text
