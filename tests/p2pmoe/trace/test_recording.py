"""What the API tells of a run, checked and written line by line."""

import pytest

from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.format import (
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    read_trace,
)
from p2pmoe.trace.recording import NoTrace, TraceRecorder, flat_configuration

A = "0123456789abcdef"


def begun() -> tuple[TraceRecorder, list[str]]:
    lines: list[str] = []
    recorder = TraceRecorder(lines.append, "p2pmoe 1")
    recorder.begin(Given({"prompt": "a"}), Configured({}))
    return recorder, lines


def test_chunks_become_positions() -> None:
    recorder, lines = begun()
    recorder.watch(None)
    recorder.watch({"hashes": [[0, 2, 5, A], [0, 2, None, A], [1, 2, None, A]]})
    recorder.watch({"hashes": [[2, 2, None, A]]})
    recorder.end("stop", "text", 2)
    recorder.end(None, "text")  # the first end counts
    assert recorder.n_hashes == 4
    assert list(read_trace(line.encode() for line in lines))[2:] == [
        PositionHashes(0, (CallHash(2, -1, A), CallHash(2, 5, A))),
        PositionHashes(1, (CallHash(2, -1, A),)),
        PositionHashes(2, (CallHash(2, -1, A),)),
        Ended("stop", "text", 2),
    ]


def test_passes_are_kept_before_what_they_gave() -> None:
    recorder, lines = begun()
    told = {"start_s": 1.5, "seconds": 0.25, "trips": 2}
    recorder.watch({"passes": [told], "hashes": [[0, 2, None, A]]})
    recorder.end("stop", "text", 2)
    _, _, one, position, _ = read_trace(line.encode() for line in lines)
    assert one == PassTrace(start_s=1.5, seconds=0.25, trips=2)
    assert isinstance(position, PositionHashes)
    for odd in (5, [5], [{"trips": -1}], {"a": 1}):
        with pytest.raises(NoTrace, match="passes cannot be used"):
            begun()[0].watch({"passes": odd})


@pytest.mark.parametrize(
    "hashes",
    [
        {},
        [5],
        [[0, 1, 2]],
        [["0", 1, 2, A]],
        [[-1, 1, 2, A]],
        [[0, 1, 2, "short"]],
        [[1, 1, 2, A], [0, 1, 2, A]],
        [[1, 1, 2, A], [1, 1, 2, A]],
        [[0, {}, 2, A]],
    ],
)
def test_hashes_that_are_none_are_refused(hashes: object) -> None:
    recorder, _ = begun()
    with pytest.raises(NoTrace):
        recorder.watch({"hashes": hashes})


def test_a_configuration_is_flat() -> None:
    card = {
        "p2pmoe": {
            "configuration": {
                "profile": "r16",
                "ram_bytes": None,
                "formats": {"router": "F32 x 7", "deep": {"er": 1}},
            }
        }
    }
    assert flat_configuration(card).fields == {
        "formats: deep": "{'er': 1}",
        "formats: router": "F32 x 7",
        "profile": "r16",
        "ram_bytes": "none",
    }
    for odd in ({}, {"p2pmoe": 5}, {"p2pmoe": {"configuration": []}}):
        assert flat_configuration(odd) == Configured({})
