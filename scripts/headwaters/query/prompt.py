"""The prompt of `headwaters sql`: lines with history and completion, until a statement ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from headwaters.platform.errors import CodedError
from headwaters.query.statements import is_complete

MOST = 1000  # lines of the history
_ENDS = ("exit", "quit")


def loop(run: Callable[[str], None], history: Path, names: Sequence[str]) -> None:
    """Run each statement that a person types; print errors, and continue.

    Ctrl-C ends a statement, and Ctrl-D or `exit` the prompt. `names` complete words.
    """
    keep = _remembering(history, names)
    typer.echo("End a statement with `;`. `exit` or Ctrl-D leaves, Tab completes names.")
    try:
        while (text := _statement()) is not None:
            try:
                run(text)
            except CodedError as error:
                typer.echo(str(error), err=True)
            except (KeyboardInterrupt, typer.Abort):
                typer.echo("stopped", err=True)
    finally:
        keep()


def _statement() -> str | None:
    """Return the typed lines up to a semicolon, or None at the end."""
    lines: list[str] = []
    while True:
        try:
            line = input("...> " if lines else "sql> ")
        except KeyboardInterrupt:
            typer.echo()
            lines = []
            continue
        except EOFError:
            typer.echo()
            return None
        if not lines and line.strip().rstrip(";").lower() in _ENDS:
            return None
        lines.append(line)
        if is_complete("\n".join(lines)):
            return "\n".join(lines)


def _remembering(history: Path, names: Sequence[str]) -> Callable[[], None]:
    """Set up history and completion; return a function that stores the history."""
    try:
        import readline
    except ImportError:  # a Python that was built without it
        return lambda: None
    if history.exists():
        readline.read_history_file(history)
    readline.set_history_length(MOST)
    readline.set_completer_delims(" \t\n,;()=<>+*")
    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = [name for name in names if name.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    return lambda: readline.write_history_file(history)
