"""B14, B34: an answer is believed row for row or not at all."""

import numpy as np
import pytest

from mobile_worker.arithmetic.profiles import Profile, encode_result
from mobile_worker.messages.serving import Output
from p2pmoe.backbone.outputs import OutputShape, read_output
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.errors import OutputRefused

CALLS = (ExpertRows(expert=3, rows=(0, 2)), ExpertRows(expert=5, rows=(1,)))
Y = np.linspace(-2, 2, 3 * 64, dtype=np.float32).reshape(3, 64)
PEER = bytes(32)


def output(n_rows: int, results: bytes) -> Output:
    return Output(
        request=1, error=0, compute_us=5, n_rows_total=n_rows, results=results
    )


def shape(profile: Profile) -> OutputShape:
    return OutputShape(calls=CALLS, profile=profile, n_embd=64)


@pytest.mark.parametrize("profile", list(Profile))
def test_rows_come_back_by_call(profile: Profile) -> None:
    coded = encode_result(Y, profile)
    first, second = read_output(shape(profile), output(3, coded), PEER)
    assert first.call.expert == 3
    assert first.values.shape == (2, 64)
    assert second.values.shape == (1, 64)
    assert first.coded + second.coded == coded
    assert encode_result(second.values, profile) == second.coded


@pytest.mark.parametrize("profile", list(Profile))
def test_b14_counts_and_lengths_must_be_those_asked_for(profile: Profile) -> None:
    coded = encode_result(Y, profile)
    width = len(coded) // 3
    wrong = [
        output(4, coded + coded[:width]),
        output(2, coded[: 2 * width]),
        output(3, coded[:-3]),
        output(6, coded),
        output(1, coded),
    ]
    for answer in wrong:
        with pytest.raises(OutputRefused):
            read_output(shape(profile), answer, PEER)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_b14_non_finite_values_are_refused(value: float) -> None:
    rows = Y.copy()
    rows[1, 7] = value
    with pytest.raises(OutputRefused):
        read_output(shape(Profile.R32), output(3, rows.tobytes()), PEER)
    coded = bytearray(encode_result(Y, Profile.R16))
    coded[128:132] = np.float32(value).tobytes()  # the first row's first scale
    with pytest.raises(OutputRefused):
        read_output(shape(Profile.R16), output(3, bytes(coded)), PEER)


def test_b14_an_overflow_in_decoding_is_refused() -> None:
    coded = bytearray(encode_result(Y, Profile.R16))
    coded[128:132] = np.float32(3e38).tobytes()
    with pytest.raises(OutputRefused):
        read_output(shape(Profile.R16), output(3, bytes(coded)), PEER)
