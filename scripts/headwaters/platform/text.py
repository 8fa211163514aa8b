"""Texts of users' data in the output of a command."""


def printable(text: str) -> str:
    """Return a text without characters that control a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
