"""Some of a trace's passes, and how many there are."""

import pytest

from p2pmoe.trace import kept_passes as module
from p2pmoe.trace.format import Configured, Ended, Given, PositionHashes, TraceRecord
from p2pmoe.trace.kept_passes import keep_passes
from tests.support.passes import a_pass, waited

PROMPT = [a_pass(1.0, waited(0, 1), n_committed=0), a_pass(2.0, n_committed=1)]
DECODE = [a_pass(3.0 + n, waited(n, 1), n_committed=n) for n in range(4)]
RECORDS: list[TraceRecord] = [
    Given({"prompt": "Es war"}),
    Configured({}),
    PROMPT[0],
    PositionHashes(0, ()),
    *PROMPT[1:],
    *DECODE,
    Ended("stop", "x"),
]


def test_passes_are_kept_in_order() -> None:
    found = keep_passes(RECORDS, skip=0, most=99)
    assert found.passes == (*PROMPT, *DECODE)
    assert (found.n_all, found.n_prompt, found.prompt) == (6, 2, "Es war")
    assert found.decoding == tuple(DECODE)


@pytest.mark.parametrize(
    ("skip", "most", "kept", "decoding"),
    [
        (0, 1, PROMPT[:1], []),
        (1, 2, [PROMPT[1], DECODE[0]], DECODE[:1]),
        (3, 2, DECODE[1:3], DECODE[1:3]),
        (9, 2, [], []),
    ],
)
def test_some_are_left_out(skip: int, most: int, kept: list, decoding: list) -> None:
    found = keep_passes(RECORDS, skip=skip, most=most)
    assert list(found.passes) == kept
    assert list(found.decoding) == decoding
    assert found.n_all == 6


def test_layers_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT_LAYERS", 3)
    found = keep_passes(RECORDS, skip=0, most=99)
    assert len(found.passes) == 4
    assert found.n_all == 6


def test_a_trace_without_passes_keeps_none() -> None:
    found = keep_passes(RECORDS[:2], skip=0, most=9)
    assert (found.passes, found.n_all, found.decoding) == ((), 0, ())
