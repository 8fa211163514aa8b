"""What is certainly good: the quick reader accepts nothing that the rules themselves do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from ingestion import node
from serving import NOT_NULL, contract_of
from test_serve_records import BAD, COLUMNS, GOOD, RULES, STRICTER, WHOLE_BAD, WHOLE_GOOD

from headwaters.serve.quick import _are_rfc3339
from headwaters.serve.records import DEEPEST, MOST_RECORDS, Form, Reader, Reading, TooMany
from headwaters.serve.values import LONGEST_NUMBER, fits, type_of

SIMPLE = {
    name: kind
    for name, kind in COLUMNS.items()
    if not kind.startswith(("array", "map", "struct", "binary"))
}
CHECKS = {
    **RULES,
    "n": [{"type": "check", "expression": "n > 0 or n is null"}],
    "d": [{"type": "check", "expression": "d <> 0.1 and d < t"}],
    "b": [NOT_NULL, {"type": "check", "expression": "b or s = 'no'"}],
    "m": [{"type": "check", "expression": "m > 0 and m not in (0.01, 7, 7.005)"}],
}


def reader_of(rules: dict[str, list[dict[str, str]]], **columns: str) -> Reader:
    """A reader of these columns."""
    return Reader(contract_of(node(columns, rules={k: rules[k] for k in rules if k in columns})))


READERS = [
    reader_of(RULES, **SIMPLE),
    reader_of(CHECKS, **SIMPLE),
    reader_of({}, s="string", m="decimal(6, 2)"),
    reader_of({"m": [NOT_NULL]}, m="decimal(6, 2)", **{"'m": "double"}),
    reader_of({}, **{"ä": "string", "class": "string", "a b": "decimal(18, 0)"}),
]


def is_quick(reader: Reader, body: bytes, form: Form, key: str | None = None) -> bool:
    """Whether the quick reader accepts a request; then it is as the rules have it."""
    assert reader.quick is not None
    found = reader.quick.read(body, form == "lines", key, reader._accepts)
    if found is None:
        return False
    texts, keys = found
    assert reader.read_each(body, form, key) == Reading([*map(bytes, texts)], keys)
    return True


PIECES = [
    *(value for column in SIMPLE for value in (*GOOD.get(column, ()), *BAD.get(column, ()))),
    *(
        "null",
        "7",
        "7.0",
        "7.005",
        "7.0049999999999999999",
        "0.01",
        "0.0100",
        "0.10",
        "-0.0",
        "1e1",
    ),
    *('"no"', '"n"', '"{"', '"[1e400]"', '"}, {"', '"\x7f"', '"\\n"', '"\\u00e4"', '"\t"', '"\n"'),
    *("\"'m': 1e100000\"", '"m"', '"a\\"b"', '"ä"', '"\ud800"', "1e-100000", "0e00000", "1.5e3"),
    *("NaN", "[]", "{}", "[[1]]", '{"m": 1e100000}', "1" * 501, "1." + "0" * 500, "x", "", "tru"),
    *('"' + "x" * 600 + '"', '"' + "0" * 600 + '"', "1" * 5000, "[" * DEEPEST + "]" * DEEPEST),
]
NAMES = [*SIMPLE, "S", "'m", 'q\\"', "ä", "class", "a b", "\\u0073", "other", ""]
SPACES = st.integers(0, 60).map(lambda n: dict(enumerate(" \n\r\t\xa0\ufeff")).get(n, ""))
FORMS: list[Form] = ["array", "lines"]


PLAIN = {
    "string": ['"a"', '"ä"', '"it\'s {so}"', '"1.50"', '"no"', '"\\u00e4"', "null"],
    "date": ['"2026-02-03"', '"2024-02-29"', "null"],
    "timestamp": ['"2026-12-31T04:05:06Z"', '"2026-01-30 04:05:06.5-01:00"', "null"],
    "timestamp_ntz": ['"2026-02-03T04:05:06"', "null"],
    "boolean": ["true", "true", "false"],
    "tinyint": ["7", "-128", "127"],
    "double": ["1", "0.1", "0.2", "1e-5", "-7.0", "null"],
    "decimal": ["1", "1.005", "7.0", "0.02", "12.50", "null"],
}  # the first ones satisfy all checks


def odd(values: st.SearchStrategy[str], often: int) -> st.SearchStrategy[str]:
    """One value of `often`, or a piece of another kind."""
    pieces = st.sampled_from(PIECES) | st.text(max_size=5).map(json.dumps)
    return st.integers(0, often).flatmap(lambda n: pieces if n == 0 else values)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Reader, bytes, Form]:
    """A request to one of the readers: good, or almost good."""
    reader = draw(st.sampled_from(READERS))
    often = draw(st.sampled_from([10, 100, 10_000]))

    def record() -> str:
        names = [c.name for c in reader.columns if c.required or draw(st.integers(0, 5))]
        if draw(st.integers(0, often)) == 0:
            names.append(draw(st.sampled_from(NAMES)))
        fields = []
        for name in draw(st.permutations(names)):
            kind = next((c.kind.name for c in reader.columns if c.name == name), "string")
            known = PLAIN.get(kind, PLAIN["tinyint"])
            value = draw(odd(st.sampled_from([*known[:1] * 3, *known]), often))
            fields.append(f'{draw(SPACES)}"{name}"{draw(SPACES)}:{value}')
        return "{" + ",".join(fields) + draw(SPACES) + "}"

    found = [record() for _ in range(draw(st.integers(0, 4)))]
    form: Form = draw(st.sampled_from(FORMS))
    if form == "lines":
        text = draw(odd(st.sampled_from(["\n", "\r\n", "\n\n"]), often)).join(found)
    else:
        text = "[" + draw(odd(st.sampled_from([",", ", ", " ,\n"]), often)).join(found) + "]"
    body = (draw(SPACES) + text + draw(SPACES)).encode("utf-8", "surrogatepass")
    if body and draw(st.integers(0, often)) == 0:  # one byte is another one, or missing
        place = draw(st.integers(0, len(body) - 1))
        body = body[:place] + draw(st.binary(max_size=1)) + body[place + 1 :]
    return reader, body, form


@settings(max_examples=500, deadline=None)
@given(requests(), st.sampled_from([None, None, "s", "m"]))
@example((READERS[2], b'{"m": 1},{"s": "a"}\n{"m": [1\n2]}', "lines"), None)
@example((READERS[2], b'{"s":\n"a"}', "lines"), None)
@example((READERS[2], b'[{"m": 1, "m": "1"}]', "array"), None)
@example((READERS[2], b'[{"s": "a", "m": 1}, {"m": 1, "m": 2}]', "array"), None)
@example((READERS[2], b'[{"s": "\'m\': 1e100000", "m": 1}]', "array"), None)
def test_what_the_quick_reader_accepts_the_rules_accept_with_the_same_texts(
    request_: tuple[Reader, bytes, Form], key: str | None
) -> None:
    reader, body, form = request_
    known = {column.name for column in reader.columns}
    quick = is_quick(reader, body, form, key if key in known else None)
    event(f"quick: {quick}")  # of about half


def test_no_case_of_the_rules_is_accepted_that_they_refuse() -> None:
    texts = [f'{{"n": 1, "b": true, "{c}": {v}}}' for t in (GOOD, BAD) for c in t for v in t[c]]
    texts += [text.replace("%d", "1") for text in (*WHOLE_GOOD, *WHOLE_BAD, *STRICTER)]
    quick = {
        text
        for text in texts
        for reader in READERS
        for body, form in ((text, "lines"), (f"[{text}]", "array"), (f"[{text},{text}]", "array"))
        if is_quick(reader, body.encode("utf-8", "surrogatepass"), form)  # type: ignore[arg-type]  # a Form
    }
    for good in (
        '"m": 1.005',
        '"at": "2026-02-03T04:05:06Z"',
        '"day": "2024-02-29"',
        '"f": 1.10',
    ):
        assert any(good in text for text in quick)


@pytest.mark.parametrize("form", ["array", "lines"])
def test_a_request_of_plain_records_is_quick(form: Form) -> None:
    record = {
        "n": 1, "s": "it's {so}: [1, 2]", "t": 127, "i": -5, "f": 1.5, "d": 1e-5, "m": 12.5,
        "b": True, "day": "2026-12-31", "at": "2026-01-31T00:00:00.123456+01:00",
        "lt": "2026-01-31 00:00:00",
    }  # fmt: skip
    missing, null = {"b": False, "s": "no", "n": 2}, dict.fromkeys(SIMPLE) | {"b": True}
    escaped = record | {"s": 'a "quote", ä'}
    for reader in READERS[:2]:
        for found in ([], [record], [record, missing], [null, record], [escaped, record]):
            sent = [r | {"n": 1} if reader is READERS[0] else r for r in found]
            texts = [json.dumps(one) for one in sent]
            body = "\n".join(texts) if form == "lines" else f"[{', '.join(texts)}]"
            assert is_quick(reader, body.encode(), form)
            plain = not any("\\" in text for text in texts)
            assert is_quick(reader, body.encode(), form, "s") == plain


def test_a_request_with_too_many_records_is_left_to_the_rules() -> None:
    reader = READERS[2]
    body = b'{"s":"a"}\n' * (MOST_RECORDS + 1)
    assert reader.quick is not None and reader.quick.read(body, True, None, bool) is not None
    with pytest.raises(TooMany):
        reader.read(body, "lines")


def test_a_stream_of_nested_types_formats_or_odd_names_has_no_quick_reader() -> None:
    assert reader_of({}, a="array<int>").quick is None
    assert reader_of({}, **{'a name with "': "string"}).quick is None
    declared = node({"at": "date"}, {"options": {"dateFormat": "dd.MM.yyyy"}})
    assert Reader(contract_of(declared)).quick is None


def test_a_moment_that_is_certain_is_one_by_the_rules() -> None:
    """Every day, hour, minute and second of two digits, and what may stand around them."""
    digits = [f"{number:02d}" for number in range(100)]
    texts = {f"{year}-{m}-{d}T00:00:00Z" for year in (2024, 2026) for m in digits for d in digits}
    texts |= {f"2026-01-01T{one}:{other}:00" for one in digits for other in digits}
    texts |= {f"2026-01-01T00:{one}:{other}Z" for one in digits for other in digits}
    texts |= {
        f"{before}{date}{sign}{clock}{fraction}{zone}"
        for before in ("", " ")
        for date in ("2026-01-01", "0000-01-01", "0001-01-01", "9999-12-31", "2026-1-1", "20260101")
        for sign in ("T", " ", "t", "_", "")
        for clock in ("23:59:59", "00:00", "00", "0:0:0", "000000", "")
        for fraction in ("", ".", ".5", ".123456789", ".9999999", ",5")
        for zone in ("", "Z", "z", " Z", "+00:00", "-01:00", "+18:30", "+0100", "+01", " UTC", "Z ")
    }
    for name in ("timestamp", "timestamp_ntz"):
        fit = fits(type_of(name))
        certain = [text for text in texts if _are_rfc3339([text], name == "timestamp")]
        assert len(certain) > 500
        assert [text for text in certain if not fit(text)] == []
    assert _are_rfc3339(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"], True)
    assert not _are_rfc3339(["2026-01-01T00:00:00-01:00", "2026"], True)


def test_the_longest_number_is_the_same_for_both() -> None:
    for size, quick in ((LONGEST_NUMBER, True), (LONGEST_NUMBER + 1, False)):
        number = "1." + "0" * (size - 2)
        assert is_quick(READERS[2], f'{{"m": {number}}}'.encode(), "lines") == quick
