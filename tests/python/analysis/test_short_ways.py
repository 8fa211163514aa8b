"""The short ways through plain words and operands read what sqlglot reads without them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenizerCore

from analysis import long_models
from analysis.queries import drawn_keyed, drawn_linear, drawn_plain, drawn_staged, drawn_sums
from analysis.test_dialect import EXPRESSIONS, REFUSED
from analysis.test_hand_made import QUERIES
from analysis.warehouse import SQL, rendered
from headwaters.analysis import dialect
from headwaters.analysis.operands import Operands


class Plain(dialect._Written):
    """The dialect without its short ways."""

    class Tokenizer(dialect._Written.Tokenizer):
        def _init_core(self) -> TokenizerCore:
            return Spark.Tokenizer._init_core(self)

    class Parser(dialect._Written.Parser):
        pass


for way in vars(Operands):
    if way.startswith("_parse"):
        setattr(Plain.Parser, way, getattr(SparkParser, way))


def _told(token: Token) -> tuple[Any, ...]:
    return (
        *(token.token_type, token.text, token.line, token.col, token.start, token.end),
        token.comments,
    )


def _shown(value: object) -> object:
    """A tree with all that a node has: also places, comments, and how it is tied to its parent."""
    if isinstance(value, list):
        return [_shown(part) for part in value]
    if not isinstance(value, exp.Expr):
        return value
    args = [(name, _shown(part)) for name, part in value.args.items()]
    tied = type(value.parent), value.arg_key, value.index
    return type(value), args, value.meta, value.comments, tied


def read(sql: str, by: type[Spark]) -> object:
    """The words of a text and the trees of it, or what is wrong with it."""
    words: list[Any] = []
    try:
        tokens = by().tokenize(sql)
        words = list(map(_told, tokens))
        return words, [_shown(tree) for tree in by().parser().parse(tokens, sql)]
    except SqlglotError as error:
        return words, str(error)


def drawn() -> Iterator[str]:
    """Random queries of each kind."""
    kinds: list[Callable[[random.Random], str]] = [
        *(drawn_keyed, drawn_linear, drawn_plain, drawn_staged, drawn_sums),
    ]
    for number in range(40):
        yield from (draw(random.Random(number)) for draw in kinds)


TEXTS = {
    "expressions": [f"select {text} as x, a from t" for text in (*EXPRESSIONS, *REFUSED)],
    "hand made": QUERIES,
    "TPC-H": [path.read_text() for path in (Path(__file__).parent / "tpch").glob("*.sql")],
    "brokerage": list(map(rendered, SQL)),
    "long": [sql for _, sql, _ in long_models.models(40)],
    "drawn": list(drawn()),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_what_people_write(kind: str) -> None:
    for sql in TEXTS[kind]:
        assert read(sql, dialect._Written) == read(sql, Plain), sql


# Operands of each kind, and what may stand before and after them.
OPERANDS = """
a|`a`|a.b|a.b.c|a /*c*/|1|1.5|'q'|'q' 'r'|- a|not a|~ a|null|true|*|(a)|(a, b)|(select 1)|a[0]|a:b
f()|f(a)|f(1)|f(*)|f(distinct a)|f(all a)|f(a, b)|f(a).b|f(a)[0]|f(f(a))|`f`(a)|x.f(a)|f(a)::int
f(a) over (order by b)|f(a) filter (where b)|f(a) within group (order by b)|f(a) ignore nulls
f /*c*/ (a)|f(a /*c*/)|f(a) /*c*/|f(x -> x)|f((x, y) -> x)|f(a as b)|f(a order by b)|f(select 1)
if(a, b, c)|any(a)|any (select 1)|exists (select 1)|transform(a, x -> x)|connect_by_root a|per(a)
cast(a as int)|extract(day from a)|trim(both from a)|date '2020-01-01'|date|interval 1 day|values
case when a then b end|case when a > 1 then b else c end.d|case a when b then c end|case.a|case(a)
case /*c*/ when a /*d*/ then b end /*e*/|case|a(+)|a::int|:p|@p|?|{a}|x at time zone 'z'
""".strip().replace("\n", "|")
BETWEEN = """
+|*|div|&|^|>|> >|>>|<|<<|<=|<>|=|<=>|!=|::|?|->|=>|.|,|;|[0]|(a)|and|or|in|is|is not|is null
is null =|not in|not like|isnull|like|like any|between 1 and|escape|collate|at time zone|= any|> not
> -|not|/*c*/ >|> /*c*/|as|over|over (a)|filter|limit|window|from|then|end|when
""".strip().replace("\n", "|")


@pytest.mark.parametrize("operand", ["", *OPERANDS.split("|")])
def test_each_operand_before_and_after_each_operator(operand: str) -> None:
    for word in ("|", "||", *BETWEEN.split("|")):
        for sql in (
            f"select {operand} {word} b as x from t",
            f"select f({operand} {word} b, c {word} {operand})",
            f"select case when b {word} {operand} then {operand} else {operand} end",
        ):
            assert read(sql, dialect._Written) == read(sql, Plain), sql


# Words of which some are the beginning of longer ones, and what may stand between them.
WORDS = """
a b1 _x 1 02 1.5 .5 1e3 2L 3x 1_0 0x1f 'q' "q" `q` r'q' x'1F' n'q' q' é aé \u017f
, ( ) [ ] . * + - / < > << >> <= >= <> <=> = == != ! | || & ^ ~ % : :: ; ? @ $ { } -> => \\ --
case when then else end as and or not is null in between like rlike exists any all if transform
select distinct from where group by having order limit window over filter within union
interval at time zone cast array map struct date timestamp int double precision char varying
cluster sort partition primary user user-defined show execute rename add jar true current_date
values lateral view with lag sum coalesce div mod escape /*+ /*c*/ --c
""".strip().split()
GAPS = ["", " ", "  ", "\t", "\n", "\n  ", "\r\n", "\r", "\f", "\u00a0", "\u2003", " -- c\n"]
GAPS += [" /* c\n */ ", "/**/", "\n--\n"]
MIXED = st.lists(
    st.tuples(
        st.sampled_from(WORDS).flatmap(lambda word: st.sampled_from([word, word.title()])),
        st.sampled_from([*GAPS, " ", " ", "\n"]),
    ),
    max_size=14,
).map(lambda parts: "".join(word + gap for word, gap in parts))


@given(MIXED)
@example("a >> b")
@example("case when a then b end")
@example("@case @group ${ a }")
@example("show a (b, c) ;select 1")
def test_any_words(text: str) -> None:
    for sql in (text, f"select {text} from t", f"select case when a {text} then 1 end as x"):
        assert read(sql, dialect._Written) == read(sql, Plain)
