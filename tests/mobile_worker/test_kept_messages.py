"""Messages over a restart; a file that is damaged is one that is not there."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mobile_worker import messages
from mobile_worker.kept_messages import read_messages, write_messages

SAID = [
    messages.Renew(lease=b"lease-01"),
    messages.Draining(reason="over"),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert read_messages(path, max_bytes=100) == []
    write_messages(path, SAID)
    assert read_messages(path, max_bytes=1000) == SAID
    write_messages(path, [])
    assert read_messages(path, max_bytes=1000) == []
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_what_is_too_long_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kept"
    write_messages(path, SAID)
    assert read_messages(path, max_bytes=20) == []
    assert "passed over" in caplog.text
    assert read_messages(tmp_path, max_bytes=20) == []  # a folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 200), st.binary(max_size=40))
def test_b03_damage_is_no_traceback(tmp_path: Path, at: int, junk: bytes) -> None:
    path = tmp_path / "kept"
    write_messages(path, SAID)
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + junk)
    assert read_messages(path, max_bytes=1000) in ([], SAID, SAID[:1])
