"""Test that every decision record has a status and a date, and is in the index."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
INDEX = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem[:4])
def test_a_record_says_whether_it_is_in_force_and_since_when(record: Path) -> None:
    front, _, text = record.read_text().removeprefix("---\n").partition("\n---\n")
    properties = yaml.safe_load(front)
    assert properties.keys() == {"status", "date"}
    assert isinstance(properties["date"], date)
    assert re.match(rf"# {record.stem[:4]}: ", text)
    status = re.fullmatch(r"accepted|superseded by (\d{4})", properties["status"])
    assert status, properties["status"]
    if status.group(1):
        assert list(FOLDER.glob(f"{status.group(1)}-*.md"))
    (row,) = re.findall(rf"^\| \[{record.stem[:4]}\]\({record.name}\) .*$", INDEX, flags=re.M)
    assert row.rpartition("| ")[2].startswith(properties["status"])


def test_records_name_each_other_when_one_amends_another() -> None:
    texts = {record.stem[:4]: record.read_text() for record in RECORDS}
    for number, text in texts.items():
        (amends,) = re.findall(r"^Amends (.*?)\.$", text, flags=re.M | re.S) or [""]
        for other in re.findall(r"\[(\d{4})\]", amends):
            (amended,) = re.findall(r"^Amended by (.*?)\n\n", texts[other], flags=re.M | re.S)
            assert f"[{number}]" in amended
