"""Waiting for a worker's end: until its key is free, and no longer than told."""

import pytest

from mobile_worker.session.identity import load_or_create
from p2pmoe.contributor.ending import wait_until_ended
from p2pmoe.contributor.errors import WorkerSilent


def test_it_waits_until_the_key_is_free(tmp_path):
    wait_until_ended(tmp_path)  # no key at all
    identity = load_or_create(tmp_path / "identity")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            identity.release()

    wait_until_ended(tmp_path, sleep=sleep)
    assert len(slept) == 3


def test_one_that_does_not_end_is_told(tmp_path):
    identity = load_or_create(tmp_path / "identity")
    with pytest.raises(WorkerSilent, match="not ended within 1 s"):
        wait_until_ended(tmp_path, within_s=1.0, sleep=lambda _: None)
    identity.release()
