"""What parent and child say comes back as it was, and nothing else is believed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.mapped.messages import (
    Call,
    MessageMalformed,
    Reason,
    Refused,
    Values,
    Work,
    pack_beat,
    pack_refused,
    pack_values,
    pack_work,
    parse_beat,
    parse_refused,
    parse_values,
    parse_work,
)
from p2pmoe.backbone.mapped.process_figures import ProcessCounts, ProcessFigures
from p2pmoe.weights.experts import BiasRange, ExpertRanges, MatrixRange

ROWS = np.random.default_rng(1).standard_normal((3, 64), np.float32)
PARSERS = [parse_work, parse_values, parse_refused, parse_beat]


def matrix(n_rows: int, n_cols: int, offset: int) -> MatrixRange:
    n_bytes = n_rows * n_cols // 32 * 18
    return MatrixRange(
        format=Format.Q4_0, n_rows=n_rows, n_cols=n_cols, offset=offset, n_bytes=n_bytes
    )


def call(index: int, rows: list[int] | None, *, biased: bool = False) -> Call:
    biases = tuple(BiasRange(n=n, offset=n * 7) for n in (96, 96, 64))
    return Call(
        expert=ExpertId(3, index),
        ranges=ExpertRanges(
            gate=matrix(96, 64, 0),
            up=matrix(96, 64, 1 << 40),
            down=matrix(64, 96, 999),
            biases=biases if biased else (),
        ),
        activation=Activation(kind=ActivationKind.SWIGLU_OAI, alpha=1.5, limit=6.0),
        rows=None if rows is None else np.array(rows, np.int64),
    )


def work(*, coded: bool = True, floats: bool = False) -> Work:
    return Work(
        job=7,
        profile=Profile.R16,
        rows=ExpertInput(
            coded=quantize_rows(ROWS) if coded else None,
            floats=ROWS if floats else None,
        ),
        calls=[call(1, [0, 2]), call(9, None, biased=True), call(4, [])],
    )


@pytest.mark.parametrize(
    ("coded", "floats"), [(True, False), (False, True), (True, True)]
)
def test_work_comes_back_as_it_was(coded, floats):
    sent = work(coded=coded, floats=floats)
    got = parse_work(memoryview(pack_work(sent)))
    assert (got.job, got.profile) == (7, Profile.R16)
    for mine, theirs in zip(sent.calls, got.calls, strict=True):
        assert (mine.expert, mine.ranges) == (theirs.expert, theirs.ranges)
        assert mine.activation == theirs.activation
        assert (mine.rows is None) == (theirs.rows is None)
        if mine.rows is not None and theirs.rows is not None:
            assert mine.rows.tolist() == theirs.rows.tolist()
    assert (got.rows.coded is None) == (not coded)
    if got.rows.coded is not None and sent.rows.coded is not None:
        assert got.rows.coded.codes.tobytes() == sent.rows.coded.codes.tobytes()
        assert got.rows.coded.scales.tobytes() == sent.rows.coded.scales.tobytes()
    if got.rows.floats is not None:
        assert got.rows.floats.tobytes() == ROWS.tobytes()


def test_values_come_back_as_they_were():
    sent = Values(
        job=1 << 40,
        expert=ExpertId(2, 31),
        values=ROWS,
        micros=12,
        counts=ProcessCounts(3, 4, 4096),
    )
    got = parse_values(memoryview(pack_values(sent)))
    assert got.values.tobytes() == ROWS.tobytes()
    assert (got.job, got.expert, got.micros) == (1 << 40, ExpertId(2, 31), 12)
    assert got.counts == sent.counts


def test_a_refusal_comes_back_and_its_text_is_bounded():
    sent = Refused(job=1, expert=ExpertId(1, 2), reason=Reason.UNFIT, text="é" * 5000)
    got = parse_refused(memoryview(pack_refused(sent)))
    assert (got.job, got.expert, got.reason) == (1, ExpertId(1, 2), Reason.UNFIT)
    assert got.text == "é" * 500


def test_a_beat_comes_back_as_it_was():
    figures = ProcessFigures(1, 2, 3, 4, 5, 1 << 50)
    assert parse_beat(memoryview(pack_beat(figures))) == figures


@given(st.binary(max_size=300))
def test_what_is_no_message_is_refused(body: bytes):
    for parse in PARSERS:
        try:
            parse(memoryview(body))
        except MessageMalformed:
            continue


@given(st.integers(0, 400), st.integers(0, 255))
def test_work_with_a_byte_changed_or_missing_is_understood_or_refused(at, value):
    body = bytearray(pack_work(work()))
    body[at % len(body)] = value
    for bad in (bytes(body), bytes(body[: at % len(body)])):
        try:
            parse_work(memoryview(bad))
        except MessageMalformed:
            continue


def test_a_row_that_is_not_there_is_refused():
    body = pack_work(
        Work(job=1, profile=Profile.R8, rows=work().rows, calls=[call(1, [3])])
    )
    with pytest.raises(MessageMalformed, match="row 3 of 3"):
        parse_work(memoryview(body))


def test_sizes_beyond_the_message_allocate_nothing():
    body = bytearray(pack_work(work()))
    body[10:18] = b"\xff\xff\xff\xff\xe0\xff\xff\xff"
    with pytest.raises(MessageMalformed, match="too early"):
        parse_work(memoryview(bytes(body)))
