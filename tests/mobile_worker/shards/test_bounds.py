import math

import pytest

from mobile_worker.shards.bounds import (
    ManifestError,
    check_digest,
    check_float,
    check_int,
    check_text,
)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 11, 10**30])
def test_what_is_no_integer_in_its_bounds_is_refused(value: object) -> None:
    check_int("size", 10, 0, 10)
    with pytest.raises(ManifestError, match="size"):
        check_int("size", value, 0, 10)


@pytest.mark.parametrize("value", [1, "1", math.nan, math.inf, 1e39])
def test_what_is_no_f32_is_refused(value: object) -> None:
    check_float("alpha", -3.4e38)
    with pytest.raises(ManifestError, match="alpha"):
        check_float("alpha", value)


@pytest.mark.parametrize("value", ["", "x" * 201, "a\n", b"a", 7])
def test_what_is_no_text_is_refused(value: object) -> None:
    check_text("name", "x" * 200)
    with pytest.raises(ManifestError, match="name"):
        check_text("name", value)


@pytest.mark.parametrize("value", [b"", bytes(31), "x" * 32, None])
def test_what_is_no_digest_is_refused(value: object) -> None:
    check_digest("digest", bytes(32))
    check_digest("digest", b"", empty=True)
    with pytest.raises(ManifestError, match="digest"):
        check_digest("digest", value)
