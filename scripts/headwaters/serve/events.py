"""Change events in Debezium's envelope, as ingestion takes them (formats/debezium.py)."""

from __future__ import annotations

from typing import Any

from headwaters.contract import Contract
from headwaters.serve.records import Doubts, Reader

Refused = tuple[str, str | None, str]


def reader_of(contract: Contract) -> Reader:
    """What reads the requests of a stream. Raises ValueError as Reader does."""
    changes = contract.stream.changes
    enveloped = changes is not None and changes.envelope == "debezium"
    return EventReader(contract) if enveloped else Reader(contract)


class EventReader(Reader):
    """Reads records that are change events; rows are checked inside of their envelopes."""

    def __init__(self, contract: Contract) -> None:
        """Of a deleted row, or of one before its change, no more than the key may be known."""
        super().__init__(contract)
        self.quick = None  # whose records are rows, and not events with rows inside
        assert contract.stream.changes is not None
        self._key = contract.stream.changes.key
        columns = tuple(
            column if column.name in self._key else column.model_copy(update={"constraints": ()})
            for column in contract.columns
        )
        self._images = Reader(contract.model_copy(update={"columns": columns}))

    def field(self, value: dict[str, Any], name: str) -> Any:
        """The value of a field of the row that an event is about."""
        event = value.get("payload", value)
        return event["before" if event["op"] == "d" else "after"].get(name)

    def problem(self, value: Any, record: str, doubtful: Doubts) -> Refused | None:
        """What is wrong with an event: type, field, message."""
        if type(value) is not dict:
            return "malformed", None, "is not a JSON object"
        event = value.get("payload", value)
        if type(event) is not dict:
            return "malformed", None, "is not a JSON object"
        op, before, after = (event.get(name) for name in ("op", "before", "after"))
        if op not in ("c", "r", "u", "d"):
            if not isinstance(op, str):
                return "malformed", None, "has no op, and is no change event"
            return "check", "op", f"'{op[:100]}' is not c, r, u or d"
        moment, source = event.get("ts_ms"), event.get("source")
        if type(moment) not in (int, type(None)) or type(source) not in (dict, type(None)):
            return "type", None, "ts_ms is no whole number, or source no object"
        image, row, other = ("before", before, after) if op == "d" else ("after", after, before)
        if type(row) is not dict or type(other) not in (dict, type(None)):
            return "malformed", None, f"has no {image}"
        check = self._images.problem if op == "d" else super().problem
        if found := check(row, record, doubtful):
            return found
        if other is not None and (found := self._images.problem(other, record, doubtful)):
            return found
        moved = [k for k in self._key if op == "u" and other and other.get(k) != row.get(k)]
        if moved and other and other.get(moved[0]) is not None:
            return "check", moved[0], "is changed by an update: send a deletion and an insertion"
        return None
