"""Return the rows of the test project's models: plain SQL over their inputs, for another engine.

DuckDB runs it, so that the tests share nothing with the engine. Columns are in the order of the
models' tables.
"""

from __future__ import annotations

_LATEST = """
    select id, moment, val, note from (
        select *, row_number() over (
            partition by id
            order by moment desc nulls last, val desc nulls last, note desc nulls last
        ) as place
        from events where val is not null
    ) where place = 1
"""

_LINEAR = """
    select id, grp, val * 2 as twice, (select rate from rates where rates.grp = items.grp) as rate
    from items where val < 50
"""

EXPECTED = {
    "linear": _LINEAR,
    "computed_key": "select upper(grp), id * 10, val from items where val is not null",
    # Delta keeps an empty text of a partition column as null
    "every_column": "select * replace (nullif(grp, '') as grp) from items",
    "latest": _LATEST,
    # `note` does not depend on `id` alone, so it breaks the promise of prune_by all the time
    "latest_pruned": _LATEST,
    "totals": "select grp, val > 20, count(*), sum(val), max(val) from items group by 1, 2",
    "people_totals": """
        select grp, name, count(id), sum(val) from items join people using (grp) group by 1, 2
    """,
    "named": """
        select id, val, (select name from people where people.grp = items.grp) from items
    """,
    "ranked": """
        select id, row_number() over place, val, val - lag(val) over place
        from events window place as (
            partition by id order by moment nulls first, val nulls first, note nulls first
        )
    """,
    "sums": """
        select id, events, total, quarters, total / events from (
            select id, count(*) as events, coalesce(sum(val), 0) as total,
                coalesce(sum(cast(val / 4 as decimal(9, 2))), 0) as quarters
            from events where coalesce(moment, 0) >= 0 group by id
        )
    """,
    **{
        # NULL is left out: Delta keeps an empty text of a partition column as null, too
        f"part_{kind}": f"""
            select nullif(grp, ''), {columns} from items where grp is not null group by 1
        """
        for kind, columns in {
            "totals": "count(*), sum(val)",
            "sums": "count(*), coalesce(sum(val), 0)",
        }.items()
    },
    "part_latest": """
        select nullif(grp, ''), id, val from items where grp is not null
        qualify row_number() over (
            partition by grp order by val desc nulls last, id desc nulls last
        ) = 1
    """,
    "marks": "select * from marks",
    "tag_totals": "select tag, count(*), sum(val) from marks group by tag",
    "tag_latest": """
        select tag, id, val from marks qualify row_number() over (
            partition by tag order by val desc nulls last, id desc nulls last
        ) = 1
    """,
    "code_totals": "select code, count(*), sum(val) from marks group by code",
    "code_sums": "select code, count(*), coalesce(sum(val), 0) from marks group by code",
    "moment_totals": "select moment, count(*), sum(val) from marks group by moment",
    "chained_totals": f"select grp, count(*), sum(twice) from ({_LINEAR}) group by grp",
    "chained_sums": f"select moment, count(*), sum(val) from ({_LATEST}) group by moment",
    "chained_copy": """
        select grp, val > 20, sum(val) from items group by 1, 2 having count(*) > 1
    """,
    "auto_rows": "select id, upper(grp), val * 2 from items where val < 50",
    "auto_totals": "select grp, count(*), sum(val), max(val) from items group by grp",
    "auto_named": """
        select id, val, (select name from people where people.grp = items.grp) from items
    """,
    "auto_people": "select name, count(*), sum(val) from items join people using (grp) group by 1",
    "auto_far": """
        select name, count(*), sum(events.val) from events join items using (id)
        join people using (grp) group by 1
    """,
    "auto_first": """
        select id, val from events qualify row_number() over (
            partition by id order by moment nulls first, val nulls first, note nulls first
        ) = 1
    """,
    "auto_groups": "select grp from items union select grp from people",
    "auto_most": "select max(val), count(*) from items",
    "auto_shares": "select grp, count(*), sum(count(*)) over () from items group by grp",
    "auto_through_view": """
        select grp, val > 20, count(*) from items where val is not null group by 1, 2
    """,
    "auto_unlisted": """
        select val % 3, count(*), sum(val) from items where grp not in (select grp from people)
        group by 1
    """,
    "auto_copies": "select grp, val from items",
    "auto_sizes": """
        select n, count(*) from (select count(*) as n from items group by grp) group by n
    """,
    "auto_sums": "select sum(val), count(*), max(name) from items join people using (grp)",
    "auto_places": """
        with q as (select id, sum(val) as total from events group by id)
        select total, val, rank() over (order by total desc nulls last)
        from q left join items using (id) where total >= (select min(total) from q)
    """,
    "high_or_low": "select grp, val from items where val is not null",
    # the feed has the periods and the rows do not: the same model, fully refreshed each time
    "tracked": "select * from model.tracked_anew",
    "tracked_anew": "select * from model.tracked",
}
