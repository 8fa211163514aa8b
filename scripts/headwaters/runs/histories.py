"""A cache of table histories, so that one query serves all models of an invocation.

`describe history` is a Spark job: on small tables it takes a quarter of a run's time. Most models
of a project read each other and the same sources, so they share a result. It is valid until this
invocation writes to the table, and for a minute at most. The next model that queries the table, or
the next run, sees the commits of other writers as if they had just happened.

Nothing here runs a statement. A run never uses the cache for its own table: neither for the plan,
nor for the check before it writes.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwaters.analysis import Token, parts_of, tokens
from headwaters.runs.no_op_cache import NewestCommit
from headwaters.tables.commits import Commit

Table = tuple[str, ...]

SECONDS = 60.0

# The number of commits to read if nothing requires more: 20 cost as much as one.
COMMITS = 20

_READS = {"select", "values", "describe", "desc", "show", "set", "reset", "explain", "use"}
_SETS = {"set", "reset", "use"}
_READS_OR_WRITES = re.compile(r"\b(insert|merge|update|delete)\b", re.IGNORECASE)
_WRITES = {
    *("insert", "merge", "update", "delete", "truncate", "alter", "create", "drop"),
    *("optimize", "vacuum", "restore", "reorg"),
}
_BEFORE_NAME = {"into", "overwrite", "from", "table", "view", "or", "replace", "if", "not"}
_BEFORE_NAME |= {"exists"}


@dataclass(frozen=True)
class HistoryQuery:
    """A query for a table's history, and the writes that preceded it."""

    table: Table
    written: tuple[int, int]
    asked_at: float
    limit: int


@dataclass(frozen=True)
class _Answer:
    commits: tuple[Commit, ...]
    asked_at: float
    is_complete: bool


class Histories:
    """The newest commits of tables, by schema and name; safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._invocation = ""
        self._answers: dict[Table, _Answer] = {}
        self._turns: defaultdict[Table, threading.Lock] = defaultdict(threading.Lock)
        # The number of writes to each table, and of writes to unknown tables.
        self._written: Counter[Table] = Counter()
        self._written_anywhere = 0
        # The tables that have not changed since an earlier invocation saw them, and the time of
        # that check.
        self._unchanged: dict[Table, NewestCommit] = {}
        # The tables that may have another place than dbt knows; None stands for all.
        self._moved: set[Table | None] = set()
        self._looked_at: float | None = None
        self._looking = threading.Lock()

    def begin(self, invocation: str) -> None:
        """Discard the results of other invocations."""
        with self._lock:
            if invocation != self._invocation:
                self._invocation = invocation
                self._answers.clear()
                self._unchanged.clear()
                self._moved.clear()
                self._looked_at = None

    def find(
        self, table: str, back_to: int | None = None, up_to: int | None = None
    ) -> list[Commit] | None:
        """Return the commits of a table, newest first, from the version `up_to` back to `back_to`.

        Return None if a query is necessary.
        """
        with self._lock:
            answer = self._answers.get(parts_of(table))
        if answer is None or self._clock() - answer.asked_at > SECONDS:
            return None
        reaches = answer.is_complete or back_to is None or answer.commits[-1].version <= back_to
        is_newer = up_to is not None and answer.commits[0].version < up_to
        return list(answer.commits) if reaches and not is_newer else None

    def turn(self, table: str) -> threading.Lock:
        """Return the lock that keeps threads from running the same query at the same time."""
        with self._lock:
            return self._turns[parts_of(table)]

    def question(self, table: str, limit: int) -> HistoryQuery:
        """Return the token that `answer` needs with the result."""
        name = parts_of(table)
        with self._lock:
            written = self._written_anywhere, self._written[name]
        return HistoryQuery(name, written, self._clock(), limit)

    def answer(self, question: HistoryQuery, commits: Sequence[Commit]) -> None:
        """Keep the result, unless the table was written to since the question."""
        is_complete = len(commits) < question.limit
        with self._lock:
            written = self._written_anywhere, self._written[question.table]
            if commits and written == question.written:
                self._answers[question.table] = _Answer(
                    tuple(commits), question.asked_at, is_complete
                )

    def unchanged(
        self, table: str, look: Callable[[], Mapping[str, NewestCommit]]
    ) -> NewestCommit | None:
        """Return the newest commit of a table if an earlier invocation already saw it.

        `look` returns those of all such tables. It is called once, and again after a minute.
        """
        with self._looking:
            if self._looked_at is None or self._clock() - self._looked_at > SECONDS:
                self._look(look)
        with self._lock:
            return self._unchanged.get(parts_of(table))

    def _look(self, look: Callable[[], Mapping[str, NewestCommit]]) -> None:
        with self._lock:
            at, anywhere, written = self._clock(), self._written_anywhere, self._written.copy()
        found = {parts_of(name): newest for name, newest in look().items()}
        with self._lock:
            self._looked_at = at
            self._unchanged = {
                table: newest
                for table, newest in found.items()
                if (anywhere, written[table]) == (self._written_anywhere, self._written[table])
            }

    def may_be_moved(self, table: str) -> bool:
        """Return true if a statement of this invocation may have given a table another place."""
        with self._lock:
            return None in self._moved or parts_of(table) in self._moved

    def discard(self, table: Table | None, moved: bool = False) -> None:
        """Discard a table's commits, before and after a write to it; None stands for any table.

        `moved`: the write may give it another place. One to an unknown table always may.
        """
        with self._lock:
            if moved or table is None:
                self._moved.add(table)
            if table is None:
                self._written_anywhere += 1
                self._answers.clear()
                self._unchanged.clear()
            else:
                self._written[table] += 1
                self._answers.pop(table, None)
                self._unchanged.pop(table, None)


@dataclass(frozen=True)
class StatementTarget:
    """The target of a statement: `table`, or any table if it is None.

    `moves`: the statement may give the table another place.
    """

    table: Table | None
    moves: bool = False


def written_by(sql: str) -> StatementTarget | None:
    """Return the target of a statement, or None if it only reads.

    A statement of an unknown kind may write to any table, and so may one that names a path or omits
    the schema.
    """
    words = _code(sql)
    verb = next((token.word for token in words if token.word not in ("(", ";")), "")
    if verb in _READS or (verb in ("with", "from") and not _READS_OR_WRITES.search(sql)):
        return None
    if verb not in _WRITES:
        return StatementTarget(None)
    name = _name_after(words)
    if len(name) < 2 or name[-2] == "delta" or re.search(r"\brename\b", sql, re.IGNORECASE):
        return StatementTarget(None)
    may_move = verb in ("create", "alter") and re.search(r"\blocation\b", sql, re.IGNORECASE)
    return StatementTarget(name[-2:], moves=verb == "drop" or bool(may_move))


def changes_session(sql: str) -> bool:
    """Return true if a statement may change the settings or the SQL functions of its session."""
    words = [token.word for token in itertools.islice(_code(sql), 5)]
    verb = words[0] if words else ""
    return verb in _SETS or (verb in ("create", "drop", "refresh") and "function" in words)


def changes_settings(sql: str) -> bool:
    """Return true if a statement may change the settings or the schema of its session."""
    return next((token.word for token in _code(sql)), "") in _SETS


def _code(sql: str) -> Iterator[Token]:
    return (token for token in tokens(sql) if token.kind not in ("blank", "comment", "marker"))


def _name_after(words: Iterable[Token]) -> Table:
    """Return the dotted name after a verb and the optional words that follow it."""
    following = list(itertools.islice(words, 16))
    for place, token in enumerate(following[:-1]):
        if token.word in _BEFORE_NAME and following[place + 1].word != ".":
            continue
        parts = [token.name]
        for dot, part in zip(following[place + 1 :: 2], following[place + 2 :: 2], strict=False):
            if dot.word != ".":
                break
            parts.append(part.name)
        return tuple(parts)
    return ()
