"""The simulated streams as files of JSON lines, and the true contents of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headwaters.devkit.samples import parts
from headwaters.devkit.samples.simulate import STREAMS, FinanceConfig, SentRecord


@dataclass
class Truth:
    """The contents of one stream, counted during the simulation."""

    stream: str
    records: int = 0
    duplicates: int = 0
    corrections: int = 0
    late: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    flagged: int = 0  # records with the field `is_flagged`
    keys: int = 0  # different transactions or claims with at least one well-formed record

    def count(self, record: SentRecord, seen: set[str]) -> None:
        """Add one record; `seen` has the keys of earlier entities."""
        self.records += 1
        self.duplicates += record.kind == "duplicate"
        self.corrections += record.kind == "correction"
        self.late += record.kind == "late"
        self.flagged += '"is_flagged"' in record.value
        if record.fault:
            self.malformed[record.fault] += 1
        else:
            # The identifier is the first field of every record.
            seen.add(record.value.split('"', 4)[3])
            self.keys = len(seen)


@dataclass
class Landed:
    """The result of `land` for one stream."""

    truth: Truth
    written: list[Path]
    kept: list[Path]  # existing files


def land(config: FinanceConfig, out: Path, files: int = 4) -> list[Landed]:
    """Write both streams as JSON lines to `<out>/<stream>/`, each in `files` files.

    A file appears whole or not at all: it is written under a hidden name and renamed. Its name
    identifies its configuration, and an existing file stays. A second call therefore writes
    nothing, and a call after an interrupted one completes it.

    Raises UserError if the folder has the same records in another number of files, and WorkError if
    a file cannot be written.
    """
    results = []
    for stream, make in STREAMS.items():
        paths = parts.paths(out / stream, config.prefix, files)
        results.append(_land(stream, list(make(config)), paths))
    return results


def _land(stream: str, records: list[SentRecord], paths: list[Path]) -> Landed:
    truth, seen = Truth(stream), set[str]()
    for record in records:
        truth.count(record, seen)
    written = parts.write([record.value for record in records], paths)
    kept = [path for path in paths if path not in written and path.exists()]
    return Landed(truth, written, kept)


def summary(landed: Landed) -> list[str]:
    """Return two lines about one stream."""
    truth, paths = landed.truth, landed.written + landed.kept
    if not paths:
        return [f"{truth.stream}: no records"]
    folder = paths[0].parent
    if folder.is_relative_to(Path.cwd()):
        folder = folder.relative_to(Path.cwd())
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    if not landed.written:
        what = f"nothing new: its {truth.records:,} records are in {folder} already"
    elif landed.kept:
        what = f"{truth.records:,} records in {files} ({len(landed.written)} new) in {folder}"
    else:
        what = f"{truth.records:,} records in {files} in {folder}"
    malformed = f"{truth.malformed.total():,} malformed"
    if truth.malformed:
        malformed += f" ({', '.join(f'{n:,} {fault}' for fault, n in truth.malformed.items())})"
    counts = [f"{truth.keys:,} {truth.stream.rpartition('_')[2]}"]
    counts += [f"{truth.duplicates:,} duplicates", f"{truth.late:,} late", malformed]
    if truth.corrections:
        counts.insert(2, f"{truth.corrections:,} corrections")
    if truth.flagged:
        counts.append(f"{truth.flagged:,} with is_flagged")
    return [f"{truth.stream}: {what}", f"  {' · '.join(counts)}"]
