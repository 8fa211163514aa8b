"""The one declaration of a key that would let a run follow more inputs of a model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input

# Derivations that are tried. Each takes milliseconds.
MOST_TRIED = 60


def helpful_key(question: Question) -> tuple[Input, tuple[str, ...], bool] | None:
    """Return an input, and columns that let runs follow most inputs if they identify its rows.

    The last value is true if `unique` is enough, with NULL in several rows. Return None if no key
    of one or two columns helps.
    """
    best, found = _unfollowed(question), None
    for source, columns in itertools.islice(_candidates(question), MOST_TRIED):
        if best == 0:
            break
        left = _unfollowed(_with_key(question, source, columns, is_filled=True))
        if left < best:
            best, found = left, (source, columns)
    if found is None:
        return None
    source, columns = found
    is_enough = _unfollowed(_with_key(question, source, columns, is_filled=False)) == best
    return source, columns, is_enough


def _candidates(question: Question) -> Iterator[tuple[Input, tuple[str, ...]]]:
    """Yield columns that the query names: single ones first, those with the name of a key first."""
    words = {word.lower() for word in re.findall(r"\w+", question.sql)}
    named = [
        (source, [column for column in source.columns if column.lower() in words])
        for source in question.inputs
        if source.name not in question.constant
    ]
    singles = [(source, (column,)) for source, columns in named for column in columns]
    yield from sorted(singles, key=lambda one: not re.search(r"(^|_)(id|key|sk|nr|no)$", one[1][0]))
    for source, columns in named:
        for pair in itertools.combinations(columns, 2):
            yield source, pair


def _with_key(
    question: Question, source: Input, columns: tuple[str, ...], is_filled: bool
) -> Question:
    key = frozenset(columns)
    declared = (
        replace(source, unique=[*source.unique, key])
        if is_filled
        else replace(source, unique_if_filled=[*source.unique_if_filled, key])
    )
    return replace(question, inputs=[declared if one is source else one for one in question.inputs])


def _unfollowed(question: Question) -> int:
    """Return the number of inputs whose changes replace the table."""
    try:
        derived: Derivation = derive(question)
    except Refused:
        return len(question.inputs)
    return sum(
        not source.is_followed and source.name not in question.constant for source in derived.inputs
    )
