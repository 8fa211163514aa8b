"""Texts in the output of a command: users' data, and commands to type."""

import shlex
from collections.abc import Iterable


def printable(text: str) -> str:
    """Return a text without characters that control a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def with_article(name: str) -> str:
    """Return a name in English, as a type of SQL, with its article: `an int`, `a date`."""
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def shell_quoted(text: str) -> str:
    """Quote a text as one word of a shell, in double quotes unless they would change it."""
    return f'"{text}"' if not set(text) & set('"$`\\!') else shlex.quote(text)


def sql_command(statements: Iterable[str], target: str | None = None) -> str:
    """Return the shell command that runs statements which write, on a target of the profile."""
    chosen = f" --target {shlex.quote(target)}" if target else ""
    return f"headwaters sql --write{chosen} {shlex.quote('; '.join(statements))}"
