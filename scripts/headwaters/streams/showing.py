"""The printed form of records in quarantine, and of a settlement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwaters.platform.sql import literal
from headwaters.platform.text import printable, shell_quoted
from headwaters.streams.contract import Contract
from headwaters.streams.ingestion.settle import Settled
from headwaters.streams.quarantine import Bad, Quarantine

LONGEST = 500  # characters of a record; `headwaters sql` shows the rest


def lines(found: Sequence[tuple[Contract, Quarantine]]) -> Iterator[str]:
    """Yield the records of each stream, newest first, and the next steps for open ones."""
    open_ones = [contract for contract, records in found if records.open]
    for contract, records in found:
        if not records.open and not records.newest and len(found) > 1:
            continue
        settled = f", {records.settled:,} settled" if records.settled else ""
        yield f"{contract.name}: {records.open:,} in quarantine{settled}"
        for record in records.newest:
            yield from _record(record)
        hidden = records.open - len([one for one in records.newest if one.settled is None])
        if hidden:
            yield f"  … and {hidden:,} older ones (--limit 0 shows all)"
    if not open_ones and len(found) > 1:
        has_settled = any(records.settled for _, records in found)
        yield "no record is open" if has_settled else "no record is in quarantine"
    for contract in open_ones:
        yield (
            f"contract too strict: change it in {contract.file}, then "
            f"`headwaters replay --select {contract.name} --apply`"
        )
    if open_ones:
        yield "record wrong: land a corrected one, then settle those that it replaces:"
        yield from _settling(found)


def _settling(found: Sequence[tuple[Contract, Quarantine]]) -> Iterator[str]:
    """Yield the commands that settle the shown open records, by stream, reason and field."""
    for contract, records in found:
        groups = ((one.reason, one.field) for one in records.newest if one.settled is None)
        for reason, field in dict.fromkeys(groups):
            of_field = f" and field = {literal(field)}" if field else " and field is null"
            where = shell_quoted(f"reason = {literal(reason)}{of_field}")
            yield (
                f"  headwaters quarantine settle {contract.name} --where {where} "
                '--reason "sent again"'
            )


def _record(record: Bad) -> Iterator[str]:
    about = " ".join(filter(None, (record.reason, record.field)))
    message = f": {printable(record.message)}" if record.message else ""
    yield f"  {about}{message}"
    cut = "…" if len(record.record) > LONGEST else ""
    yield f"    record  {printable(record.record[:LONGEST])}{cut}"
    yield f"    place   {printable(record.place)}"
    if record.settled is not None:
        yield f"    settled {printable(record.settled)}"


def settlement(stream: str, done: Settled) -> Iterator[str]:
    """Yield the outcome of a settlement, and the command that undoes it."""
    if done.at is None:
        yield f"{stream}: {done.records:,} would be settled (--apply settles them)"
        return
    yield f"{stream}: {done.records:,} settled"
    where = f"settled_at = timestamp'{done.at:%Y-%m-%dT%H:%M:%S.%fZ}'"
    yield f'undo: headwaters quarantine reopen {stream} --where "{where}" --apply'
