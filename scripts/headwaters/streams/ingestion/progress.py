"""The output of `headwaters ingest`: a live line for each stream, and a final line for each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from headwaters.platform.waiting import during
from headwaters.streams.stream import Stream


class Display:
    """A progress display on standard error, silent unless that is a terminal."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        """Prepare the display of these streams."""
        self.console = Console(stderr=True)
        self.streams = streams
        self.progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        """Show the display."""
        self.progress.start()
        self.opening = self.progress.add_task("", total=None, rows="")
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the display."""
        self.progress.stop()

    def say(self, what: str) -> None:
        """Show a message before the first stream runs."""
        self.progress.update(self.opening, description=what)

    def waiting(self, work: str) -> AbstractContextManager[object]:
        """Show a message while work lasts; away from a terminal, print a line every ten seconds."""
        self.say(work)
        return nullcontext() if self.console.is_terminal else during(work)

    def refresh(self) -> None:
        """Show the progress of the streams."""
        self.progress.update(self.opening, visible=False)
        for stream in self.streams:
            name = stream.contract.name
            if stream.query is None and stream.error is None and name not in self.tasks:
                continue
            if name not in self.tasks:
                self.tasks[name] = self.progress.add_task(name, total=None, rows="")
            waits = stream.endless and stream.error  # it will restart
            finished = not waits and (stream.query is None or not stream.query.isActive)
            self.progress.update(
                self.tasks[name],
                rows=progress_of(stream),
                total=1 if finished else None,
                completed=1 if finished else 0,
            )

    def summary(self, streams: Sequence[Stream]) -> None:
        """Print one line for each stream."""
        out = Console(highlight=False, soft_wrap=True)
        width = max(len(stream.contract.name) for stream in streams)
        for stream in streams:
            out.print(f"{stream.contract.name:<{width}}  {outcome(stream)}")


def progress_of(stream: Stream) -> str:
    """Return a stream's progress and backlog, or its error, as rich markup."""
    if stream.error:
        return f"[red]failed[/red]: {escape(stream.error)}"
    done = [f"{stream.rows:,} rows"] if stream.batches else []
    if stream.bad:
        done.append(f"{stream.bad.total():,} quarantined")
    if stream.pending and not stream.pending.nothing:
        done.append(f"{stream.pending} behind")
    return ", ".join(done)


def outcome(stream: Stream) -> str:
    """Return the outcome of a stream, as rich markup."""
    bad = ", ".join(f"{name} {count:,}" for name, count in stream.bad.most_common())
    total = sum(stream.bad.values())
    quarantined = f", {total:,} quarantined ({bad})" if total else ""
    done = f"{stream.rows:,} rows{quarantined} in {stream.seconds:.1f} s"
    if stream.error:
        return f"[red]failed[/red]: {escape(stream.error)}" + (
            f" (before that: {done})" if stream.batches else ""
        )
    return done if stream.batches else "nothing new"
