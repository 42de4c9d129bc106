"""A trace file comes back as it was written, and every byte of one may be hostile."""

import io
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.reading import Misread
from p2pmoe.passes.values import LayerTrace, PassTrace
from p2pmoe.trace import format as trace_format
from p2pmoe.trace.format import (
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    TraceRecord,
    TraceUnreadable,
    bounded_lines,
    first_line,
    line_of,
    read_call_hash,
    read_trace,
)

A = "0123456789abcdef"
RECORDS: list[TraceRecord] = [
    Given({"prompt": "Es war \U0001f600\n", "max_tokens": 4, "temperature": 0.5}),
    Configured({"profile": "r16", "numpy": "2.1"}),
    PassTrace(
        start_s=2.5,
        seconds=0.25,
        trips=1,
        layers=(LayerTrace(layer=3, start_s=0.0, missing=(4, 7), trips=1),),
    ),
    PositionHashes(0, (CallHash(1, -1, A), CallHash(1, 4, A[::-1]))),
    PositionHashes(7, ()),
    Ended("stop", "einmal", 3),
]


def written(records: list[TraceRecord] = RECORDS) -> bytes:
    return "".join([first_line("p2pmoe 1"), *map(line_of, records)]).encode()


def read(raw: bytes) -> list[TraceRecord]:
    return list(read_trace(bounded_lines(io.BytesIO(raw))))


def test_what_is_written_is_read_back() -> None:
    assert read(written()) == RECORDS
    failed = [*RECORDS[:5], Ended(None, "ein")]
    assert read(written(failed)) == failed


hashes = st.builds(
    CallHash,
    st.integers(0, 99),
    st.integers(-1, 99),
    st.binary(min_size=8, max_size=8).map(bytes.hex),
)
positions = st.dictionaries(
    st.integers(0, 1000),
    st.lists(hashes, unique_by=lambda h: (h.layer, h.expert)).map(sorted).map(tuple),
)


@given(positions, st.text(), st.dictionaries(st.text(), st.text() | st.integers(0, 9)))
def test_any_run_is_read_back(found: dict, text: str, asked: dict) -> None:
    records = [Given(asked), Configured({})]
    records += [PositionHashes(p, found[p]) for p in sorted(found)]
    records.append(Ended("length", text))
    assert read(written(records)) == records


@given(st.integers(0, len(written()) - 1))
def test_a_trace_cut_short_anywhere_is_unreadable(n_bytes: int) -> None:
    with pytest.raises(TraceUnreadable):
        read(written()[:n_bytes])


@given(st.integers(0, len(written()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read(at: int, byte: int) -> None:
    raw = bytearray(written())
    raw[at] = byte
    with suppress(TraceUnreadable):
        assert isinstance(read(bytes(raw))[-1], Ended)


@given(st.binary(max_size=200))
def test_noise_is_no_trace(raw: bytes) -> None:
    with pytest.raises(TraceUnreadable):
        read(raw)


HEAD = written().split(b"\n")[:3]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"position":-1,"hashes":[]}', "position must be from 0"),
        (b'{"position":true,"hashes":[]}', "position must be an integer"),
        (b'{"position":1e3,"hashes":[]}', "position must be an integer"),
        (b'{"position":9999999999999,"hashes":[]}', "position must be from"),
        (b'{"position":1,"hashes":[[1,2]]}', "not .layer"),
        (b'{"position":1,"hashes":[1]}', "not .layer"),
        (b'{"position":1,"hashes":[[1,null,"xyz"]]}', "16 hexadecimal"),
        (b'{"position":1,"hashes":[[1,-1,"0123456789abcdef"]]}', "number or null"),
        (b'{"position":1,"hashes":[[true,1,"0123456789abcdef"]]}', "layer must"),
        (b'{"position":1,"hashes":[[9999999,1,"0123456789abcdef"]]}', "too large"),
        (
            b'{"position":1,"hashes":[[2,1,"0123456789abcdef"],'
            b'[2,1,"0123456789abcdef"]]}',
            "ascending",
        ),
        (b'{"position":1}', "hashes is missing"),
        (b'{"pass":5}', "a pass is no object"),
        (b'{"pass":{"trips":-1}}', "out of bounds"),
        (b'{"end":"stop"}', "text is missing"),
        (b'{"end":5,"text":"","usage":{}}', "end must be a string"),
        (b'{"text":"","usage":{}}', "end is missing"),
        (b"[1]", "no JSON object"),
        (b'{"a":1,"a":2}', "duplicate key 'a'"),
        (b'{"a":NaN}', "no JSON number"),
        (b'{"a":' + b"1" * 5000 + b"}", "too large"),
        (b"[" * 20_000, "nested too deeply|not valid"),
        (b'{"\xff":1}', "not UTF-8"),
    ],
)
def test_what_breaks_a_rule_is_named_with_its_line(line: bytes, reason: str) -> None:
    with pytest.raises(TraceUnreadable, match=reason) as refused:
        read(b"\n".join([*HEAD, line, b""]))
    assert str(refused.value).startswith("line 4: ")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "breaks off"),
        (b'{"format":"other","version":1}\n', "not the first line"),
        (b'{"format":"p2pmoe-trace","version":3}\n', "version 3"),
        (b'{"format":"p2pmoe-trace","version":0}\n', "version 0"),
        (written() + b"{}\n", "behind the end"),
        (b"\n".join([*HEAD, b'{"position":4,"hashes":[]}'] * 2), "line 5: "),
        (
            b"\n".join([*HEAD, *[b'{"position":4,"hashes":[]}'] * 2, b""]),
            "position 4 is late",
        ),
    ],
)
def test_what_is_no_whole_trace_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(TraceUnreadable, match=reason):
        read(raw)


def test_a_line_without_an_end_takes_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_format, "MAX_LINE_BYTES", 100)
    with pytest.raises(TraceUnreadable, match="longer than 100 bytes"):
        read(b"x" * 101)


def test_too_many_fields_are_refused() -> None:
    many = json.dumps({"input": {str(n): n for n in range(2000)}}).encode()
    with pytest.raises(TraceUnreadable, match="2000 fields"):
        read(b"\n".join([HEAD[0], many, b""]))


def test_a_trace_of_the_version_before_is_read() -> None:
    old = [record for record in RECORDS if not isinstance(record, PassTrace)]
    assert read(written(old).replace(b'"version":2', b'"version":1')) == old


def test_a_hash_of_an_api_is_checked_alike() -> None:
    assert read_call_hash(3, None, A) == CallHash(3, -1, A)
    with pytest.raises(Misread):
        read_call_hash(3, 1, A.upper())
