"""The message for a `ref()` or `source()` of an unknown name: its line, and the nearest name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwaters.platform.names import did_you_mean
from headwaters.platform.problems import Problem

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

    from headwaters.platform.dbt_compat import UnknownName

_REFERABLE = ("model.", "seed.", "snapshot.")


def explained(manifest: Manifest, unknown: UnknownName) -> str | None:
    """Return one line with code, place and nearest name; None if another adapter is in use."""
    if manifest.metadata.adapter_type != "headwaters":
        return None
    if unknown.kind == "source":
        code, what = "HW_NO_SUCH_TABLE", "source table"
        known = [f"{each.source_name}.{each.name}" for each in manifest.sources.values()]
        quoted = ", ".join(f"'{part}'" for part in unknown.name.split(".", 1))
    else:
        code, what = "HW_NO_SUCH_MODEL", "model, seed or snapshot"
        known = [node.name for key, node in manifest.nodes.items() if key.startswith(_REFERABLE)]
        quoted = f"'{unknown.name}'"
    hint = did_you_mean(unknown.name, known) or ": `dbt ls` lists all names"
    text = f"{unknown.kind}({quoted}): there is no such {what}{hint}"
    return str(Problem(code, text).at(_place(Path(unknown.file), unknown.name.rpartition(".")[2])))


def _place(file: Path, name: str) -> str:
    """Return the file, with the first line that has the name in quotes."""
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, ValueError):
        return str(file)
    found = [i for i, line in enumerate(lines, 1) if f"'{name}'" in line or f'"{name}"' in line]
    return f"{file}:{found[0]}" if found else str(file)
