"""The SQL that finds, counts and shows the differing rows of two tables. Pure.

One scan of both tables finds the differing rows and stages them. Counts, examples and the patch
that turns a clone of one table into the other come from the staging table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.platform.sql import identifier
from headwaters.review.facts import Difference, Example
from headwaters.review.traced_columns import is_masked

# Examples a table, examples a kind of difference, and characters a value.
EXAMPLES, OF_A_KIND, LONGEST = 20, 8, 200
# Examples are chosen from this many kinds of differences, the most frequent ones.
KINDS = 10_000


NESTED = ("struct<", "map<", "array<", "variant")
# Numeric types that Spark compares without loss.
_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal(")
# Floating-point types with the relative difference that another order of adding explains, and the
# digits that it leaves. A cent of 100,000,000 is no such difference of a double.
_ROUNDED = {"double": ("1e-12D", 11), "float": ("1e-6D", 5)}
# The longest prefix of two texts is found in steps of these lengths.
_STEPS = ", ".join(str(2**power) for power in range(30, -1, -1))
SHOWN_BEFORE = 40  # equal characters that are shown before the first different one


@dataclass(frozen=True)
class Pair:
    """Two tables to compare: names, columns with types, and the key, empty if there is none.

    Of `one_of` keys one is compared; 1 compares all.
    """

    before: str
    after: str
    columns_before: Mapping[str, str]
    columns_after: Mapping[str, str]
    key: tuple[str, ...]
    masked: frozenset[str] = frozenset()
    one_of: int = 1

    @property
    def common(self) -> list[str]:
        """Return the columns of both tables, by the branch's names."""
        known = {name.lower() for name in self.columns_before}
        return [name for name in self.columns_after if name.lower() in known]

    @property
    def has_key(self) -> bool:
        """Return true if both tables have the columns of the key."""
        common = {name.lower() for name in self.common}
        return bool(self.key) and all(name.lower() in common for name in self.key)

    @property
    def rest(self) -> list[str]:
        """Return the common columns outside the key."""
        key = {name.lower() for name in self.key}
        return [name for name in self.common if name.lower() not in key]

    def types(self, name: str) -> tuple[str, str]:
        """Return the types of a common column, before and after."""
        before = {column.lower(): kind for column, kind in self.columns_before.items()}
        return before[name.lower()], self.columns_after[name]


def repeated_keys_sql(pair: Pair) -> str:
    """Return SQL that counts the rows of either table that repeat a key."""
    key = f"struct({', '.join(map(identifier, pair.key))})"
    parts = [
        f"(select count(*) - count(distinct {key}) from {table}) as {name}"
        for name, table in (("before", pair.before), ("after", pair.after))
    ]
    return f"select {', '.join(parts)}"


def differing_by_key_sql(pair: Pair) -> str:
    """Return SQL of the differing rows, with their kind `hw_change`.

    `k0`… are the key, `b0`… and `h0`… the columns of `rest` before and after. `d0`… are true for
    columns that differ in more than the last digits of a floating-point number. Rows without such a
    column are `rounded`.
    """
    differs = [f"not ({_equal(pair, name)})" for name in pair.rest]
    beyond = [
        one + _more_than_rounded(pair, name) for name, one in zip(pair.rest, differs, strict=True)
    ]
    columns = [
        "case when b.hw_here is null then 'added' when h.hw_here is null then 'removed'"
        f" when {' or '.join(beyond) or 'false'} then 'changed' else 'rounded' end as hw_change",
        *(f"{_key_of(pair, name)} as k{n}" for n, name in enumerate(pair.key)),
        *(
            f"{side}.{identifier(name)} as {side}{n}"
            for n, name in enumerate(pair.rest)
            for side in ("b", "h")
        ),
        *(f"{one} as d{n}" for n, one in enumerate(beyond)),
    ]
    return (
        f"select {', '.join(columns)} from {_joined(pair)}"
        f" where b.hw_here is null or h.hw_here is null or {' or '.join(differs) or 'false'}"
    )


def differing_multisets_sql(pair: Pair) -> str:
    """Return SQL of the differing rows: `hw_change`, their number `hw_n`, and `c0`… of `common`.

    It reads each table once, and counts the rows of one as 1 and those of the other as -1.
    """
    names = [f"c{n}" for n in range(len(pair.common))]
    values = [
        f"{_comparable(identifier(name), pair, name)} as {alias}"
        for name, alias in zip(pair.common, names, strict=True)
    ]
    parts = [
        f"select {weight} as hw_n, {', '.join(values)} from {_some(pair, table, pair.common)}"
        for weight, table in ((1, pair.after), (-1, pair.before))
    ]
    return (
        f"select if(hw_n > 0, 'added', 'removed') as hw_change, abs(hw_n) as hw_n,"
        f" {', '.join(names)} from (select sum(hw_n) as hw_n, {', '.join(names)}"
        f" from ({' union all '.join(parts)}) group by {', '.join(names)}) where hw_n <> 0"
    )


def digests_sql(pair: Pair) -> str:
    """Return SQL with a row of hash sums for each table, equal if the rows are; no shuffle.

    Equal rows that are stored in two ways (0.0 and -0.0) have different sums.
    """
    # hash functions ignore NULL, also inside arrays and structs
    values = [
        f"to_json({identifier(name)})"
        if pair.types(name)[1].startswith(NESTED)
        else _comparable(identifier(name), pair, name)
        for name in pair.common
    ]
    parts = [part for value in values for part in (value, f"{value} is null")]
    digest = f"sum(cast(xxhash64({', '.join(parts)}) as decimal(38, 0)))"
    tables = (_some(pair, table, pair.common) for table in (pair.before, pair.after))
    return " union all ".join(
        f"select count(*) as hw_n, coalesce({digest}, 0) as hw_sum from {table}" for table in tables
    )


def counts_sql(pair: Pair, staged: str, by_key: bool) -> str:
    """Return SQL that counts the staged rows of each kind, and `c0`… of `rest`."""
    if not by_key:
        return (
            "select coalesce(sum(greatest(added - removed, 0)), 0) as added,"
            " coalesce(sum(greatest(removed - added, 0)), 0) as removed, 0 as changed,"
            f" coalesce(sum(least(added, removed)), 0) as rounded from {_paired(pair, staged)}"
        )
    kinds = ("added", "removed", "changed", "rounded")
    counts = [f"count_if(hw_change = '{kind}') as {kind}" for kind in kinds]
    counts += [f"count_if(hw_change = 'changed' and d{n}) as c{n}" for n in range(len(pair.rest))]
    return f"select {', '.join(counts)} from {staged}"


def unequal_rows_sql(pair: Pair) -> str:
    """Return SQL that counts the rows of both tables that differ, compared as multisets."""
    counts = counts_sql(pair, f"({differing_multisets_sql(pair)})", by_key=False)
    return f"select added + removed from ({counts})"


def _paired(pair: Pair, staged: str) -> str:
    """Return a query of rows that are equal but for last digits: how many are added and removed."""
    sums = ", ".join(
        f"sum(if(hw_change = '{kind}', hw_n, 0)) as {kind}" for kind in ("added", "removed")
    )
    keys = ", ".join(_without_last_digits(pair))
    return f"(select {sums} from {staged} group by {keys})"


def _without_last_digits(pair: Pair) -> list[str]:
    """Return `c0`… with fewer digits of floating-point numbers."""
    return [
        f"format_string('%.{_ROUNDED[kind][1]}e', cast(c{n} as double))"
        if (kind := _floating(pair, name))
        else f"c{n}"
        for n, name in enumerate(pair.common)
    ]


@dataclass(frozen=True)
class Alike:
    """A kind of differing rows: one `change`, in the same columns of `rest`.

    `columns` has a digit for each column, 1 if it differs; it is empty for added and removed rows.
    """

    change: str
    columns: str
    rows: int


def kinds_sql(pair: Pair, staged: str) -> str:
    """Return SQL with `hw_change`, `hw_columns` and `hw_n` of `Alike`, the most frequent first."""
    return (
        f"select hw_change, {_columns_that_differ(pair)} as hw_columns, count(*) as hw_n"
        f" from {staged} where hw_change <> 'rounded' group by 1, 2"
        f" order by hw_n desc, hw_change desc, hw_columns limit {KINDS}"
    )


def _columns_that_differ(pair: Pair) -> str:
    digits = ", ".join(["''", *(f"if(d{n}, '1', '0')" for n in range(len(pair.rest)))])
    return f"if(hw_change = 'changed', concat({digits}), '')"


def telling(kinds: Sequence[Alike]) -> dict[Alike, int]:
    """Choose how many rows of each kind to show: all changes and columns, then frequent kinds.

    `kinds` come with the most frequent first. The result is in display order.
    """
    covered: set[str | int] = set()
    needed: list[Alike] = []
    for kind in kinds:
        differs = {n for n, digit in enumerate(kind.columns) if digit == "1"}
        tells: set[str | int] = {kind.change, *differs}
        if not tells <= covered:
            needed.append(kind)
            covered |= tells
    others = [kind for kind in kinds if kind not in needed]
    chosen = dict.fromkeys([*needed, *others][:EXAMPLES], 1)
    for _ in range(1, OF_A_KIND):
        for kind in sorted(chosen, key=lambda one: -one.rows):
            if sum(chosen.values()) < EXAMPLES and chosen[kind] < kind.rows:
                chosen[kind] += 1
    return chosen


def examples_by_key_sql(pair: Pair, staged: str, chosen: Mapping[Alike, int]) -> str:
    """Return SQL of examples: `hw_change`, `k0`… of the key, `b0`… and `h0`… as text, and `d0`….

    Texts that differ late begin shortly before their first difference: `s0`… equal characters are
    left out. One example of each kind comes first, in the order of kinds, then the others.
    """
    texts = [
        *(
            f"{_text(f'k{i}', _common_type(pair, n), pair, n)} as k{i}"
            for i, n in enumerate(pair.key)
        ),
        *(
            f"{_text(f'{side}{i}', kind, pair, n)} as {side}{i}"
            for i, n in enumerate(pair.rest)
            for side, kind in zip("bh", pair.types(n), strict=True)
        ),
        *(f"d{i}" for i in range(len(pair.rest))),
    ]
    numbers = range(len(pair.rest))
    starts = [f"{_left_out(f'b{i}', f'h{i}')} as s{i}" for i in numbers]
    cut = [
        *(f"substr(k{i}, 1, {LONGEST}) as k{i}" for i in range(len(pair.key))),
        *(f"substr({side}{i}, s{i} + 1, {LONGEST}) as {side}{i}" for i in numbers for side in "bh"),
        *(f"{name}{i}" for i in numbers for name in "ds"),
    ]
    kinds = ", ".join(
        f"({place}, '{kind.change}', '{kind.columns}', {count})"
        for place, (kind, count) in enumerate(chosen.items())
    )
    order = ", ".join(f"k{i}" for i in range(len(pair.key)))
    # ordered by the keys themselves: as texts, 12 would follow 116
    rows = (
        f"select *, row_number() over (partition by hw_kind order by {order}) as hw_place"
        f" from (select *, {_columns_that_differ(pair)} as hw_columns from {staged})"
        f" join values {kinds} as kinds(hw_kind, hw_change, hw_columns, hw_most)"
        " using (hw_change, hw_columns)"
    )
    found = (
        f"select hw_change, hw_place, hw_kind, {', '.join(texts)} from ({rows})"
        " where hw_place <= hw_most"
    )
    return (
        f"select hw_change, {', '.join(cut)} from"
        f" (select {', '.join(['*', *starts])} from ({found})) order by hw_place, hw_kind"
    )


def _left_out(one: str, other: str) -> str:
    """Return SQL of the number of characters to leave out of two texts, which both begin with."""
    equal = (
        f"aggregate(array({_STEPS}), 0, (n, step) -> if(n + step <= least(length({one}),"
        f" length({other})) and substr({one}, n + 1, step) = substr({other}, n + 1, step),"
        " n + step, n))"
    )
    late = f"{equal} > {LONGEST - SHOWN_BEFORE}"
    return f"coalesce(if({late}, {equal} - {SHOWN_BEFORE}, 0), 0)"


def examples_of_multisets_sql(pair: Pair, staged: str) -> str:
    """Return SQL of examples, `hw_change` and `c0`… as text, the most frequent rows first."""
    names = ", ".join(f"c{i}" for i in range(len(pair.common)))
    texts = (
        _text(f"c{i}", "string" if _is_text(pair, n) else pair.types(n)[1], pair, n)
        for i, n in enumerate(pair.common)
    )
    shown = ", ".join(f"substr({text}, 1, {LONGEST}) as c{i}" for i, text in enumerate(texts))
    net = (
        "sum(if(hw_change = 'added', hw_n, -hw_n)) over"
        f" (partition by {', '.join(_without_last_digits(pair))}) as hw_net"
    )
    return (
        f"select hw_change, {shown}, hw_place from (select *, row_number() over"
        f" (partition by hw_change order by hw_n desc, {names}) as hw_place"
        f" from (select *, {net} from {staged}) where hw_net <> 0)"
        f" where hw_place <= {EXAMPLES // 2} order by hw_place, hw_change desc"
    )


def patch_sql(pair: Pair, table: str, staged: str) -> str:
    """Return SQL that gives a table with the rows of `before` those of `after`.

    Both have the same columns.
    """
    names = {name.lower(): f"k{n}" for n, name in enumerate(pair.key)}
    names |= {name.lower(): f"h{n}" for n, name in enumerate(pair.rest)}
    columns = [f"{names[name.lower()]} as {identifier(name)}" for name in pair.columns_after]
    keys = " and ".join(f"t.{identifier(n)} <=> s.{identifier(n)}" for n in pair.key)
    return (
        f"merge into {table} as t using (select hw_change, {', '.join(columns)} from {staged}) as s"
        f" on {keys} when matched and s.hw_change = 'removed' then delete"
        " when matched then update set * when not matched then insert *"
    )


def of_counts(
    pair: Pair,
    row: Mapping[str, Any],
    rows: Sequence[int],
    by_key: bool,
    why_no_examples: str | None,
) -> tuple[Difference, dict[str, int]]:
    """Parse a row of counts into a difference, and the number of differing rows by column.

    `rows` are the sizes of both whole tables, also if only a sample was compared.
    """
    found = Difference(
        rows_before=rows[0],
        rows_after=rows[1],
        added=int(row["added"]),
        removed=int(row["removed"]),
        changed=int(row["changed"]),
        rounded=int(row["rounded"]),
        by_key=by_key,
        extent="all" if pair.one_of == 1 else "sample",
        why_no_examples=why_no_examples,
    )
    counts = {name: int(row[f"c{n}"]) for n, name in enumerate(pair.rest)} if by_key else {}
    return found, counts


def of_examples(pair: Pair, rows: Iterable[Mapping[str, Any]], by_key: bool) -> tuple[Example, ...]:
    """Parse the rows of examples; masked values are None."""
    return tuple(_by_key(pair, row) if by_key else _whole(pair, row) for row in rows)


def _by_key(pair: Pair, row: Mapping[str, Any]) -> Example:
    change = row["hw_change"]
    told = [(n, name) for n, name in enumerate(pair.rest) if change != "changed" or row[f"d{n}"]]
    before = {name: row[f"b{n}"] for n, name in told} if change != "added" else {}
    after = {name: row[f"h{n}"] for n, name in told} if change != "removed" else {}
    skipped = {name: row[f"s{n}"] for n, name in told if row[f"s{n}"]}
    key = {name: row[f"k{n}"] for n, name in enumerate(pair.key)}
    return Example(change, key, before, after, skipped)


def _whole(pair: Pair, row: Mapping[str, Any]) -> Example:
    values = {name: row[f"c{n}"] for n, name in enumerate(pair.common)}
    is_added = row["hw_change"] == "added"
    return Example(row["hw_change"], {}, {} if is_added else values, values if is_added else {})


def _joined(pair: Pair) -> str:
    # the key's types may differ; Spark then casts both to a common type
    condition = " and ".join(_equal(pair, name) for name in pair.key)
    before, after = (_some(pair, table, pair.key) for table in (pair.before, pair.after))
    return (
        f"(select *, true as hw_here from {before}) as b full outer join"
        f" (select *, true as hw_here from {after}) as h on {condition}"
    )


def _some(pair: Pair, table: str, names: Sequence[str]) -> str:
    """Return a table, or the same sample of both tables, chosen by values of columns."""
    if pair.one_of == 1:
        return table
    values = ", ".join(
        _comparable(identifier(name), pair, name)
        if len(set(pair.types(name))) == 1
        else f"cast({identifier(name)} as string)"
        for name in names
    )
    return f"(select * from {table} where pmod(xxhash64({values}), {pair.one_of}) = 0)"


def _key_of(pair: Pair, name: str) -> str:
    sides = [f"{side}.{identifier(name)}" for side in ("h", "b")]
    if len(set(pair.types(name))) > 1:
        sides = [f"cast({one} as string)" for one in sides]
    return f"coalesce({', '.join(sides)})"


def _common_type(pair: Pair, name: str) -> str:
    before, after = pair.types(name)
    return after if before == after else "string"


def _equal(pair: Pair, name: str) -> str:
    one, other = (_comparable(f"{side}.{identifier(name)}", pair, name) for side in ("b", "h"))
    return f"{one} <=> {other}"


def _floating(pair: Pair, name: str) -> str | None:
    """Return the floating-point type that a column has on both sides, or None."""
    before, after = pair.types(name)
    return after if before == after and after in _ROUNDED else None


def _more_than_rounded(pair: Pair, name: str) -> str:
    """Return a condition that two numbers differ in more than their last digits."""
    kind = _floating(pair, name)
    if kind is None:
        return ""
    one, other = (f"cast({side}.{identifier(name)} as double)" for side in ("b", "h"))
    least = f"least(abs({one}), abs({other}))"
    return f" and not coalesce(abs({one} - {other}) <= {_ROUNDED[kind][0]} * {least}, false)"


def _is_text(pair: Pair, name: str) -> bool:
    """Return true if a column must be compared by its conversion to text."""
    before, after = pair.types(name)
    return _is_cast(before, after) or "map<" in after or "variant" in after


def _is_cast(before: str, after: str) -> bool:
    """Return true if the types differ and Spark cannot compare them without loss."""
    return before != after and not all(one.startswith(_EXACT) for one in (before, after))


def _comparable(value: str, pair: Pair, name: str) -> str:
    if _is_cast(*pair.types(name)):
        return f"cast({value} as string)"
    return f"to_json({value})" if _is_text(pair, name) else value


def _text(value: str, kind: str, pair: Pair, name: str) -> str:
    """Return SQL of a value as text. Values of a masked column never leave Spark."""
    if is_masked(name, pair.masked):
        return "cast(null as string)"
    if kind.startswith(NESTED):
        return f"to_json({value})"
    return f"hex({value})" if kind == "binary" else f"cast({value} as string)"
