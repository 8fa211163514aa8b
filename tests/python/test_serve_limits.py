"""Test the limits of requests to the HTTP endpoint, and its clients' keys, without a server."""

from __future__ import annotations

import asyncio
import gzip
import hmac
from collections.abc import AsyncIterator

import pytest

from headwaters.http.keys import Keys, keys_from
from headwaters.http.limits import Body, Budget, Refusal, form_of
from headwaters.platform.errors import UserError


def body(*chunks: bytes, zipped: bool = False, limit: int = 1000, budget: int = 10_000) -> bytes:
    async def sent() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return asyncio.run(Body(Budget(budget), limit).read(sent(), zipped))


def test_a_body_is_read_as_it_comes_and_unpacked() -> None:
    packed = gzip.compress(b"a" * 900) + gzip.compress(b"b" * 100)
    assert body(b"ab", b"", b"c") == b"abc"
    assert body(*(packed[i : i + 1] for i in range(len(packed))), zipped=True) == (
        b"a" * 900 + b"b" * 100
    )


@pytest.mark.parametrize(
    ("chunks", "zipped", "code"),
    [
        ([b"a" * 600, b"a" * 600], False, 413),
        ([gzip.compress(b"a" * 10_000_000)], True, 413),
        ([gzip.compress(b"")] * 500, True, 413),
        ([gzip.compress(b"a" * 100)[:-1]], True, 400),
        ([b"no gzip"], True, 400),
        ([gzip.compress(b"a"), b"\0" * 8], True, 400),
        ([], True, 400),
    ],
)
def test_a_body_beyond_its_limits_is_refused(chunks: list[bytes], zipped: bool, code: int) -> None:
    with pytest.raises(Refusal) as refusal:
        body(*chunks, zipped=zipped)
    assert refusal.value.code == code


def test_all_bodies_in_flight_share_a_budget() -> None:
    budget = Budget(100, taken=90)
    one = Body(budget, 1000)

    async def sent() -> AsyncIterator[bytes]:
        yield b"a" * 10
        yield b"a"

    with pytest.raises(Refusal) as refusal:
        asyncio.run(one.read(sent(), False))
    assert (refusal.value.code, budget.taken) == (429, 100)
    one.give_back()
    assert budget.taken == 90


def test_a_content_type_says_what_a_body_is() -> None:
    assert form_of("application/json") == form_of("application/json; charset=UTF-8") == "array"
    assert form_of("application/x-ndjson") == "lines"
    for other in (None, "", "text/plain", "application/json; charset=latin-1"):
        with pytest.raises(Refusal):
            form_of(other)


def test_keys_come_from_the_environment_and_each_of_them_admits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = "a" * 32, "b" * 32
    monkeypatch.setenv("SOME_KEYS", f" {one}\n,{other} ")
    keys = keys_from("SOME_KEYS", "0.0.0.0")
    admitted = [f"Bearer {one}", f"bearer  {other}"]
    refused = [None, "", one, f"Basic {one}", f"Bearer {one}{other}", "Bearer ", "Bearer \udcff"]
    assert [keys.admit(header) for header in admitted] == [True, True]
    assert [keys.admit(header) for header in refused] == [False] * 7
    assert one not in repr(vars(keys))
    assert Keys(()).admit(None)


def test_every_key_is_compared_in_constant_time_whatever_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def recorded(given: bytes, known: bytes) -> bool:
        compared.append((len(given), len(known)))
        return compare(given, known)

    monkeypatch.setattr(hmac, "compare_digest", recorded)
    keys = Keys(["a" * 32, "b" * 32])
    for header in (None, "", f"Bearer {'a' * 32}", f"Bearer {'b' * 32}", f"Bearer {'c' * 50_000}"):
        keys.admit(header)
    assert compared == [(32, 32)] * 2 * 5


@pytest.mark.parametrize(
    ("value", "variable", "host"),
    [("", "SOME_KEYS", "127.0.0.1"), ("short", "SOME_KEYS", "127.0.0.1"), ("", None, "0.0.0.0")],
)
def test_an_endpoint_without_keys_is_for_this_machine_alone(
    value: str, variable: str | None, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEYS", value)
    with pytest.raises(UserError, match="HW_SERVE_KEYS") as error:
        keys_from(variable, host)
    assert not value or value not in str(error.value).replace("--keys-from", "")
    assert not keys_from(None, "127.0.0.1")
