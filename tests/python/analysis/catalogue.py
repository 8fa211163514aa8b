"""The forms of SQL and how runs follow them, as data: the page `docs/forms.md` is made of it.

The rules themselves are in `scripts/headwaters/analysis`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headwaters.analysis.relations import Input

How = Literal["changed rows", "affected keys", "traced keys", "hidden tables", "replaced"]


@dataclass(frozen=True)
class SqlForm:
    """A form of SQL: how `auto` follows the example, and the rule that proves it."""

    name: str
    how: How
    rule: str
    example: str


def _table(name: str, columns: dict[str, str], *key: str) -> Input:
    return Input(name, name, "", columns, [frozenset(key)] if key else [])


# The tables of the examples, with the columns that identify their rows.
TABLES = [
    _table(
        "orders",
        {
            **{"id": "int", "customer_id": "int", "placed": "date", "amount": "decimal(10,2)"},
            **{"status": "string", "tags": "array<string>", "details": "string"},
        },
        "id",
    ),
    _table(
        "items",
        {"order_id": "int", "line": "int", "sku": "string", "qty": "int"},
        "order_id",
        "line",
    ),
    _table("customers", {"id": "int", "name": "string", "region": "string"}, "id"),
    _table(
        "rates",
        {"region": "string", "since": "date", "until": "date", "rate": "int"},
        "region",
        "since",
    ),
    _table("returns", {"customer_id": "int", "status": "string"}),
]

FORMS: dict[str, list[SqlForm]] = {
    "Rows": [
        SqlForm(
            "select list, `where`",
            "changed rows",
            "A row of the result is made of one row of the input.",
            "select id, amount * 2 as twice from orders where status = 'paid'",
        ),
        SqlForm(
            "pipe syntax: `where`, `select`, `extend`, `drop`, `aggregate`, `join`, `as`, …",
            "changed rows",
            "Each operator is a query that reads the one before, and is followed as that.",
            "from orders |> where amount > 1 |> extend amount * 2 as twice |> select id, twice",
        ),
        SqlForm(
            '`>>>`, `<<`, `>>`, `!>`, `X"1F"`, variant paths `v:a.b[0]`',
            "changed rows",
            "They are functions and operators of one row, such as `variant_get`.",
            "select id, customer_id >>> 2 as bucket, parse_json(details):shop.id::int as shop"
            " from orders",
        ),
        SqlForm(
            "`explode` in a select list, `lateral view`",
            "changed rows",
            "The rows that a generator makes belong to one row of the input.",
            "select id, explode(tags) as tag from orders",
        ),
        SqlForm(
            "`unpivot`",
            "changed rows",
            "It makes one row of each named column of a row.",
            "select * from (select id, order_id, qty from (select order_id as id, order_id, qty"
            " from items)) unpivot (v for n in (order_id, qty))",
        ),
        SqlForm(
            "`union all`",
            "affected keys",
            "The branches have the key in the same column.",
            "select customer_id, status from orders union all"
            " select customer_id, status from returns",
        ),
    ],
    "Joins": [
        SqlForm(
            "`left join` by columns",
            "affected keys",
            "A changed row of the other side leads to the rows that it equals.",
            "select o.id, c.name from orders o left join customers c on c.id = o.customer_id",
        ),
        SqlForm(
            "`a = b or (a is null and b is null)`",
            "affected keys",
            "It is `a <=> b`.",
            "select r.status, c.name from returns r left join customers c"
            " on r.status = c.region or (r.status is null and c.region is null)",
        ),
        SqlForm(
            "`coalesce(a, '') = coalesce(b, '')`, `upper(trim(a)) = upper(trim(b))`",
            "traced keys",
            "The lead joins changed rows by the same condition, if it fails for no row.",
            "select r.customer_id, c.name from returns r left join customers c"
            " on upper(trim(r.status)) = upper(trim(c.region))",
        ),
        SqlForm(
            "ranges, `or` of equalities",
            "traced keys",
            "The same. Without an equality, the lead compares each changed row with all rows.",
            "select o.id, r.rate from orders o left join rates r"
            " on o.placed >= r.since and o.placed < r.until",
        ),
        SqlForm(
            "a kept list: constants, `values` or `sequence` with `left join`",
            "traced keys",
            "A kept row depends on the rows that its column equals, also by a computed value.",
            "select d.day, count(o.id) as n from (select explode(sequence(date'2026-01-01',"
            " date'2026-12-31', interval 1 day)) as day) d left join orders o on o.placed = d.day"
            " group by d.day",
        ),
        SqlForm(
            "a text equated with a number, `cast(a as int) = b`",
            "traced keys",
            "Leads compare the digits of the text, and no cast fails.",
            "select o.id, i.qty from orders o join items i on i.sku = o.customer_id",
        ),
        SqlForm(
            "`like` with a pattern of the other side",
            "traced keys",
            "In leads a pattern with an escape, which may fail, takes every text.",
            "select o.id, c.name from orders o"
            " join customers c on c.name like concat(o.status, '%')",
        ),
        SqlForm(
            "the latest rows: `a = (select max(a) from t)`, a `join` with `max` or `min`",
            "traced keys",
            "A changed row has the value before or after, and the other is of a changed row or the"
            " largest of the rest.",
            "select id from orders where placed = (select max(placed) from orders)",
        ),
        SqlForm(
            "`(a, b) in (select …)`",
            "affected keys",
            "It is a semi join by these columns.",
            "select order_id, line from items where (order_id, qty) in"
            " (select order_id, max(qty) from items group by order_id)",
        ),
        SqlForm(
            "`exists` with `or`",
            "traced keys",
            "The lead compares each changed row of the subquery with the rows around it.",
            "select o.id from orders o where exists (select 1 from items i"
            " where i.order_id = o.id or i.qty = o.customer_id)",
        ),
    ],
    "Groups": [
        SqlForm(
            "`group by` columns, `having`, `count(distinct …)`",
            "affected keys",
            "A group consists of the rows of its key.",
            "select customer_id, count(distinct status) as n from orders group by customer_id",
        ),
        SqlForm(
            "a surrogate key: `md5(concat_ws(…))`, `md5(concat(coalesce(cast(…))))`",
            "traced keys",
            "Changed rows give the old and the new value of an expression of one row.",
            "select md5(concat_ws('-', customer_id, status)) as k, sum(amount) as s"
            " from orders group by 1",
        ),
        SqlForm(
            "structs of exact values, without floating point numbers and maps",
            "traced keys",
            "Structs are equal if their fields are, NULL included; a lead names the fields alike.",
            "select struct(customer_id, status) as k, count(*) as n from orders"
            " group by struct(customer_id, status)",
        ),
        SqlForm(
            "exploded tags",
            "traced keys",
            "Changed rows give their old and new tags.",
            "select tag, count(*) as n from (select explode(tags) as tag from orders) group by tag",
        ),
        SqlForm(
            "fields of JSON",
            "traced keys",
            "`get_json_object` fails for no text.",
            "select get_json_object(details, '$.shop') as shop, count(*) as n"
            " from orders group by 1",
        ),
        SqlForm(
            "months, buckets: `year(d) * 100 + month(d)`, `floor(n / 10) * 10`",
            "traced keys",
            "The bounds of the numbers prove that nothing overflows.",
            "select year(placed) * 100 + month(placed) as month, sum(amount) as s"
            " from orders group by 1",
        ),
        SqlForm(
            "`pivot`",
            "affected keys",
            "It groups by the columns that it does not name.",
            "select * from (select customer_id, status, amount from orders)"
            " pivot (sum(amount) for status in ('paid', 'open'))",
        ),
        SqlForm(
            "`grouping sets`, `group by a, rollup (b)`",
            "affected keys",
            "The columns that every set contains are the key.",
            "select customer_id, status, count(*) as n from orders"
            " group by customer_id, rollup (status)",
        ),
        SqlForm(
            "`except`, `intersect`, with `all` as well",
            "affected keys",
            "Rows that are equal have one key.",
            "select customer_id, status from orders except all"
            " select customer_id, status from returns",
        ),
    ],
    "Windows": [
        SqlForm(
            "`partition by` with a selected column, `qualify`",
            "affected keys",
            "A partition consists of rows of one key.",
            "select id, customer_id from orders"
            " qualify row_number() over (partition by customer_id order by placed desc, id) = 1",
        ),
        SqlForm(
            "`row_number` without other columns, as in dbt_utils' `date_spine`",
            "affected keys",
            "A partition of n rows has the numbers 1 to n in any order.",
            "select customer_id, row_number() over (partition by customer_id order by placed) as n"
            " from orders",
        ),
        SqlForm(
            "rows that tie, joined with other inputs",
            "traced keys",
            "The key has one value in each partition, so a run keeps a choice or makes it again.",
            "select o.status, o.id, c.name from (select status, id, row_number() over"
            " (partition by status order by placed) as n from orders) o"
            " left join customers c on upper(c.region) = upper(o.status) where o.n = 1",
        ),
        SqlForm(
            "the latest row of each key, grouped by other columns",
            "traced keys",
            "A row changes only with a row of its partition, so a lead joins these.",
            "select status, count(*) as n from (select status, row_number() over"
            " (partition by customer_id order by id desc) as n from orders) where n = 1"
            " group by status",
        ),
        SqlForm(
            "a share of a group",
            "traced keys",
            "The same.",
            "select id, amount / sum(amount) over (partition by customer_id) as share from orders",
        ),
        SqlForm(
            "a share or a rank among all groups",
            "hidden tables",
            "A hidden table keeps the groups, and the run computes the window from it.",
            "select status, sum(amount) / sum(sum(amount)) over () as share"
            " from orders group by status",
        ),
    ],
    "Totals": [
        SqlForm(
            "`sum`, `count`, `min`, `max` of all rows",
            "hidden tables",
            "A hidden table keeps the totals of parts: by a `date` column, or by a declared key of "
            "several columns without its last one. Without such columns the table is replaced.",
            "select sum(amount) as s, count(*) as n from orders",
        ),
        SqlForm(
            "`count(distinct …)`, `avg` of all rows",
            "hidden tables",
            "A hidden table keeps the distinct values, or sums and counts of parts.",
            "select count(distinct customer_id) as n from orders",
        ),
        SqlForm(
            "`limit` over groups",
            "hidden tables",
            "A hidden table keeps the groups, and the run takes the first of them.",
            "select customer_id, sum(amount) as s from orders group by customer_id"
            " order by s desc, customer_id limit 3",
        ),
        SqlForm(
            "`cube`, `rollup`, sets without a common column",
            "hidden tables",
            "A hidden table keeps the groups by all columns, and the run adds them up.",
            "select customer_id, status, sum(amount) as s from orders"
            " group by cube (customer_id, status)",
        ),
        SqlForm(
            "groups by a count",
            "hidden tables",
            "A hidden table keeps the counts.",
            "select n, count(*) as customers from (select customer_id, count(*) as n"
            " from orders group by customer_id) group by n",
        ),
        SqlForm(
            "cohorts by `min(at)`, retention: groups by a value of several rows",
            "hidden tables",
            "A hidden table keeps finer groups, by the customer as well, and the run adds them up.",
            "select f.first, count(distinct o.customer_id) as n from orders o join"
            " (select customer_id, min(placed) as first from orders group by customer_id) f"
            " on f.customer_id = o.customer_id group by f.first",
        ),
        SqlForm(
            "groups by an expression that may fail",
            "hidden tables",
            "The same, with finer groups by an equated column, a part of a key or a date as well.",
            "select customer_id * 10 as k, sum(amount) as s from orders group by 1",
        ),
    ],
    "Replaced": [
        SqlForm(
            "a share of a total, for each row",
            "replaced",
            "Each row of the input changes the total, and with it each row of the result.",
            "select id, amount / (select sum(amount) from orders) as share from orders",
        ),
        SqlForm(
            "ranks of all rows, `limit` without groups",
            "replaced",
            "Each row may move all others.",
            "select id, rank() over (order by amount desc) as place from orders",
        ),
        SqlForm(
            "`stddev`, `percentile`, `sum(distinct …)` of all rows",
            "replaced",
            "The totals of parts do not add up.",
            "select stddev(customer_id) as n from orders",
        ),
        SqlForm(
            "`with recursive`",
            "replaced",
            "A row depends on rows of any distance.",
            "with recursive r as (select order_id, line from items where line = 1 union all"
            " select i.order_id, i.line from items i join r on i.order_id = r.order_id"
            " and i.line = r.line + 1 where r.line < 9) select order_id, line from r",
        ),
        SqlForm(
            "the pipe operators `set` and `tablesample`, paths with backquotes, `table t`",
            "replaced",
            "The parser does not read them as Spark does.",
            "from orders |> set amount = amount * 2 |> select id, amount",
        ),
    ],
}

# A form that keeps some inputs followed, and reads the other as a lookup, counts as replaced when
# the lookup changes.
LOOKUPS: list[SqlForm] = [
    SqlForm(
        "`(a, b) not in (select …)`",
        "replaced",
        "A NULL in either column may affect every row: use `not exists`.",
        "select o.id from orders o where (o.customer_id, o.status) not in"
        " (select customer_id, status from returns)",
    ),
    SqlForm(
        "arithmetic that may overflow: `a.id = b.id - 1`",
        "replaced",
        "It may fail for rows that the query never compares.",
        "select i.order_id, o.status from items i left join orders o on o.id = i.order_id - 1",
    ),
]

_INTRODUCTION = """# Forms of SQL

For authors of models: the SQL that `auto` follows, how, and why.
The text is generated from `tests/python/analysis/catalogue.py`; a test derives each example.
[What is proven from the SQL](analysis.md) has the rules in full.

| a run computes | from |
|---|---|
| changed rows | the rows of the input that changed (`change_feed`) |
| affected keys | the rows of the keys of changed rows (`affected_keys`) |
| traced keys | the rows of the keys that a query, the *lead*, finds (`affected_keys`) |
| hidden tables | tables of parts, which it maintains by their keys (`staged`) |
| replaced | everything |

The examples read
"""


def page() -> str:
    """Return the page `docs/forms.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for table in TABLES:
        (key, *_) = [*table.unique, frozenset[str]()]
        columns = ", ".join(
            f"{name} {kind}{' *' if name in key else ''}" for name, kind in table.columns.items()
        )
        yield f"- `{table.name}({columns})`"
    yield ""
    yield "with the columns of their key marked by `*`."
    for title, forms in FORMS.items():
        yield from ("", f"## {title}", "")
        yield from _listed(forms)
    yield from ("", "## Lookups", "")
    yield "A run replaces the table when the second of these inputs changes, and follows the first."
    yield ""
    yield from _listed(LOOKUPS)


def _listed(forms: list[SqlForm]) -> Iterator[str]:
    yield "| SQL | a run computes | rule |"
    yield "|---|---|---|"
    for form in forms:
        example = form.example.replace("|", "\\|")
        yield f"| {form.name}<br>`{example}` | {form.how} | {form.rule} |"
