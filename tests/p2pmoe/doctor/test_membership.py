"""What is said of a token before anybody is asked."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.doctor.findings import Verdict
from p2pmoe.doctor.membership import token
from relay.tokens import Role
from tests.support.relays import NETWORK, key, token_for

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def ending_in(days: float) -> bytes:
    at = NOW + dt.timedelta(days=days)
    return token_for(key(1), not_after_us=int(at.timestamp() * 1e6))


def test_none_is_worth_a_note() -> None:
    found = token(b"", NOW)
    assert found.verdict is Verdict.NOTE
    assert "--invite" in found.advice


@pytest.mark.parametrize(
    ("days", "verdict", "words"),
    [
        (365, Verdict.OK, "good for 365.0 days"),
        (2, Verdict.WARNING, "good for 2.0 days"),
        (-1, Verdict.FAULT, "has ended"),
        (100_000_000, Verdict.OK, "good for 100000000.0 days"),
    ],
)
def test_its_end(days: float, verdict: Verdict, words: str) -> None:
    raw = (
        ending_in(days)
        if days < 10**6
        else token_for(
            key(1), not_after_us=int((NOW.timestamp() + days * 86_400) * 1e6)
        )
    )
    found = token(raw, NOW)
    assert found.verdict is verdict
    assert words in found.text
    assert bool(found.advice) == (verdict is not Verdict.OK)


def test_whom_it_is_for() -> None:
    text = token(token_for(key(1), role=Role.WORKER), NOW).text
    assert NETWORK.peer_id.hex()[:8] in text
    assert "for a worker" in text
    assert f"for peer {key(1).peer_id.hex()[:8]}" in text
    assert "without an end" in text
    assert "for peer" not in token(token_for(key(1), peer_id=None), NOW).text


@given(st.binary(min_size=1, max_size=600))
def test_any_bytes_are_a_finding(raw: bytes) -> None:
    assert token(raw, NOW).verdict is Verdict.FAULT
