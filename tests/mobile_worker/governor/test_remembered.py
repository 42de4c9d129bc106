"""What is kept between runs: the day, the person's pause; damage begins anew."""

import json
from pathlib import Path

import pytest

from mobile_worker.governor.remembered import Remembered


def test_a_day_and_a_pause_outlive_a_run(tmp_path: Path) -> None:
    path = tmp_path / "worker" / "governor.json"
    record = Remembered(path)
    record.day_is("2026-11-30")
    record.add(n_bytes=5, servings=2, uc=7)
    record.pause(None)
    record.save()
    again = Remembered(path)
    again.day_is("2026-11-30")
    assert (again.day_bytes, again.day_servings, again.day_uc) == (5, 2, 7)
    assert again.paused_until(10**15) == 0
    again.day_is("2026-12-01")
    assert (again.day_bytes, again.day_servings, again.day_uc) == (0, 0, 0)
    assert again.paused_until(10**15) == 0


def test_a_pause_for_some_time_ends_by_itself(tmp_path: Path) -> None:
    record = Remembered(tmp_path / "governor.json")
    record.pause(1000)
    assert record.paused_until(999) == 1000
    assert record.paused_until(1000) is None
    record.pause(None)
    record.resume()
    assert record.paused_until(0) is None


def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "governor.json"
    record = Remembered(path)
    record.add()
    record.resume()
    record.save()
    assert not path.exists()
    Remembered(None).save()


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff", b"[]", b"{", b"[" * 9000, b" " * 9000, b'{"day_bytes": 1e999}'],
)
def test_a_damaged_file_begins_anew(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "governor.json"
    path.write_bytes(raw)
    record = Remembered(path)
    assert (record.day_bytes, record.paused_until(0)) == (0, None)


def test_fields_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "governor.json"
    path.write_text(
        json.dumps(
            {
                "day": "2026-11-30" * 99,
                "day_bytes": -4,
                "day_servings": True,
                "day_uc": 9,
                "is_paused": "yes",
                "paused_until_us": 1 << 70,
                "else": 1,
            }
        )
    )
    record = Remembered(path)
    assert (record.day_bytes, record.day_servings, record.day_uc) == (0, 0, 9)
    assert record.paused_until(0) is None


def test_a_folder_that_cannot_be_written_does_not_end_the_worker(tmp_path) -> None:
    (tmp_path / "governor.json.new").mkdir()
    record = Remembered(tmp_path / "governor.json")
    record.pause(None)
    record.save()
    assert record.paused_until(0) == 0
