"""`python -m benchmarks [name …]`: run benchmarks, all or those named; write docs/benchmarks.md.

To add one, put `bench_<name>.py` beside this file. Its docstring's first line is its title in the
document, and its `NOTES`, if it has any, stand below the table: what was wanted, what was missed
and why; `SUMMARY`, a function, makes the paragraph between of the results. Its `run(bench)` calls
`bench.record(...)` for each variant of each case, the variant that others are compared with first.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.runner import Bench, Section, write_document

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run, record, and write the document from all results that are there."""
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
        sections[name] = Section(title, notes, summary)
        if name in (names or known):
            print(f"== {name}", flush=True)
            bench = Bench(name, HERE / "results" / f"{name}.jsonl", HERE / "work" / name)
            with bench:
                module.run(bench)
    write_document(HERE.parent / "docs" / "benchmarks.md", HERE / "results", sections)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
