"""What tables said of their commits, so that one question serves all models of an invocation.

`describe history` is a job of Spark: on small tables it is a quarter of what a run costs. Most
models of a project read each other and the same sources, so an answer is shared. It stands until
this invocation writes to the table, and a minute at most: what others commit meanwhile is seen by
the model that asks next, or by the next run, as if it had been committed then.

Nothing here runs a statement. What must be true at this moment is never taken from here: what a
run plans from of its own table, and what happened to it before the run writes.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwaters.analysis.sql_text import Token, parts_of, tokens
from headwaters.runs.no_op_cache import Commit as Newest
from headwaters.tables.commits import Commit

Table = tuple[str, ...]

SECONDS = 60.0

# So many commits are asked for where nothing says how many are needed: reading 20 costs what
# reading one does.
COMMITS = 20

_READS = {"select", "values", "describe", "desc", "show", "set", "reset", "explain", "use"}
_READS_OR_WRITES = re.compile(r"\b(insert|merge|update|delete)\b", re.IGNORECASE)
_WRITES = {
    *("insert", "merge", "update", "delete", "truncate", "alter", "create", "drop"),
    *("optimize", "vacuum", "restore", "reorg"),
}
_BEFORE_NAME = {"into", "overwrite", "from", "table", "view", "or", "replace", "if", "not"}
_BEFORE_NAME |= {"exists"}


@dataclass(frozen=True)
class Question:
    """A question to a table, and what had been written when it was asked."""

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
    """The newest commits of tables, by schema and name. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """An empty one; `clock` tells seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._invocation = ""
        self._answers: dict[Table, _Answer] = {}
        self._turns: defaultdict[Table, threading.Lock] = defaultdict(threading.Lock)
        # How often each table was written to, and how often nothing told which table was.
        self._written: Counter[Table] = Counter()
        self._written_anywhere = 0
        # The tables that did not change since an earlier invocation looked at them, and when that
        # was found.
        self._unchanged: dict[Table, Newest] = {}
        self._looked_at: float | None = None
        self._looking = threading.Lock()

    def begin(self, invocation: str) -> None:
        """Discard what another invocation was told."""
        with self._lock:
            if invocation != self._invocation:
                self._invocation = invocation
                self._answers.clear()
                self._unchanged.clear()
                self._looked_at = None

    def find(
        self, table: str, back_to: int | None = None, up_to: int | None = None
    ) -> list[Commit] | None:
        """The commits of a table, newest first, from the version `up_to` back to `back_to`.

        None where they have to be asked for.
        """
        with self._lock:
            answer = self._answers.get(parts_of(table))
        if answer is None or self._clock() - answer.asked_at > SECONDS:
            return None
        reaches = answer.is_complete or back_to is None or answer.commits[-1].version <= back_to
        is_newer = up_to is not None and answer.commits[0].version < up_to
        return list(answer.commits) if reaches and not is_newer else None

    def turn(self, table: str) -> threading.Lock:
        """Held by who finds or asks, so that threads do not ask the same at the same time."""
        with self._lock:
            return self._turns[parts_of(table)]

    def question(self, table: str, limit: int) -> Question:
        """What to hand back with the answer."""
        name = parts_of(table)
        with self._lock:
            written = self._written_anywhere, self._written[name]
        return Question(name, written, self._clock(), limit)

    def answer(self, question: Question, commits: Sequence[Commit]) -> None:
        """Keep the answer, unless the table was written to since the question."""
        is_complete = len(commits) < question.limit
        with self._lock:
            written = self._written_anywhere, self._written[question.table]
            if commits and written == question.written:
                self._answers[question.table] = _Answer(
                    tuple(commits), question.asked_at, is_complete
                )

    def unchanged(self, table: str, look: Callable[[], Mapping[str, Newest]]) -> Newest | None:
        """The newest commit of a table, if it was that already for an earlier invocation.

        `look` tells it of all such tables: it is called once, and again after a minute.
        """
        with self._looking:
            if self._looked_at is None or self._clock() - self._looked_at > SECONDS:
                self._look(look)
        with self._lock:
            return self._unchanged.get(parts_of(table))

    def _look(self, look: Callable[[], Mapping[str, Newest]]) -> None:
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

    def discard(self, table: Table | None) -> None:
        """Called before and after a table is written to; None stands for any table."""
        with self._lock:
            if table is None:
                self._written_anywhere += 1
                self._answers.clear()
                self._unchanged.clear()
            else:
                self._written[table] += 1
                self._answers.pop(table, None)
                self._unchanged.pop(table, None)


@dataclass(frozen=True)
class Written:
    """What a statement writes to: `table`, or any table where it is None."""

    table: Table | None


def written_by(sql: str) -> Written | None:
    """What a statement writes to; None where it only reads.

    A statement of an unknown kind, and one that names no schema or a path, may write to any table.
    """
    words = (token for token in tokens(sql) if token.kind not in ("blank", "comment", "marker"))
    verb = next((token.word for token in words if token.word not in ("(", ";")), "")
    if verb in _READS or (verb in ("with", "from") and not _READS_OR_WRITES.search(sql)):
        return None
    if verb not in _WRITES:
        return Written(None)
    name = _name_after(words)
    if len(name) < 2 or name[-2] == "delta" or re.search(r"\brename\b", sql, re.IGNORECASE):
        return Written(None)
    return Written(name[-2:])


def _name_after(words: Iterable[Token]) -> Table:
    """The dotted name that follows what may stand between a verb and a name."""
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
