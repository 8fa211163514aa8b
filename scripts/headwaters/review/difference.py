"""How the rows of two tables differ: the SQL that counts and shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.review.facts import Difference, Example
from headwaters.sql import identifier

# Examples of one table, of each kind of difference, and characters of a value.
EXAMPLES, OF_A_KIND, LONGEST = 20, 8, 200


@dataclass(frozen=True)
class Pair:
    """Two tables to compare: names, columns with types, and the key, empty where there is none."""

    before: str
    after: str
    columns_before: Mapping[str, str]
    columns_after: Mapping[str, str]
    key: tuple[str, ...]
    masked: frozenset[str] = frozenset()

    @property
    def common(self) -> list[str]:
        """Columns of both, by the names that the branch gives them."""
        known = {name.lower() for name in self.columns_before}
        return [name for name in self.columns_after if name.lower() in known]

    @property
    def has_key(self) -> bool:
        """Whether both tables have the columns of the key."""
        common = {name.lower() for name in self.common}
        return bool(self.key) and all(name.lower() in common for name in self.key)

    @property
    def rest(self) -> list[str]:
        """The common columns that are not of the key."""
        key = {name.lower() for name in self.key}
        return [name for name in self.common if name.lower() not in key]

    def types(self, name: str) -> tuple[str, str]:
        """The types of a common column, before and after."""
        before = {column.lower(): kind for column, kind in self.columns_before.items()}
        return before[name.lower()], self.columns_after[name]


def repeated_keys_sql(pair: Pair) -> str:
    """One row: how many rows of either table have the key of another one."""
    key = f"struct({', '.join(map(identifier, pair.key))})"
    parts = [
        f"(select count(*) - count(distinct {key}) from {table}) as {name}"
        for name, table in (("before", pair.before), ("after", pair.after))
    ]
    return f"select {', '.join(parts)}"


def counts_by_key_sql(pair: Pair) -> str:
    """One row: rows_before, rows_after, added, removed, changed, and `c0`… for `rest`."""
    both = "b.hw_here and h.hw_here"
    differs = [f"not ({_equal(pair, name)})" for name in pair.rest]
    counts = [
        "count(b.hw_here) as rows_before",
        "count(h.hw_here) as rows_after",
        "count_if(b.hw_here is null) as added",
        "count_if(h.hw_here is null) as removed",
        f"count_if({both} and ({' or '.join(differs) or 'false'})) as changed",
        *(f"count_if({both} and {one}) as c{n}" for n, one in enumerate(differs)),
    ]
    return f"select {', '.join(counts)} from {_joined(pair)}"


def counts_of_multisets_sql(pair: Pair) -> str:
    """One row: rows_before, rows_after, added, removed."""
    after, before = _rows(pair, pair.after), _rows(pair, pair.before)
    return (
        f"select (select count(*) from {pair.before}) as rows_before,"
        f" (select count(*) from {pair.after}) as rows_after,"
        f" (select count(*) from ({after} except all {before})) as added,"
        f" (select count(*) from ({before} except all {after})) as removed"
    )


def examples_by_key_sql(pair: Pair) -> str:
    """Rows `hw_change`, and `k0`… of the key, `b0`… and `h0`… of `rest`, as texts."""
    differs = " or ".join(f"not ({_equal(pair, name)})" for name in pair.rest) or "false"
    shown = [
        *(
            f"{_text(f'coalesce(h.{identifier(n)}, b.{identifier(n)})', pair, n)} as k{i}"
            if pair.types(n)[0] == pair.types(n)[1]
            else f"coalesce({_text(f'h.{identifier(n)}', pair, n)},"
            f" {_text(f'b.{identifier(n)}', pair, n)}) as k{i}"
            for i, n in enumerate(pair.key)
        ),
        *(
            f"{_text(f'{side}.{identifier(n)}', pair, n)} as {side}{i}"
            for i, n in enumerate(pair.rest)
            for side in ("b", "h")
        ),
        *(f"not ({_equal(pair, n)}) as d{i}" for i, n in enumerate(pair.rest)),
    ]
    kind = (
        "case when b.hw_here is null then 'added' when h.hw_here is null then 'removed'"
        " else 'changed' end"
    )
    order = ", ".join(f"k{i}" for i in range(len(pair.key)))
    return (
        f"select * from (select *, row_number() over (partition by hw_change order by {order})"
        f" as hw_place from (select {kind} as hw_change, {', '.join(shown)}"
        f" from {_joined(pair)} where b.hw_here is null or h.hw_here is null or {differs}))"
        f" where hw_place <= {OF_A_KIND} order by hw_change desc, hw_place limit {EXAMPLES}"
    )


def examples_of_multisets_sql(pair: Pair) -> str:
    """Rows `hw_change` and `c0`… of the common columns, as texts."""
    after, before = _rows(pair, pair.after), _rows(pair, pair.before)
    shown = ", ".join(f"{_text(identifier(n), pair, n)} as c{i}" for i, n in enumerate(pair.common))
    parts = [
        f"(select '{kind}' as hw_change, {shown} from ({one} except all {other})"
        f" limit {EXAMPLES // 2})"
        for kind, one, other in (("added", after, before), ("removed", before, after))
    ]
    return " union all ".join(parts)


def of_counts(
    pair: Pair, row: Mapping[str, Any], by_key: bool, why_no_examples: str | None
) -> tuple[Difference, dict[str, int]]:
    """What a row of counts says, and in how many rows each column differs."""
    changed = int(row["changed"]) if by_key else 0
    found = Difference(
        rows_before=int(row["rows_before"]),
        rows_after=int(row["rows_after"]),
        added=int(row["added"]),
        removed=int(row["removed"]),
        changed=changed,
        by_key=by_key,
        extent="all",
        why_no_examples=why_no_examples,
    )
    counts = {name: int(row[f"c{n}"]) for n, name in enumerate(pair.rest)} if by_key else {}
    return found, counts


def of_examples(pair: Pair, rows: Iterable[Mapping[str, Any]], by_key: bool) -> tuple[Example, ...]:
    """Rows of examples; masked values are None."""
    return tuple(_by_key(pair, row) if by_key else _whole(pair, row) for row in rows)


def _by_key(pair: Pair, row: Mapping[str, Any]) -> Example:
    change = row["hw_change"]
    told = [(n, name) for n, name in enumerate(pair.rest) if change != "changed" or row[f"d{n}"]]
    before = {name: row[f"b{n}"] for n, name in told} if change != "added" else {}
    after = {name: row[f"h{n}"] for n, name in told} if change != "removed" else {}
    return Example(change, {name: row[f"k{n}"] for n, name in enumerate(pair.key)}, before, after)


def _whole(pair: Pair, row: Mapping[str, Any]) -> Example:
    values = {name: row[f"c{n}"] for n, name in enumerate(pair.common)}
    is_added = row["hw_change"] == "added"
    return Example(row["hw_change"], {}, {} if is_added else values, values if is_added else {})


def _joined(pair: Pair) -> str:
    # a key's own types may differ; Spark then compares what both can be cast to
    condition = " and ".join(_equal(pair, name) for name in pair.key)
    return (
        f"(select *, true as hw_here from {pair.before}) as b full outer join"
        f" (select *, true as hw_here from {pair.after}) as h on {condition}"
    )


def _rows(pair: Pair, table: str) -> str:
    return f"select {', '.join(_values(pair, pair.common))} from {table}"


def _values(pair: Pair, names: Sequence[str]) -> list[str]:
    """Columns as both sides can be compared, under their names."""
    return [f"{_comparable(identifier(n), pair, n)} as {identifier(n)}" for n in names]


def _equal(pair: Pair, name: str) -> str:
    one, other = (_comparable(f"{side}.{identifier(name)}", pair, name) for side in ("b", "h"))
    return f"{one} <=> {other}"


def _comparable(value: str, pair: Pair, name: str) -> str:
    before, after = pair.types(name)
    if before != after:
        return f"cast({value} as string)"
    if "map<" in after or "variant" in after:
        return f"to_json({value})"
    return value


def _text(value: str, pair: Pair, name: str) -> str:
    """A value as it is shown; nothing of it leaves Spark where its column is masked."""
    if name.lower() in pair.masked:
        return "cast(null as string)"
    kinds = pair.types(name)
    if any(kind.startswith(("struct<", "map<", "array<", "variant")) for kind in kinds):
        return f"substr(to_json({value}), 1, {LONGEST})"
    if "binary" in kinds:
        return f"substr(hex({value}), 1, {LONGEST})"
    return f"substr(cast({value} as string), 1, {LONGEST})"
