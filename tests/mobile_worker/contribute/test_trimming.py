"""Free memory goes back to the system, where the allocator takes a word."""

import ctypes

import pytest

from mobile_worker.contribute.trimming import give_back_memory


def test_it_is_done_or_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert give_back_memory() in {True, False}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert give_back_memory() is False
