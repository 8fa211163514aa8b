"""Compare the parser with Spark 4.2: operands are grouped alike, and values stay."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlglot import exp

from analysis.test_derive import JOINED, STARS
from analysis.test_dialect import COLUMNS, EXPRESSIONS, read, written
from headwaters.analysis import dialect
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input, new_column
from headwaters.analysis.safe_expressions import implied_text
from headwaters.analysis.tracing import Tracing

TABLE = f"(select {', '.join(f'{text} as {name}' for name, text in COLUMNS.items())}, 5 as 1_i)"


def bracketed(text: str) -> str:
    """Return the expression with brackets around every operation."""
    copied = exp.Paren(this=read(text).copy())
    for node in list(copied.find_all(exp.Binary, exp.Unary, exp.Between, exp.In, bfs=False))[::-1]:
        if not isinstance(node, (exp.Paren, exp.Dot)) and not isinstance(node.parent, exp.Paren):
            node.replace(exp.Paren(this=node.copy()))
    return dialect.whole_text(copied)


NUMBERS = ["+", "-", "*", "%", "div", "&", "|", "^"]
COMPARED = ["=", "<>", "<", ">=", "<=>"]


def grouped() -> list[str]:
    """Return expressions of two operators, without the refused ones."""
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


SIGNS = ["+", "*", "<<", ">>", ">>>", "&", "|"]


@pytest.mark.slow
def test_right_shifts_have_the_values_of_their_functions(spark: Any) -> None:
    texts = [f"i {one} -j {other} k" for one in SIGNS for other in SIGNS if ">" in one + other]
    texts += [f"{text} >>> 1" for text in texts]
    found = {}
    for text in texts:
        with suppress(Refused):
            found[text] = dialect.without_shifts(f"select {text}").removeprefix("select ")
    assert len(found) > 30
    told = [
        spark.sql(f"select {', '.join(side)} from values (-7, 3, 2), (100, -31, 33) t (i, j, k)")
        for side in (found.keys(), found.values())
    ]
    assert list(map(tuple, told[0].collect())) == list(map(tuple, told[1].collect()))
    assert [kind for _, kind in told[0].dtypes] == [kind for _, kind in told[1].dtypes]


IMPLIED = ["t = n", "cast(t as int) = n", "n = cast(trim(t) as bigint)", "t like p", "t ilike p"]


@pytest.mark.slow
def test_a_condition_that_cannot_fail_holds_wherever_the_query_s_does(
    spark: Any, set_spark: Callable[[str, str], None]
) -> None:
    chance = random.Random(57)
    columns = {name: new_column(name, type) for name, type in (("t", "string"), ("n", "int"))}
    columns["p"] = new_column("p", "string")
    names = {column.id: name for name, column in columns.items()}
    blanks = ["", " ", "\t", "\x00", "\x7f", "\u00a0", "\u2003"]
    rows = []
    for _ in range(20_000):
        digits = "".join(chance.choices("001234567890.", k=chance.choice([0, 1, 1, 2, 3, 12])))
        text = chance.choice(["", "", "-", "+"]) + digits + chance.choice(["", "", "e1", "x"])
        text = chance.choice(blanks) + text + chance.choice(blanks)
        pattern = "".join(chance.choices("12.%_\\", k=chance.randint(0, 4)))
        number = chance.choice([0, 1, 2, 12, -1, 10, 2147483647])
        rows.append((chance.choice([text, f"{number}", f"{number}.5"]), number, pattern))
    spark.createDataFrame(rows, "t string, n int, p string").createOrReplaceTempView("compared")
    for is_ansi in ("true", "false"):
        set_spark("spark.sql.ansi.enabled", is_ansi)
        for text in IMPLIED:
            implied = implied_text(read(text), lambda column: columns[column.name])
            assert implied is not None
            implied = re.sub("\x02(\\d+)\x02", lambda found: names[int(found[1])], implied)
            assert spark.sql(f"select count_if({implied}) from compared").first()[0] > 100
            wanted = text
            if "like" in text:
                wanted = f"case when instr(p, chr(92)) = 0 then {text} else false end"
            elif is_ansi == "true":
                continue  # the casts fail
            missed = f"select * from compared where ({wanted}) and not coalesce({implied}, false)"
            assert spark.sql(missed).collect() == []


# Expressions whose types are compared, over columns of these types.
TYPED = {
    "i": "int",
    "b": "bigint",
    "h": "smallint",
    "d": "decimal(10,2)",
    "w": "decimal(20,5)",
    "t": "string",
    "o": "boolean",
    "y": "date",
}
OF_TYPES = [
    *(f"{one} {sign} {other}" for one in "ibhdw" for other in "ibhdw" for sign in "+-*"),
    *(f"{one} {sign} {number}" for one in "idw" for sign in "+-*" for number in ("2", "(100)")),
    *(f"{number} * {one}" for one in "idw" for number in ("0", "007", "10000000000", "0.50")),
    *("d * -1", "d - -10", "-d", "-(d)", "1 - d", "d + 0.125", "i * 0.5", "2 * 3", "d * 2 * 2"),
    *(f"coalesce({one}, {other})" for one in "ibdw" for other in ("0", "i", "d", "0.125", "null")),
    *("if(o, d, 0)", "if(o, i, b)", "case when o then d else 1 end", "case when o then i end"),
    *("case b when 1 then d end", "case w when 1 then i else h end", "case when o then null end"),
    *("case i when 1 then 0.5 when 2 then d else 0 end", "nvl(d, 10000000000)", "ifnull(h, 1)"),
    *("upper(t)", "trim(t)", "substring(t, 1, 2)", "left(t, 1)", "coalesce(t, 'a')"),
    *(f"sum({one})" for one in ("i", "b", "d", "w", "d * 2", "i * d", "coalesce(d, 0)", "-d")),
    *("max(t)", "min(d)", "any_value(y)", "max_by(t, y)", "first(d)"),
]


@pytest.mark.slow
def test_what_is_taken_for_a_type_is_that_of_spark(spark: Any) -> None:
    columns = ", ".join(f"cast(null as {type}) as {name}" for name, type in TYPED.items())
    wrong, known = {}, 0
    for text in OF_TYPES:
        sql = f"select {text} as x from v"
        allowed = ["first", "any_value", "max_by"]
        made = Reader([Input("v", "v", "", TYPED)], Tracing(), allowed).read(dialect.parsed(sql))
        given = spark.sql(f"with v as (select {columns}) {sql}").dtypes[0][1]
        taken = made.columns[0].type
        known += taken is not None
        if taken not in (None, given):
            wrong[text] = (taken, given)
    assert wrong == {}
    assert known > len(OF_TYPES) * 0.9


@pytest.mark.slow
def test_columns_after_using_are_in_the_order_of_spark(spark: Any) -> None:
    tables = ", ".join(
        f"{source.name} as (select {', '.join(f'1 as {name}' for name in source.columns)})"
        for source in JOINED
    )
    given = {sql: " ".join(spark.sql(f"with {tables} {sql}").columns) for sql in STARS}
    assert given == STARS
