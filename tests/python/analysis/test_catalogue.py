"""Test that each example of the catalogue derives as the page says, and the page itself.

Rewrite the page with `UPDATE_PAGE=1 pytest tests/python/analysis/test_catalogue.py`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from analysis.catalogue import FORMS, LOOKUPS, TABLES, How, SqlForm, page
from headwaters.analysis.derive import Derivation, Question, derive

PAGE = Path(__file__).parents[3] / "docs" / "forms.md"
EVERY = [form for forms in FORMS.values() for form in forms]


def derived(form: SqlForm) -> Derivation:
    used = [table for table in TABLES if re.search(rf"\b{table.name}\b", form.example)]
    return derive(Question(form.example, used, follows_ties=True))


def how(found: Derivation) -> How:
    """Return the name of a derivation on the page."""
    if found.strategy == "affected_keys":
        return "traced keys" if found.leads else "affected keys"
    names: dict[str, How] = {"change_feed": "changed rows", "staged": "hidden tables"}
    return names.get(found.strategy, "replaced")


@pytest.mark.parametrize("form", EVERY, ids=lambda form: form.name)
def test_an_example_derives_as_the_page_says(form: SqlForm) -> None:
    found = derived(form)
    assert how(found) == form.how
    assert form.how == "replaced" or all(source.is_followed for source in found.inputs)


@pytest.mark.parametrize("form", LOOKUPS, ids=lambda form: form.name)
def test_an_input_that_is_not_followed_has_its_reason(form: SqlForm) -> None:
    found = derived(form)
    assert [source.is_followed for source in found.inputs].count(False) == 1
    assert found.refused is not None


def test_the_page_is_the_generated_one() -> None:
    if "UPDATE_PAGE" in os.environ:
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
