"""Test that the parser reads SQL as Spark 4.2 does, or refuses it."""

from __future__ import annotations

import re
import zipfile

import pytest
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from headwaters.analysis import dialect, relations_in
from headwaters.analysis.equivalence import structure
from headwaters.analysis.refusal import Refused
from headwaters.platform import spark_version
from headwaters.platform.jars import installed_pyspark
from headwaters.platform.sql import accepted

# The columns of the expressions, each with a value.
COLUMNS = {
    "i": "7",
    "j": "3",
    "k": "2",
    "t": "'x y'",
    "u": "'z'",
    "o": "true",
    "d": "date'2024-02-29'",
    "at": "timestamp'2024-02-29 12:30:00'",
    "q": "cast(1.50 as decimal(10, 2))",
    "f": "cast('NaN' as double)",
    "n": "cast(null as int)",
    "l": "array(1, 2, 3)",
    "m": "map('x', 1)",
    "s": "named_struct('x', 1, 'y y', 2)",
}
EXPRESSIONS = r"""
'it\'s'
'it' 's'
'it''s'
''''
"d""q"
'\\''x'
"it's"
"say \"it\""
'a\nb\t\\c'
'\u0041\x41\101'
'a\%b\_c'
r'a\nb'
R"a\'b"
'ünï'
''
i + 1L
i + 1S
i + 1Y
1.0BD
1BD
1.0D
1F
1e3
1e3BD
.5
5.
x'1F'
i div j
div(i, j)
-i % j
mod(-i, j)
pmod(-i, j)
i / j
- -i
-(-i)
~i
not o
! o
!o or o
not i = j
!i = j
i <=> n
n <=> null
i is distinct from n
i is not distinct from n
i <> j
i != j
i == j
o is true
o is not true
n is not false
n = 1 is unknown
n is not null
not n is null
n = 1 is null
i between j and 9
i not between j and 9
i between 9 and j
i in (j, 7)
i not in (j, n)
t like 'x%'
t not like 'x%'
t like 'x!_%' escape '!'
t like r'x\_%'
t ilike 'X%'
t rlike '^x\\s'
t regexp r'^x\s'
t || u
t || u || i
i + j || t
i << 1
i >> 1
i >>> 1
-i >>> j
i + j >>> 1 << 2 >> i
i !> j
i !< j
X"1F"
i | j
i & j
i ^ j
(i | j) & k
interval 1 day
interval '1' day
interval '1 day'
interval 1 day 2 hours
interval '1-2' year to month
interval '1 02:03:04' day to second
d + interval 1 month
d - interval '1' month
at - interval 90 minutes
-interval 1 day
d - interval -1 day
date '2024-01-01'
date'2024-01-01'
timestamp '2024-01-01'
timestamp_ntz '2024-01-01 00:00:00'
timestamp_ltz '2024-01-01 00:00:00'
cast(at as timestamp_ntz)
cast(q as decimal)
cast(q as decimal(4))
cast(q as numeric(4, 1))
cast(q as dec(4, 1))
cast(t as varchar(2))
cast(t as char(9))
cast(t as varchar(2)) || '|'
cast(i as tinyint)
cast(i as byte)
cast(i as long)
cast(i as real)
cast(t as binary)
cast('1' as interval day)
cast(l as array<bigint>)
cast(m as map<string, bigint>)
cast(s as struct<x: bigint, y: string>)
i::string
-i::string
try_cast(t as int)
int('1')
string(i)
double(i)
date('2024-01-01')
timestamp('2024-01-01')
decimal(i)
boolean('true')
l[0]
m['x']
s.x
s.`y y`
array(i, j)[1]
array(array(i))[0][0]
map('a', i)['a']
struct(i, j).i
struct(i as a, j).a
named_struct('a', i)['a']
split(t, ' ')[1]
transform(l, x -> x + i)[0]
aggregate(l, 0, (a, x) -> a + x)
exists(l, x -> x > j)
filter(l, (x, p) -> p > 0)
case when o then i end
case i when 7 then j else k end
if(o, i, j)
nvl(n, i)
nvl2(n, i, j)
nullif(i, j)
coalesce(n, i)
extract(year from at)
extract(seconds from at)
date_part('month', d)
datediff(day, d, at)
datediff(d, '2024-01-01')
dateadd(day, 1, d)
date_add(d, 1)
timestampdiff(hour, d, at)
timestampadd(month, 1, at)
date_trunc('month', at)
trunc(d, 'month')
trim(t)
trim(both from t)
trim(both 'x' from t)
trim(leading 'x' from t)
trim(trailing 'y' from t)
trim('x' from t)
substring(t from 2 for 1)
substring(t, 2, 1)
substr(t, 2)
position('y' in t)
position('y', t)
locate('y', t)
overlay(t placing 'z' from 2)
overlay(t placing 'z' from 2 for 1)
ceil(q)
ceil(q, 1)
floor(q, -1)
round(q, 1)
log(2, 8)
decode(i, 7, 'a', 'b')
t collate UTF8_LCASE = 'X Y'
at::date
d = '2024-02-29'
q = 1.5
f = f
i = '7'
(i, j) = (7, 3)
array(i)
map()
struct(i)
1_i
""".strip().split("\n")


def read(text: str) -> exp.Expr:
    return dialect.parsed(f"select {text}").selects[0]


def written(text: str) -> str | None:
    """Return the expression as the tree writes it, or None if the tree changed its meaning."""
    node = read(text)
    made = dialect.whole_text(node)
    return made if structure(read(made)) == structure(node) else None


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_no_column_is_lost(text: str) -> None:
    quoted = r"r?'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\""
    plain = re.sub(rf"{quoted}|\bas \w+|\w+ ->|\([a-z], [a-z]\) ->", "", text)
    there = {name for name in COLUMNS if re.search(rf"(?<![.\w`]){name}\b(?!\()", plain)}
    found = {column.parts[0].name for column in read(text).find_all(exp.Column)}
    assert there <= found


# SQL that comes back changed, so the product never writes it again: see `changed._as_text`.
LOST = [
    *("'it' 's'", r"r'a\nb'", 'R"a\\\'b"', r"t like r'x\_%'", r"t regexp r'^x\s'"),
    *("trim(both from t)", "position('y' in t)", "position('y', t)"),
    r"'\00012'",
]


def test_what_is_written_is_what_was_read_or_it_is_noticed() -> None:
    times = ["time '10:00:00'", "cast(t as time)", "cast(t as time(3))"]
    assert [text for text in (*EXPRESSIONS, *times, *LOST[8:]) if written(text) is None] == LOST
    assert dialect.whole_text(read(times[2])) == "CAST(t AS TIME(3))"


# SQL that sqlglot reads differently from Spark, or may.
REFUSED = [
    "i | j & k",
    "i ^ j & k",
    "i << 1 | j",
    "i & j << 1",
    "i & j >> 1",
    "i | j >>> 1",
    "i >> `(i >> 1)`",
    "i ?? j",
    "i > > > j",
    "i ! > j",
    "v:`a b`",
    "v:a[i]",
    "v:'a'",
    "v:",
    "t || i + j",
    "o = i in (7)",
    "i in (7) = o",
    "o = t like u",
    "o = i between j and k",
    "o = i < j",
    "o <=> i < j",
    "o <=> i in (7)",
    "t like u <=> o",
    "interval + 1",
    "interval - i",
    "i -- a comment of two lines \\\n + j",
    "0x1F",
    "i + i.0X1f",
]


# Right shifts, and their text as the statements of a run have it.
SHIFTS = {
    "i>>1": "shiftright(i,1)",
    "i + j >> k * 2": "shiftright(i + j , k * 2)",
    "i >> 1 >>> 2 << 3 >> j": "shiftright(shiftrightunsigned(shiftright(i , 1) , 2) << 3 , j)",
    "i >> 1 & j": "shiftright(i , 1) & j",
    "(i | j) >> - k c": "shiftright((i | j) , - k) c",
    "i << 2 >> 1 = j or o": "shiftright(i << 2 , 1) = j or o",
    "case when i >> 1 = 2 then j >> 1 end >> 3": (
        "shiftright(case when shiftright(i , 1) = 2 then shiftright(j , 1) end , 3)"
    ),
    "i::bigint >> l[1 >> 1]": "shiftright(i::bigint , l[shiftright(1 , 1)])",
    "left(t, i >> 1) || j >> 2": "shiftright(left(t, shiftright(i , 1)) || j , 2)",
    "sum(i >> 1) over (partition by j >> 1) >> 2": (
        "shiftright(sum(shiftright(i , 1)) over (partition by shiftright(j , 1)) , 2)"
    ),
    "count(*) filter (where i >> 1 in (j >> 1, 2)) >> 1": (
        "shiftright(count(*) filter (where shiftright(i , 1) in (shiftright(j , 1), 2)) , 1)"
    ),
    "transform(l, x -> x >> 1)": "transform(l, x -> shiftright(x , 1))",
    "i /* >> */ >> 1 as `a b`, '>>' -- >>": "shiftright(i /* >> */ , 1) as `a b`, '>>' -- >>",
    "cast(null as array<array<int>>)[0][0] >> 1": (
        "shiftright(cast(null as array<array<int>>)[0][0] , 1)"
    ),
    "cast(null as map<int,array<int>>)": "cast(null as map<int,array<int>>)",
    "i > j": "i > j",
}


@pytest.mark.parametrize("text", SHIFTS)
def test_right_shifts_become_functions(text: str) -> None:
    assert dialect.read(f"select {text}\nfrom t").sql == f"select {SHIFTS[text]}\nfrom t"


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        dialect.parsed(f"select {text}")


def test_a_comment_between_pipes_that_continues_on_the_next_line_is_refused() -> None:
    with pytest.raises(Refused, match="backslash"):
        dialect.parsed("from t -- all of it \\\n|> where o\n|> select i")


def test_pipes_keep_the_lines_of_their_text() -> None:
    found = dialect.read("from t\n|> where o\n|> aggregate\n  max(i) as x\n  group by\n  j")
    assert {node.name: dialect.line(node) for node in found.tree.find_all(exp.Column)} == {
        **{"o": 2, "i": 4, "j": 6},
    }


# To Spark, `t where (o)` is the table t with the alias `where` and the column o.
FILTERS = {
    "from t where (o)": False,
    "from t where (o, i)": False,
    "from (select o from t) where (o)": False,
    "from t, u where (o)": False,
    "from t cross join u where (o)": False,
    "from t having (o)": False,
    "from t where o": True,
    "from t where ((o))": True,
    "from t where (t.o)": True,
    "from t where (not o)": True,
    "from t where (o) and i > 1": True,
    "from t as s where (o)": True,
    "from (select o from t) s where (o)": True,
    "from t join u on t.i = u.i where (o)": True,
    "from t join u using (i) where (o)": True,
    "from t where (i, o) in (select i, o from u)": True,
}


@pytest.mark.parametrize(("text", "is_filter"), FILTERS.items())
def test_a_filter_that_is_an_alias_is_refused(text: str, is_filter: bool) -> None:
    if is_filter:
        dialect.parsed(f"select * {text}")
        return
    with pytest.raises(Refused, match="alias of the table"):
        dialect.parsed(f"select * {text}")


def test_every_function_that_sqlglot_has_a_class_for_keeps_its_name() -> None:
    classes = SparkParser.FUNCTIONS.keys() | SparkParser.FUNCTION_PARSERS.keys()
    functions = spark_version.STABLE_FUNCTIONS | spark_version.CHANGING_FUNCTIONS
    names = sorted(classes & {name.upper() for name in functions})
    assert len(names) > 200
    texts = [text for name in names for text in (name, f"`{name.lower()}`")]
    special = SparkParser.NO_PAREN_FUNCTION_PARSERS.keys()
    arguments = {"EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM"}
    arguments |= {"AND", "OR", "CAST", "TRY_CAST"}
    for text in texts:
        name = text.strip("`")
        if name.upper() in arguments or (name == text and name in special):
            continue
        called = read(f"{text}(i)")
        assert isinstance(called, exp.Anonymous), text
        assert (dialect.name_of(called), called.expressions) == (name.lower(), [read("i")]), text
        assert isinstance(read(f"{text}()"), exp.Anonymous), text


@pytest.mark.parametrize("name", ["current_date", "current_user", "session_user", "date", "left"])
def test_a_function_without_brackets_may_be_a_column_and_the_words_stay(name: str) -> None:
    found = dialect.read(f"select {name}, t.{name}, {name}(i) as {name} from t")
    assert [type(node.unalias()) for node in found.tree.selects] == [
        *(exp.Column, exp.Column, exp.Anonymous),
    ]
    assert [token.text for token in found.tokens].count(name) == 4


READING_TABLES_OF_A_WORD = (
    "select id from {0}.{0} as t where id > 1",
    "with k as (select id from {0}.a) select k.id from k join main.{0} as b on k.id = b.id",
    "select t.id from {0}.{0} t, main.{0} u group by t.id order by 1 limit 2",
)


def keywords() -> list[str]:
    """Return the keywords of Spark's grammar and of the parser."""
    [jar] = (installed_pyspark() / "jars").glob("spark-sql-api_*.jar")
    with zipfile.ZipFile(jar) as content:
        lexer = content.read("org/apache/spark/sql/catalyst/parser/SqlBaseLexer.class")
    found = {word.decode().lower() for word in re.findall(rb"'([A-Z_]+)'", lexer)}
    assert {"select", "cluster", "tablesample"} < found
    found |= {word.lower() for words in Spark.Tokenizer.KEYWORDS for word in words.split()}
    return sorted(word for word in found if re.fullmatch(r"[a-z_]\w*", word))


def test_a_schema_and_a_table_may_have_the_name_of_any_keyword() -> None:
    misread = set()
    for word in keywords():
        for text in READING_TABLES_OF_A_WORD:
            sql = text.format(accepted(word))
            named = re.findall(r"\b(\w+)\.(\w+)\b", text.format(word))
            tables = {pair for pair in named if pair[1] != "id"}
            parsed = dialect.parsed(sql).find_all(exp.Table)
            if {(one.db, one.name) for one in parsed if one.db} != tables:
                misread.add(word)
            if {tuple(name.split(".")) for name in relations_in(sql)} != tables:
                misread.add(word)
    assert misread == set()
