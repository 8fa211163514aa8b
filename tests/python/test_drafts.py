"""Test that a file appears under its name complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwaters.platform.atomic_write import draft, write, write_private


def test_a_file_is_replaced_as_a_whole_or_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write(file, "first")
    with pytest.raises(KeyboardInterrupt), draft(file) as path:
        path.write_text("half of the sec")
        raise KeyboardInterrupt
    assert file.read_text() == "first"
    with draft(file) as path:
        assert path.name.startswith(".")  # which no stream reads
        path.write_text("second")
        assert file.read_text() == "first"
    assert file.read_text() == "second"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_killed_process_left_is_no_part_of_the_next(tmp_path: Path) -> None:
    (tmp_path / ".a.json.new").write_text("left over")
    with draft(tmp_path / "a.json") as path:
        assert not path.exists()
        path.write_text("whole")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_private_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "key", "secret")
        write_private(tmp_path / "key", "other")
    finally:
        os.umask(before)
    assert (tmp_path / "key").read_text() == "other"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
