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


@pytest.mark.parametrize("profile", list(Profile))
def test_b14_a_value_beyond_f16_comes_through_finite(profile: Profile) -> None:
    rows = Y.copy()
    rows[0, 0] = 65_520.0  # f16 would make it infinite
    answer = output(3, encode_result(rows, profile))
    first, _ = read_output(shape(profile), answer, PEER)
    assert np.isfinite(first.values).all()
    assert first.values[0, 0] == pytest.approx(65_520.0, rel=1e-6)


def test_b14_an_f16_overflow_in_f32_clothes_is_refused() -> None:
    with np.errstate(over="ignore"):
        halves = (Y + np.float32(65_520)).astype(np.float16).astype("<f4")
    assert np.isinf(halves).any()
    with pytest.raises(OutputRefused, match="not finite"):
        read_output(shape(Profile.R32), output(3, halves.tobytes()), PEER)


@pytest.mark.parametrize(
    ("profile", "code"), [(Profile.R16, b"\x00\x80"), (Profile.R8, b"\x80")]
)
def test_b14_codes_and_scales_that_cannot_occur_are_refused(
    profile: Profile, code: bytes
) -> None:
    coded = encode_result(Y, profile)
    width = len(coded) // 3
    lowest = code + coded[len(code) :]
    below_zero = bytearray(coded)
    below_zero[width - 4 : width] = np.float32(-1.0).tobytes()
    for results in (lowest, bytes(below_zero)):
        with pytest.raises(OutputRefused) as caught:
            read_output(shape(profile), output(3, results), PEER)
        assert caught.value.peer == PEER


def test_b14_rows_go_by_their_place_and_by_nothing_else() -> None:
    # Permuted rows are finite rows of the right number: only a recomputation tells.
    coded = encode_result(Y[::-1].copy(), Profile.R32)
    first, second = read_output(shape(Profile.R32), output(3, coded), PEER)
    assert np.array_equal(first.values, Y[[2, 1]])
    assert np.array_equal(second.values, Y[[0]])
