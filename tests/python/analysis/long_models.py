"""Time the analysis of long models like those of dbt projects.

`python -m analysis.long_models` prints the processor time of each, the least of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from headwaters.analysis import dialect
from headwaters.analysis.derive import Question, derive
from headwaters.analysis.relations import Input

A = Input(
    "a",
    "a",
    "",
    {"id": "int", "grp": "string", "val": "int", "amount": "decimal(10,2)", "at": "timestamp"},
    [frozenset(["id", "grp"])],
)
B = Input(
    "b",
    "b",
    "",
    {"id": "int", "grp": "string", "val": "int", "name": "string"},
    [frozenset(["id"])],
)
WIDE = Input(
    "w",
    "w",
    "",
    {"id": "int"} | {f"v{n}": "decimal(10,2)" for n in range(600)},
    [frozenset(["id"])],
)
INPUTS = [A, B]


def steps(lines: int) -> tuple[str, str]:
    """Return common table expressions, each over the one before it, and the name of the last."""
    parts = ["s0 as (\n    select * from a\n)"]
    while sum(part.count("\n") + 1 for part in parts) < lines - 4:
        n = len(parts)
        p = f"s{n - 1}"
        joined = (
            f"s{n} as (\n    select\n        {p}.id,\n        {p}.grp,\n        {p}.val,\n"
            f"        {p}.amount,\n        {p}.at\n    from {p}\n    left join b on {p}.id = b.id\n"
            f"    where {p}.val > {n} or b.val is null\n)"
        )
        row_wise = (
            f"s{n} as (\n    select\n        id,\n        grp,\n        val,\n        amount,\n"
            f"        case\n            when val > {n} then at\n        end as at\n    from {p}\n)"
        )
        parts.append(row_wise if n % 3 else joined)
    return "with " + ",\n".join(parts), f"s{len(parts) - 1}"


def union(lines: int) -> str:
    """Return a union of branches."""
    branch = (
        "select\n    a.id,\n    a.grp,\n    a.val + {n} as val,\n    b.name\nfrom a\n"
        "join b on a.id = b.id\nwhere\n    a.val > {n}\n    and b.val < {n}"
    )
    return "\nunion all\n".join(branch.format(n=n) for n in range(lines // 11))


def wide(lines: int) -> str:
    """Return a query with a column on each line."""
    columns = ",\n".join(f"    coalesce(v{n}, 0) * {n} as c{n}" for n in range(lines - 3))
    return f"select\n    id,\n{columns}\nfrom w\nwhere v1 > 0"


def aggregates(lines: int) -> str:
    """Return a query with an aggregate of all rows on each line."""
    columns = ",\n".join(
        f"    sum(case when id > {n} then v{n} else 0 end) as c{n}" for n in range(lines - 2)
    )
    return f"select\n{columns}\nfrom w"


def cut_groups(lines: int) -> str:
    """Return groups of several queries, compared with totals of one another."""
    parts = []
    for n in range(lines // 16):
        parts.append(
            f"g{n} as (\n    select\n        a.id,\n        sum(a.amount) as total,\n"
            f"        count(*) as many\n    from a\n    join b on a.id = b.id\n"
            f"    where a.val > {n}\n    group by a.id\n),\nt{n} as (\n    select\n"
            f"        id,\n        total,\n        rank() over (order by total desc) as place\n"
            f"    from g{n}\n)"
        )
    last = "\nunion all\n".join(f"select * from t{n}" for n in range(lines // 16))
    return "with " + ",\n".join(parts) + "\n" + last


def models(lines: int) -> Iterator[tuple[str, str, Sequence[Input]]]:
    """Return models of each kind with about this many lines."""
    before, last = steps(lines)
    group = f"select id, sum(val) as v\nfrom {last}\ngroup by id"
    ends = {
        "keyed": f"select id, grp, sum(val) as v\nfrom {last}\ngroup by id, grp",
        "traced in vain": f"select sum(val) over (order by id, grp) as v, id\nfrom {last}",
        "cut groups": f"select v, count(*) as n from ({group}) as q group by v",
        "cut total": f"select sum(val) as v, count(*) as n\nfrom {last}",
        "cut average": f"select avg(val) as v, count(*) as n\nfrom {last}",
        "cut deviation": f"select stddev(val) as v, count(*) as n\nfrom {last}",
    }
    for kind, end in ends.items():
        yield kind, f"{before}\n{end}", INPUTS
    yield "union", union(lines), INPUTS
    yield "cut union", f"select sum(q.val) as v from (\n{union(lines)}\n) as q", INPUTS
    yield "many cuts", cut_groups(lines), INPUTS
    yield "wide", wide(lines), [WIDE]
    yield "wide total", aggregates(lines), [WIDE]


def milliseconds(sql: str, inputs: Sequence[Input], rounds: int = 5) -> tuple[float, float, str]:
    """Return the processor time of the analysis and of one parse, and the strategy."""
    analysed, read, strategy = [], [], ""
    for _ in range(rounds):
        began = time.process_time()
        strategy = derive(Question(sql, inputs)).strategy
        analysed.append(time.process_time() - began)
        began = time.process_time()
        dialect.parsed(sql)
        read.append(time.process_time() - began)
    return min(analysed) * 1000, min(read) * 1000, strategy


def main() -> None:
    for lines in (100, 300, 600):
        for kind, sql, inputs in models(lines):
            analysed, read, strategy = milliseconds(sql, inputs)
            print(
                f"{kind:15} {sql.count(chr(10)) + 1:4} lines {analysed:6.0f} ms,"
                f" one parse {read:4.0f}  {strategy}",
                flush=True,
            )


if __name__ == "__main__":
    main()
