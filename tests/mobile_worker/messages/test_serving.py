"""DISPATCH, OUTPUT and ACCEPT: parts that must agree with each other."""

import dataclasses

import pytest

from mobile_worker.errors import MessageError, UnsendableMessage
from mobile_worker.messages import (
    Accept,
    CodedTensor,
    ExpertCall,
    OutputError,
    encode_message,
    parse_message,
)
from tests.support.messages import EXAMPLES

DISPATCH = EXAMPLES["dispatch"]
OUTPUT = EXAMPLES["output"]


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rows": 0},
        {"n_rows": 3},
        {"n_embd": 32},
        {"coded": None},
        {"coded": CodedTensor(codes=bytes(128), scales=bytes(15))},
        {"coded": CodedTensor(codes=bytes(127), scales=bytes(16))},
        {"floats": bytes(511)},
        {"floats": bytes(516)},
        {"first_serving": 2**32 - 1},
        {"calls": (ExpertCall(index=1, rows=(0,)), ExpertCall(index=1, rows=(1,)))},
        {"calls": (ExpertCall(index=1, rows=()),)},
        {"calls": (ExpertCall(index=1, rows=(2,)),)},
        {"calls": (ExpertCall(index=1, rows=(1, 0)),)},
        {"calls": (ExpertCall(index=1, rows=(0, 0)),)},
        {"calls": (ExpertCall(index=1, rows=(-1, 0)),)},
        {"calls": (ExpertCall(index=-1, rows=(0,)),)},
        {"calls": (ExpertCall(index=65_536, rows=(0,)),)},
    ],
)
def test_a_dispatch_that_contradicts_itself(changes):
    with pytest.raises(MessageError):
        dataclasses.replace(DISPATCH, **changes)


@pytest.mark.parametrize(
    "changes", [{"calls": ()}, {"profile": 3}, {"layer": 65_536}, {"tab": b"1"}]
)
def test_a_dispatch_that_cannot_be_sent(changes):
    with pytest.raises(UnsendableMessage):
        encode_message(dataclasses.replace(DISPATCH, **changes))


def test_both_forms_of_rows_travel():
    both = dataclasses.replace(DISPATCH, floats=bytes(range(256)) * 2)
    assert parse_message(encode_message(both)) == both
    floats = dataclasses.replace(both, coded=None)
    assert parse_message(encode_message(floats)) == floats


@pytest.mark.parametrize(
    "changes",
    [
        {"results": b""},
        {"n_rows_total": 0},
        {"results": bytes(769)},
        {"error": OutputError.ARITH},
    ],
)
def test_an_output_that_contradicts_itself(changes):
    with pytest.raises(MessageError):
        dataclasses.replace(OUTPUT, **changes)


def test_an_output_with_an_error_has_no_results():
    for error in OutputError:
        if error:
            failed = dataclasses.replace(
                OUTPUT, error=error, n_rows_total=0, results=b""
            )
            assert parse_message(encode_message(failed)) == failed


def test_ranges_of_an_accept():
    for ranges in (((5, 4),), ((5, 6), (0, 1)), ((0, 5), (5, 9)), ((3, 3), (3, 3))):
        with pytest.raises(MessageError):
            Accept(tab=bytes(8), ranges=ranges)
    for ranges in ((), ((0, 2**32),), ((0,),), [(0, 1)], (3,)):
        with pytest.raises((UnsendableMessage, TypeError, ValueError)):
            encode_message(Accept(tab=bytes(8), ranges=ranges))


def test_words_of_calls_that_do_not_fill():
    kind = type(DISPATCH).FIELDS["calls"]
    for words in (
        b"\5\0\0\0\2\0\0\0\0\0\0\0",
        b"\5\0\0\0",
        b"\5\0\0\0\xff\xff\xff\xff",
    ):
        with pytest.raises(MessageError):
            kind.unpack((len(words) // 4,), memoryview(words))
