import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from mobile_worker.arithmetic.profiles import (
    Profile,
    decode_result,
    encode_result,
    result_row_bytes,
    round_result,
)
from tests.support.golden import golden, to_floats

SMALL = st.floats(-(2.0**99), 2.0**99, width=32)


@pytest.mark.parametrize("case", golden("coding.json"), ids=lambda c: c["name"])
@pytest.mark.parametrize("profile", [Profile.R16, Profile.R8])
def test_golden_bytes(case: dict[str, str], profile: Profile) -> None:
    y = to_floats(case["x"])[None]
    coded = encode_result(y, profile)
    assert coded.hex() == case[profile.name]
    decoded = decode_result(coded, profile, 1, y.shape[1])
    assert np.array_equal(decoded[0], to_floats(case[f"{profile.name} decoded"]))


@given(st.lists(SMALL, min_size=64, max_size=64), st.sampled_from(list(Profile)))
def test_rounding_at_home_is_coding_and_decoding(
    values: list[float], profile: Profile
) -> None:
    y = np.array(values, np.float32).reshape(2, 32)
    coded = encode_result(y, profile)
    assert len(coded) == 2 * result_row_bytes(profile, 32)
    assert np.array_equal(
        round_result(y, profile), decode_result(coded, profile, 2, 32)
    )


def test_sizes_per_32_values() -> None:
    sizes = {profile: result_row_bytes(profile, 32) for profile in Profile}
    assert sizes == {Profile.R32: 128, Profile.R16: 68, Profile.R8: 36}
    with pytest.raises(ShapeMismatch):
        result_row_bytes(Profile.R8, 48)


def test_the_error_is_what_the_profile_promises() -> None:
    y = np.random.default_rng(1).standard_normal((50, 256)).astype(np.float32)
    for profile, bound in ((Profile.R16, 4e-5), (Profile.R8, 1e-2)):
        error = np.linalg.norm(round_result(y, profile) - y) / np.linalg.norm(y)
        assert error < bound


@pytest.mark.parametrize("profile", list(Profile))
def test_a_result_that_is_not_finite_is_refused(profile: Profile) -> None:
    y = np.zeros((1, 32), np.float32)
    y[0, 3] = np.inf
    for function in (encode_result, round_result):
        with pytest.raises(NonFinite):
            function(y, profile)


@pytest.mark.parametrize("profile", list(Profile))
def test_another_length_is_refused(profile: Profile) -> None:
    coded = encode_result(np.ones((2, 32), np.float32), profile)
    for wrong in (coded[:-1], coded + b"\0", b""):
        with pytest.raises(ShapeMismatch, match="bytes"):
            decode_result(wrong, profile, 2, 32)


@pytest.mark.parametrize("profile", list(Profile))
def test_no_rows_are_no_bytes(profile: Profile) -> None:
    assert encode_result(np.zeros((0, 64), np.float32), profile) == b""
    assert decode_result(b"", profile, 0, 64).shape == (0, 64)


def test_impossible_codes_and_scales_are_refused() -> None:
    coded = bytearray(encode_result(np.ones((1, 32), np.float32), Profile.R8))
    coded[4] = 0x80
    with pytest.raises(CodeRefused, match="-128"):
        decode_result(bytes(coded), Profile.R8, 1, 32)
    coded = bytearray(encode_result(np.ones((1, 32), np.float32), Profile.R16))
    for scale in (np.nan, np.inf, -1.0):
        coded[64:] = np.float32(scale).tobytes()
        with pytest.raises(CodeRefused, match="scale"):
            decode_result(bytes(coded), Profile.R16, 1, 32)
    coded[64:] = np.float32(3e38).tobytes()
    with pytest.raises(NonFinite):
        decode_result(bytes(coded), Profile.R16, 1, 32)
    with pytest.raises(NonFinite):
        decode_result(np.full(32, np.nan, "<f4").tobytes(), Profile.R32, 1, 32)
