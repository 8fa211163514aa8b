"""Run benchmarks, all or the named ones, and write docs/benchmarks.md.

`python -m benchmarks [name …]`. To add one, put `bench_<name>.py` into this folder. The first line
of its docstring is its title in the document. Its `NOTES`, if it has any, stand below the table and
explain goals, misses and their reasons. The function `SUMMARY` turns the results into the paragraph
between. `HEADLINES` are its lines in the document's first table. Its `run(bench)` calls
`bench.record(...)` for each variant of each case; the first variant is the reference of the others.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.runner import Bench, Section, write_document

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run, record, and write the document from all present results."""
    names = [name.replace("-", "_") for name in names]
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    sections = {}
    for name in known:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        title = (module.__doc__ or name).splitlines()[0]
        notes, summary = getattr(module, "NOTES", ""), getattr(module, "SUMMARY", None)
        sections[name] = Section(title, notes, summary, getattr(module, "HEADLINES", ()))
        if name in (names or known):
            print(f"== {name}", flush=True)
            bench = Bench(name, HERE / "results" / f"{name}.jsonl", HERE / "work" / name)
            with bench:
                module.run(bench)
    write_document(HERE.parent / "docs" / "benchmarks.md", HERE / "results", sections)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
