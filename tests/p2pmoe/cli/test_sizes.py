"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.cli.sizes import format_size, parse_size
from p2pmoe.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1", 1),
        ("4096", 4096),
        ("1K", 1024),
        ("512M", 512 << 20),
        ("512MiB", 512 << 20),
        ("512MB", 512 << 20),
        ("1.5G", 3 << 29),
        ("0.5K", 512),
        (" 2T ", 2 << 40),
        ("1024T", 1 << 50),
    ],
)
def test_what_is_meant(text: str, n_bytes: int) -> None:
    assert parse_size(text, option="--memory") == n_bytes


@pytest.mark.parametrize(
    "text",
    [
        *("", "M", "512m", "5 M", "-1", "+1", "1e9", "1_000", "1.5", "1.G", ".5G"),
        *("0", "0M", "0.0001K", "1025T", "9" * 16, "12MM", "12Mi", "12P", "nan"),
        *("inf", "0x10", "\u0661M"),
    ],
)
def test_anything_else_names_the_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--memory") as caught:
        parse_size(text, option="--memory")
    assert caught.value.advice
    assert "\n" not in str(caught.value)


@given(st.integers(1, 1 << 50))
def test_what_is_shown_reads_back_nearly(n_bytes: int) -> None:
    read = parse_size(format_size(n_bytes).removesuffix("B"), option="x")
    assert abs(read - n_bytes) <= n_bytes * 0.06


def test_shown_short() -> None:
    shown = [format_size(n) for n in (0, 5, 1024, 1536, 512 << 20, 3 << 29)]
    assert shown == ["0B", "5B", "1K", "1.5K", "512M", "1.5G"]
