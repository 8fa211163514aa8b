"""Compare the derived types and bounds of numbers with those of Spark 4.2.

A bound that is too small accepts a `signed_sum` whose decimals become NULL.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from headwaters.analysis import dialect, value_bounds
from headwaters.analysis.exact_types import decimal_of
from headwaters.analysis.linear_rules import LinearRules
from headwaters.analysis.proof import prove
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.scopes import Value, value_of

WHOLE = {"a": "tinyint", "h": "smallint", "i": "int", "b": "bigint"}
DECIMALS = {
    **{"d": "decimal(5,0)", "e": "decimal(10,2)", "f": "decimal(18,6)", "g": "decimal(27,2)"},
    **{"l": "decimal(38,0)", "m": "decimal(38,10)", "p": "decimal(38,38)", "q": "decimal(1,1)"},
}
NUMBERS = WHOLE | DECIMALS
OTHERS = {"t": "string", "o": "boolean", "y": "date", "z": "date", "x": "double"}
COLUMNS = NUMBERS | OTHERS
LITERALS = [
    *("0", "1", "007", "127", "128", "-128", "32768", "999999999", "2000000000", "2147483647"),
    *("2147483648", "-2147483648", "00000000000000000000005", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "1" + "0" * 22, "9" * 38, "-" + "9" * 38),
    *("0.5", ".5", "5.", "00.50", "0.000", "-1.25", "99999999999.99", "0." + "0" * 37 + "1"),
    *("1e3", "1.5e2", "1e-3", "10L", "10S", "10Y", "1.5BD", "10BD", "1.5D", "1.5F"),
    *("(3)", "-(3)", "(-3)", "- 3", "-(-3)", "-(0.5)"),
]
CASTS = [*NUMBERS.values(), "decimal(20,4)"]
AGGREGATES = ("sum(", "try_sum(", "max(", "avg(", "count(")
# Whole numbers in operations with decimals.
BESIDE = ["0", "1", "-7", "(100)", "2147483648", "9" * 25, "0.5", "12.125", "-(3)", "- 3", "9" * 38]


def _of_columns() -> Iterator[str]:
    yield from NUMBERS
    yield from LITERALS
    for one, other in itertools.product(NUMBERS, NUMBERS):
        yield from (f"{one} {sign} {other}" for sign in ("+", "-", "*", "/", "%"))
        yield f"coalesce({one}, {other})"
        yield f"case when o then {one} else {other} end"
    for one, other in itertools.product(NUMBERS, BESIDE):
        yield from (f"{one} {sign} {other}" for sign in ("+", "-", "*", "/"))
        yield from (f"{other} {sign} {one}" for sign in ("-", "*", "/"))
        yield from (f"coalesce({one}, {other})", f"if(o, {other}, {one})")
    for one, type in itertools.product((*NUMBERS, "x", "t"), (*NUMBERS.values(), "decimal(3,2)")):
        yield f"cast({one} as {type})"
        yield f"try_cast({one} as {type})"
    for one in (*NUMBERS, *BESIDE):
        yield from (f"abs({one})", f"-({one})", f"+({one})", f"negative({one})", f"positive({one})")
        yield from (f"ceil({one})", f"floor({one})", f"sign({one})", f"nullif({one}, 0)")
        yield from (f"{name}({one})" for name in ("round", "bround"))
        for places in ("0", "1", "2", "12", "40", "-1"):
            yield from (f"{name}({one}, {places})" for name in ("round", "bround"))
        yield from (f"greatest({one}, i)", f"least({one}, e)", f"{one} div i", f"nvl2(o, {one}, e)")
        yield from (
            f"sum({one})",
            f"max({one})",
            f"sum(-({one}))",
            f"try_sum({one})",
            f"avg({one})",
        )
        yield from (f"nvl({one}, null)", f"ifnull(null, {one})", f"zeroifnull({one})")
        yield f"case i when 1 then {one} when 2 then 0.125 end"
    yield from ("length(t)", "char_length(t)", "year(y)", "hour(y)", "weekofyear(y)", "quarter(y)")
    yield from ("datediff(y, z)", "date_diff(y, z)", "datediff(day, y, z)", "date_diff(day, y, z)")
    yield from ("day(y)", "dayofweek(y)", "weekday(y)", "dayofyear(y)", "minute(y)", "month(y)")
    yield from ("timestampdiff(second, y, z)", "unix_date(y)", "extract(year from y)", "count(*)")
    yield from ("cast(i as decimal)", "cast(i as dec)", "cast(i as numeric(12, 3))", "i::long")
    yield from ("cast(i as decimal(12))", "cast(i as integer)", "cast(i as byte)", "short(i)")
    yield from ("decimal(e)", "bigint(e)", "int(e)", "coalesce(e, x)", "i + x", "e * x", "t + i")
    yield from ("e + t", "coalesce(i, t)", "if(o, i, t)", "round(t, 1)", "abs(t)", "-t", "x + 0.5")
    yield from ("round(x, 2)", "abs(x)", "coalesce(null, null)", "if(o, null, 1)", "y - z")
    yield from ("y + 1", "y - 1", "coalesce(y, z)", "case o when true then i else b end")


def _nested(drawn: random.Random, depth: int) -> str:
    if depth == 0 or drawn.random() < 0.1:
        return drawn.choice([*NUMBERS, *NUMBERS, *BESIDE])
    one, other = (_nested(drawn, depth - 1) for _ in range(2))
    forms = [f"({one} {sign} {other})" for sign in "+-**/"]
    forms += [f"abs({one})", f"round({one}, 2)", f"-({one})", f"coalesce({one}, {other})"]
    forms += [f"case when o then {one} else {other} end", f"cast({one} as {drawn.choice(CASTS)})"]
    return drawn.choice(forms)


def texts() -> list[str]:
    """Return the expressions, each once."""
    drawn = random.Random(0)
    nested = [_nested(drawn, depth) for depth in (2, 2, 3) for _ in range(150)]
    return list(dict.fromkeys((*_of_columns(), *nested)))


def taken(text: str) -> Value | None:
    """Return the type that the analysis derives for an expression, or None if it refuses it."""
    source = Input("v", "v", "lookup", COLUMNS)
    tree = dialect.parsed(f"select {text} as x from v")
    try:
        return value_of(Reader([source], LinearRules(sums=True), []).read(tree).columns[0])
    except Refused:
        return None


def _extremes(type: str) -> list[str]:
    """Return values of a type: the ends of its range, their neighbours, and NULL.

    38-digit values leave one digit free: Spark negates 34 digits exactly and fails for 38 nines.
    """
    found = {
        "string": ["abc", "", "9"],
        "boolean": ["true", "false"],
        "date": ["0001-01-01", "9999-12-31", "2026-02-28"],
        "double": ["1e300", "-1e300", "0.1"],
    }.get(type)
    if type in WHOLE.values():
        most = value_bounds.largest(type)
        assert most is not None
        found = [str(most - 1), str(-most), str(1 - most), "0", "1", "-1", "3"]
    if number := decimal_of(type) if found is None else None:
        precision, scale = number
        nines = str(Decimal((0, (9,) * min(precision, 37), -scale)))
        least = str(Decimal((0, (1,), -scale)))
        found = [nines, f"-{nines}", nines, f"-{nines}", "0", least, f"-{least}"]
    assert found is not None
    return [*(f"cast('{value}' as {type})" for value in found), f"cast(null as {type})"]


def extreme_rows(number: int) -> str:
    """Return a query whose rows draw every value from the extremes of its column."""
    drawn = random.Random(0)
    values = {name: _extremes(type) for name, type in COLUMNS.items()}
    rows = (", ".join(map(drawn.choice, values.values())) for _ in range(number))
    return f"select * from values {', '.join(f'({row})' for row in rows)} as v({', '.join(values)})"


def in_parts(found: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many as one statement selects."""
    for start in range(0, len(found), 400):
        yield found[start : start + 400]


def listed(expressions: Iterable[str]) -> str:
    """Return a select list with arbitrary names."""
    return ", ".join(f"{text} as c{number}" for number, text in enumerate(expressions))


def test_types_of_numbers_as_they_are_written() -> None:
    given = {
        "2147483647": "int",
        "2147483648": "bigint",
        "-2147483648": "int",
        "-(2147483648)": "bigint",
        "00000000000000000000005": "int",
        "9223372036854775808": "decimal(19,0)",
        "9" * 39: None,
        "-t": "double",
        "cast(i as decimal)": "decimal(10,0)",
        "cast(i as decimal(12))": "decimal(12,0)",
        "if(o, e, cast(i as decimal(10, 2)))": "decimal(10,2)",
    }
    assert {text: value.type for text in given if (value := taken(text))} == given


def test_bounds_of_numbers() -> None:
    given = {
        "l": 10**38,
        "g": 10**25,
        "a * 9007199254740993": 2**7 * 9007199254740993,
        "9" * 38: 10**38 - 1,
        "0.5 * a": 2**7,
        "round(e, 1)": 10**8 + 1,
    }
    found = {text: value_bounds.most_of(value) for text in given if (value := taken(text))}
    assert found == given


@pytest.fixture(params=["false", "true"], ids=["without ANSI", "ANSI"])
def ansi(set_spark: Callable[[str, str], None], request: pytest.FixtureRequest) -> None:
    """Set each of the two sets of rules."""
    set_spark("spark.sql.ansi.enabled", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("ansi")
def test_types_are_those_of_spark(spark: Any) -> None:
    known = {text: value.type for text in texts() if (value := taken(text)) and value.type}
    assert len(known) > 2000
    columns = ", ".join(f"cast(null as {type}) as {name}" for name, type in COLUMNS.items())
    every = ", ".join(COLUMNS)
    given = [
        type
        for part in in_parts([*known])
        for _, type in spark.sql(
            f"with v as (select {columns}) select {listed(part)} from v group by {every}"
        ).dtypes
    ]
    assert [
        (text, type, theirs)
        for (text, type), theirs in zip(known.items(), given, strict=True)
        if type != theirs
    ] == []


@pytest.fixture
def wrapping(set_spark: Callable[[str, str], None]) -> None:
    """Switch off ANSI rules, as dbt-spark does."""
    set_spark("spark.sql.ansi.enabled", "false")


@pytest.mark.slow
@pytest.mark.usefixtures("wrapping")
def test_no_value_exceeds_its_bound(spark: Any) -> None:
    bounds = {
        text: most
        for text in texts()[::3]
        if "9" * 38 not in text and not text.startswith(AGGREGATES)
        if (value := taken(text)) and (most := value_bounds.most_of(value)) is not None
    }
    assert len(bounds) > 500
    ends = [
        spark.sql(
            f"select {listed(f'array(string(min({text})), string(max({text})))' for text in part)}"
            f" from ({extreme_rows(60)})"
        ).first()
        for part in in_parts([*bounds])
    ]
    assert [
        (text, most, values)
        for (text, most), values in zip(bounds.items(), itertools.chain(*ends), strict=True)
        if any(Decimal(value).copy_abs() > most for value in values if value is not None)
    ] == []


@pytest.mark.slow
def test_spark_rounds_what_it_negates_to_34_digits(spark: Any) -> None:
    """Check the rounding: if Spark stops it, `value_bounds` need not know it."""
    numbers = [f"cast({'9' * digits} as decimal(38,0))" for digits in (34, 35)]
    found = spark.sql(f"select {listed(f'string(-{number})' for number in numbers)}").first()
    assert [*found] == ["-" + "9" * 34, "-1" + "0" * 35]


def weighted() -> Iterator[str]:
    """Return expressions that may change their sign with `_weight`."""
    drawn = random.Random(1)
    for one in (*NUMBERS, "0", "-7", "(100)", "0.5", "length(t)", "abs(i)", "datediff(y, z)"):
        yield from (f"{one} * _weight", f"-({one}) * _weight", f"-({one} * _weight)")
        yield from (f"_weight * {one} * 2", f"_weight / {one}", f"{one} * _weight / 3")
        yield from (f"coalesce({one} * _weight, 0)", f"if(o, {one} * _weight, 0.0)")
        yield from (f"{one} * _weight + _weight", f"cast(({one} * _weight) div 2 as decimal(27,2))")
        yield from (f"round({one} * _weight, 1)", f"bround({one} * _weight)")
        yield from (f"cast({one} * _weight as {type})" for type in CASTS)
        yield from (f"cast({one} as {type}) * _weight" for type in CASTS)
    for _ in range(150):
        one, other = _nested(drawn, 2), _nested(drawn, 1)
        yield from (f"{one} * _weight", f"cast({one} * _weight as {drawn.choice(CASTS)})")
        yield from (
            f"-({one} * _weight) + {other} * _weight",
            f"coalesce({one} * _weight, _weight)",
        )


def is_accepted(text: str) -> bool:
    """Return whether a `signed_sum` may sum the expression."""
    source = Input("v", "v", "signed", COLUMNS | {"_weight": "int"})
    try:
        prove(f"select o, sum({text}) as x from v group by o", [source], "sums", ["o"])
    except Refused:
        return False
    return True


@pytest.mark.slow
@pytest.mark.usefixtures("wrapping")
def test_what_a_row_adds_its_deletion_takes_away(spark: Any) -> None:
    accepted = [
        text for text in dict.fromkeys(weighted()) if "9" * 38 not in text and is_accepted(text)
    ]
    assert len(accepted) > 400
    weights = "(values (1), (-1)) as w(_weight)"
    left = [
        spark.sql(
            f"select {listed(f'string(sum({text}))' for text in part)}"
            f" from ({extreme_rows(60)}) cross join {weights}"
        ).first()
        for part in in_parts(accepted)
    ]
    found = dict(zip(accepted, itertools.chain(*left), strict=True))
    assert {text: sum for text, sum in found.items() if sum and Decimal(sum) != 0} == {}
    assert sum(value is None for value in found.values()) < len(found) / 10
