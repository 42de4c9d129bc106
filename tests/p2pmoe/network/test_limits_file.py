"""The limits file: what it may say, and that nothing else passes."""

from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.limits_file import parse_limits, read_limits
from relay.live import DEFAULT_RATES
from relay.tokens import RateClass


def test_what_is_left_out_is_as_without_the_file() -> None:
    rates = parse_limits("[phone]\nbytes_s = 4096\n[hub]\nqueue_bytes = 65536\n")
    assert rates[RateClass.PHONE].bytes_s == 4096
    assert rates[RateClass.PHONE].burst == DEFAULT_RATES[RateClass.PHONE].burst
    assert rates[RateClass.HUB].queue_bytes == 65536
    assert rates[RateClass.LAPTOP] == DEFAULT_RATES[RateClass.LAPTOP]
    assert parse_limits("") == DEFAULT_RATES
    assert read_limits(None) == DEFAULT_RATES


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tablet]\n", "'tablet' is no rate class"),
        ("phone = 1\n", "phone is no table"),
        ("[phone]\nbytes = 1\n", "phone.bytes names no limit"),
        ("[phone]\nlease_s = 1\n", "phone.lease_s names no limit"),
        ("[phone]\nbytes_s = 1\n", "not a number from 1024"),
        ("[phone]\nbytes_s = 4294967296\n", "not a number from 1024 to 4294967295"),
        ("[phone]\nbytes_s = true\n", "not a number"),
        ("[phone]\nburst = 1.5\n", "not a number"),
        ("[phone]\nframes_s = 0\n", "not a number from 1 "),
        ("[phone]\nqueue_bytes = '1M'\n", "not a number"),
        ("[phone\n", "expected"),
        ("x = " + "[" * 5000, "nested too deeply"),
        (r'["a\u001bb"]', "is no rate class"),
        ('[phone]\n"a\\u001b[1m\\nb" = 1\n', "phone.a?[1m?b names no limit"),
        ("x = 1" + "0" * 5000, ""),
    ],
)
def test_anything_else_is_one_line_that_names_the_file(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_limits(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()


def test_no_file_no_text_and_too_much_of_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no limits file"):
        read_limits(tmp_path / "absent")
    with pytest.raises(ConfigurationError):
        read_limits(tmp_path)
    path = tmp_path / "limits.toml"
    for raw in (b"\xff\xfe", b"#" * 20_000):
        path.write_bytes(raw)
        with pytest.raises(ConfigurationError):
            read_limits(path)
