"""Load by fake counters: others', not ours."""

from pathlib import Path

import pytest

from mobile_worker.governor.processors import Load, ProcessorWatch, own_seconds
from tests.support.machines import FakeMachine


class Own:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def watched(tmp_path: Path) -> tuple[FakeMachine, Own, ProcessorWatch]:
    machine, own = FakeMachine(tmp_path), Own()
    machine.busy(0, of=0)
    return machine, own, ProcessorWatch(tmp_path / "proc/stat", own)


def test_our_own_work_is_not_others(tmp_path: Path) -> None:
    machine, own, watch = watched(tmp_path)
    assert watch.look(0.0) is None
    machine.busy(12, of=40)  # four processors, 10 s
    own.seconds = 8
    assert watch.look(10.0) == Load(pytest.approx(0.1), pytest.approx(0.8))


def test_ten_seconds_must_have_been_seen(tmp_path: Path) -> None:
    machine, _, watch = watched(tmp_path)
    for second in range(0, 10, 2):
        machine.busy(4, of=4)
        assert watch.look(float(second)) is None
    machine.busy(4, of=4)
    assert watch.look(10.0) == Load(1.0, 0.0)


def test_what_is_older_than_ten_seconds_is_forgotten(tmp_path: Path) -> None:
    machine, _, watch = watched(tmp_path)
    for second in range(0, 60, 2):
        machine.busy(4 if second <= 30 else 0, of=4)
        load = watch.look(float(second))
    assert load == Load(0.0, 0.0)


def test_a_counter_that_goes_back_begins_anew(tmp_path: Path) -> None:
    machine, _, watch = watched(tmp_path)
    machine.busy(40, of=40)
    watch.look(0.0)
    machine.ticks = [0, 0, 0, 0]
    machine.busy(1, of=40)
    assert watch.look(20.0) is None


def test_time_that_a_hypervisor_stole_is_nobodys(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
    watch = ProcessorWatch(path, lambda: 0.0)
    watch.look(0.0)
    path.write_text("cpu 100 0 0 900 0 0 0 5000 0 0\n")
    assert watch.look(10.0) == Load(pytest.approx(0.1), 0.0)


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "cpu a b c d\n", "x" * 600])
def test_counters_of_rubbish_are_no_reading(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    assert ProcessorWatch(tmp_path / "stat").look(0.0) is None
    assert ProcessorWatch(tmp_path / "nowhere").look(0.0) is None


def test_own_seconds_grow() -> None:
    assert own_seconds() >= 0.0
