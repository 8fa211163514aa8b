"""The sets of columns that identify the rows of joins and set operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from headwaters.analysis import value_bounds
from headwaters.analysis.exact_types import is_collated, is_same_if_equal
from headwaters.analysis.relations import (
    Column,
    Equal,
    Relation,
    Side,
    Weight,
    new_column,
)
from headwaters.analysis.scopes import (
    value_of,
)

# The most known keys of a join, which may double them.
_MOST_UNIQUE = 32
# The id of a column that would identify the rows of a relation.
_ROW = -1


def unique_of_join(
    side: Side, left: Relation[object], right: Relation[object], equal: Sequence[Equal]
) -> tuple[frozenset[int], ...]:
    """Return the sets of columns that identify the joined rows."""
    if side in ("semi", "anti"):
        return left.unique
    exact = [
        pair
        for pair in equal
        if not pair.is_null_safe and is_same_if_equal(pair.left.type, pair.right.type)
    ]
    mine = {pair.left.id for pair in exact}
    theirs = {pair.right.id for pair in exact}
    # `=` is never true for NULL, so a key of the rows without NULL identifies those that it joins
    of_left = [*left.unique, *(key for key in left.unique_if_filled if key <= mine)]
    of_right = [*right.unique, *(key for key in right.unique_if_filled if key <= theirs)]
    found: list[frozenset[int]] = []
    if any(key <= theirs for key in of_right) and side in ("inner", "left"):
        found += of_left if side == "inner" else left.unique
    if any(key <= mine for key in of_left) and side in ("inner", "right"):
        found += of_right if side == "inner" else right.unique
    if side == "inner":
        found += [one | other for one in of_left for other in of_right]
    every = tuple(dict.fromkeys(found))
    return every if len(every) <= _MOST_UNIQUE else _smallest(every)


def _smallest(keys: Iterable[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Return keys without those that contain another key, and so follow from it."""
    found: list[frozenset[int]] = []
    for key in sorted(keys, key=len):
        if len(found) < _MOST_UNIQUE and not any(other <= key for other in found):
            found.append(key)
    return tuple(found)


def unique_if_filled(
    side: Side, left: Relation[object], right: Relation[object], equal: Sequence[Equal]
) -> tuple[frozenset[int], ...]:
    """Return the sets of columns that identify the joined rows without NULL in them.

    A side that meets one row of the other at most keeps its own.
    """
    if side in ("semi", "anti"):
        return left.unique_if_filled
    found: list[frozenset[int]] = []
    of_row = (frozenset([_ROW]),)
    mine: Relation[object] = Relation(left.columns, None, of_row)
    theirs: Relation[object] = Relation(right.columns, None, of_row)
    if of_row[0] in unique_of_join(side, mine, right, equal):
        found += left.unique_if_filled
    if of_row[0] in unique_of_join(side, left, theirs, equal):
        found += right.unique_if_filled
    return tuple(found)


def unique_of_left(left: Relation[object], columns: Sequence[Column]) -> Iterator[frozenset[int]]:
    """Yield keys of INTERSECT ALL and EXCEPT ALL, which leave some rows of the left branch."""
    places = {column.id: place for place, column in enumerate(left.columns)}
    for key in left.unique:
        made = [columns[places[part]] for part in key if part in places]
        if len(made) == len(key) and all(column.type is not None for column in made):
            yield frozenset(column.id for column in made)


def unique_of_all(
    left: Relation[object], right: Relation[object], columns: Sequence[Column]
) -> Iterator[frozenset[int]]:
    """Yield keys of UNION ALL: a literal that identifies the branch, with a key of each branch."""
    pairs = list(zip(left.columns, right.columns, strict=True))
    branches = [
        place
        for place, (one, other) in enumerate(pairs)
        if one.texts and other.texts and one.is_filled and other.is_filled
        if not one.texts & other.texts
    ]
    places = [
        {column.id: place for place, column in enumerate(side.columns)} for side in (left, right)
    ]
    for branch in branches:
        for mine, theirs in itertools.product(left.unique, right.unique):
            if mine <= places[0].keys() and theirs <= places[1].keys():
                key = {places[0][part] for part in mine} | {places[1][part] for part in theirs}
                if all(columns[place].type is not None for place in key - {branch}):
                    yield frozenset(columns[place].id for place in key | {branch})


def of_either(one: Column, other: Column) -> Column:
    """Return a column of a set operation."""
    collated = next((column.type for column in (one, other) if is_collated(column.type)), None)
    is_odd = one.weight is other.weight and (
        one.weight is Weight.PLAIN
        or one.type == other.type
        or all(value_bounds.has_opposite(value_of(column), None) for column in (one, other))
    )
    made = new_column(
        one.name,
        one.type if one.type == other.type else collated,
        one.weight if is_odd else Weight.OTHER,
    )
    texts = one.texts | other.texts if one.texts and other.texts else frozenset[str]()
    most = max(one.most, other.most) if one.most is not None and other.most is not None else None
    return made._replace(is_filled=one.is_filled and other.is_filled, texts=texts, most=most)
