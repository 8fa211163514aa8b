"""Spark 4.2 itself reads SQL as the parser does: operands are grouped alike, and values stay."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from sqlglot import exp

from analysis.test_dialect import COLUMNS, EXPRESSIONS, read, written
from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused

TABLE = f"(select {', '.join(f'{text} as {name}' for name, text in COLUMNS.items())}, 5 as 1_i)"


def bracketed(text: str) -> str:
    """The expression with brackets around all that belongs together."""
    copied = exp.Paren(this=read(text).copy())
    for node in list(copied.find_all(exp.Binary, exp.Unary, exp.Between, exp.In, bfs=False))[::-1]:
        if not isinstance(node, (exp.Paren, exp.Dot)) and not isinstance(node.parent, exp.Paren):
            node.replace(exp.Paren(this=node.copy()))
    return dialect.whole_text(copied)


NUMBERS = ["+", "-", "*", "%", "div", "&", "|", "^"]
COMPARED = ["=", "<>", "<", ">=", "<=>"]


def grouped() -> list[str]:
    """Expressions of two operators, without those that are refused."""
    pairs = list(itertools.product(NUMBERS, [*NUMBERS, *COMPARED]))
    pairs += itertools.product(COMPARED, NUMBERS)
    texts = [f"{sign}i {one} j {other} k" for one, other in pairs for sign in ("", "-", "~")]
    texts += [f"not i {one} j {other} k" for one, other in pairs if {one, other} & {*COMPARED}]
    texts += [f"i {one} j between k and j {other} k" for one, other in pairs[: len(NUMBERS)]]
    texts += [f"i {one} j in (k)" for one in NUMBERS]
    texts += [f"i {one} j is null" for one in [*NUMBERS, *COMPARED]]
    texts += [f"i {one} j || t" for one in ["+", "-", "*", "%"]]
    texts += ["t || i * j", "t || u like u || t", "not o and o or o", "o or o and not o"]
    found = []
    for text in texts:
        try:
            read(text)
        except Refused:
            continue
        found.append(text)
    return found


@pytest.mark.slow
def test_spark_groups_operands_alike(spark: Any) -> None:
    texts = grouped()
    assert len(texts) > 300
    # the name of a column is its expression, with brackets
    names = [
        spark.sql(f"select {', '.join(made)} from {TABLE}").columns
        for made in (texts, list(map(bracketed, texts)))
    ]
    assert [
        (text, ours) for text, one, ours in zip(texts, *names, strict=True) if one != ours
    ] == []


@pytest.mark.slow
def test_spark_reads_what_is_written_alike(spark: Any) -> None:
    pairs = {text: made for text in EXPRESSIONS if (made := written(text)) is not None}
    assert len(pairs) > 150
    # as texts: the client has no value for an interval of months
    told = [
        spark.sql(
            "select "
            + ", ".join(
                f"typeof({text}) || ' ' || coalesce(cast({text} as string), 'null') as c{number}"
                for number, text in enumerate(side)
            )
            + f" from {TABLE}"
        ).first()
        for side in (pairs.keys(), pairs.values())
    ]
    assert [
        (text, made, one, other)
        for (text, made), one, other in zip(pairs.items(), *told, strict=True)
        if one != other
    ] == []
