"""The mapped tier with real children: same values; a child's death costs its calls."""

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.mapped import life, mapped_experts, pending
from p2pmoe.backbone.mapped.life import ChildOrder
from p2pmoe.backbone.mapped.mapped_experts import MappedExperts, map_experts
from p2pmoe.backbone.mapped.restarts import RestartTimes
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.backbone_model import POCKET
from tests.support.mapped import disk_work, right_values, values_of

WAIT_S = 30


class Mapped:
    """A mapped tier over a copy of the pocket model."""

    def __init__(self, file: ModelFile, pause_s: float = 30.0) -> None:
        self.model_file = file
        self.file = ExpertFile(file)
        order = ChildOrder(fds=file.descriptors(), kernel="numpy", n_threads=1)
        self.tier = MappedExperts(
            file, self.file, order, cost=LocalCost(), restarts=RestartTimes(pause_s)
        )

    def ask(self, layer: int, *indices: int):
        return self.tier.begin(disk_work(self.file, layer, *indices)).finish()

    def is_right(self, layer: int, *indices: int) -> bool:
        right = right_values(self.file, disk_work(self.file, layer, *indices))
        return values_of(self.ask(layer, *indices)) == right

    def pid(self) -> int:
        pid = self.tier.child_pid
        assert pid is not None
        return pid

    def until_it_is_gone(self) -> None:
        self.until(lambda: self.tier.child_pid is None)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.005)


@pytest.fixture
def copy(tmp_path):
    return shutil.copy(POCKET, tmp_path / "model.gguf")


@pytest.fixture
def mapped(copy) -> Iterator[Mapped]:
    with open_model(copy) as file:
        found = Mapped(file)
        yield found
        found.tier.close()


@pytest.fixture(scope="module")
def lasting() -> Iterator[Mapped]:
    """A tier for tests that leave its child alive."""
    with open_model(POCKET) as file:
        found = Mapped(file)
        yield found
        found.tier.close()


def test_values_are_the_kernels_and_nothing_starts_before_it_is_needed(lasting):
    assert lasting.tier.child_pid is None
    assert "p2pmoe_mapped_up 0\n" in lasting.tier.samples()
    assert lasting.is_right(2, 4, 9, 30)
    assert lasting.is_right(7, 0, 31)
    assert lasting.tier.restarts.n_starts == 1
    assert lasting.tier.n_reads + lasting.tier.n_hits == 5
    assert lasting.tier.figures().resident_bytes > 1 << 20
    assert lasting.tier.n_bytes == 0


def test_lanes_may_ask_at_once(lasting):
    asked = [
        (layer, lasting.tier.begin(disk_work(lasting.file, layer, 1, 2, 3)))
        for layer in (1, 2, 3)
    ]
    for layer, under_way in reversed(asked):
        right = right_values(lasting.file, disk_work(lasting.file, layer, 1, 2, 3))
        assert values_of(under_way.finish()) == right


def test_a_killed_child_costs_no_value_and_is_not_started_again_at_once(mapped, caplog):
    assert mapped.is_right(2, 4)
    faults = mapped.tier.figures().minor_faults
    os.kill(mapped.pid(), signal.SIGKILL)
    mapped.until_it_is_gone()
    for layer in range(1, 8):
        assert mapped.is_right(layer, 4, 9)
    assert mapped.tier.child_pid is None
    assert mapped.tier.restarts.n_starts == 1
    assert "was ended by SIGKILL" in caplog.text
    assert mapped.tier.lost == set()
    assert mapped.tier.figures().minor_faults == faults


def test_after_a_pause_there_is_another(copy):
    with open_model(copy) as file:
        mapped = Mapped(file, pause_s=0.0)
        mapped.ask(2, 4)
        first = mapped.pid()
        os.kill(first, signal.SIGKILL)
        mapped.until_it_is_gone()
        assert mapped.is_right(2, 4)
        assert mapped.pid() != first
        mapped.tier.close()


def test_killed_with_calls_in_its_hands_they_are_computed_here(mapped):
    mapped.ask(2, 4)
    os.kill(mapped.pid(), signal.SIGSTOP)
    work = disk_work(mapped.file, 3, *range(32))
    under_way = mapped.tier.begin(work)
    os.kill(mapped.pid(), signal.SIGKILL)
    assert values_of(under_way.finish()) == right_values(mapped.file, work)


def test_one_that_hangs_is_ended(mapped, monkeypatch, caplog):
    monkeypatch.setattr(pending, "_LOOK_S", 0.01)
    mapped.ask(2, 4)
    monkeypatch.setattr(life, "_SILENCE_S", 0.05)
    os.kill(mapped.pid(), signal.SIGSTOP)
    assert mapped.is_right(3, 1, 2)
    assert "hangs" in caplog.text
    mapped.until_it_is_gone()


def test_a_file_cut_short_ends_the_child_alone_and_is_told(mapped, copy, caplog):
    """B03 (b): SIGBUS in the child; the parent lives, and says which shard is lost."""
    mapped.ask(2, 4)
    pid = mapped.pid()
    subprocess.run(["truncate", "-s", "4096", str(copy)], check=True)
    answer = mapped.ask(5, 1, 2)
    assert (answer.values, answer.lost) == ({}, (1, 2))
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert any(line.startswith(f"shard lost: {copy}") for line in told)
    assert mapped.tier.lost == {ExpertId(5, 1), ExpertId(5, 2)}
    assert mapped.ask(5, 1).lost == (1,)
    with pytest.raises(ModelFileError):
        mapped.tier.load(ExpertId(5, 1))
    assert mapped.tier.restarts.n_starts == 1
    assert mapped.tier.child_pid in {None, pid}  # nobody maps such a file again


def test_sigbus_is_what_the_child_dies_of(mapped, copy, caplog, monkeypatch):
    """The file is cut after it was last looked at, as in mid-call."""
    mapped.ask(2, 4)
    unchanged = mapped.tier._stamp
    os.truncate(copy, 4096)
    monkeypatch.setattr(mapped.tier._model_file, "stamp", lambda: unchanged)
    under_way = mapped.tier.begin(disk_work(mapped.file, 5, 1, 2))
    mapped.until_it_is_gone()
    mapped.until(lambda: "was ended by SIGBUS" in caplog.text)  # told a moment later
    monkeypatch.undo()
    assert under_way.finish().lost == (1, 2)


def test_a_file_that_is_replaced_goes_on_being_the_old_one(mapped, copy, tmp_path):
    """B03 (c): by a rename."""
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    other.replace(copy)
    assert mapped.is_right(2, 4, 9)
    assert mapped.tier.lost == set()


def test_its_metrics_say_what_the_child_holds_and_go_on_counting(lasting):
    lasting.ask(2, 4)
    samples = dict(
        line.split() for line in lasting.tier.samples().splitlines() if line[0] != "#"
    )
    assert len(samples) == 8
    assert samples["p2pmoe_mapped_up"] == samples["p2pmoe_mapped_starts_total"] == "1"
    assert int(samples["p2pmoe_mapped_resident_bytes"]) > 1 << 20
    assert int(samples["p2pmoe_mapped_virtual_bytes"]) > 1 << 20
    assert samples["p2pmoe_mapped_swap_bytes"].isdigit()


def test_what_is_abandoned_leaves_nothing_behind(lasting):
    for _ in range(5):
        lasting.tier.begin(disk_work(lasting.file, 2, 4, 9)).abandon()
    assert lasting.is_right(2, 4, 9)
    assert not lasting.tier._jobs


def test_without_a_child_experts_are_read(mapped, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(mapped_experts, "ChildLife", fail)
    assert mapped.is_right(2, 4, 9)
    assert mapped.tier.n_read_bytes == 2 * 55_296


def test_an_expert_that_the_model_lacks_is_lost(lasting):
    work = disk_work(lasting.file, 2, 4)
    away = replace(work, calls=[replace(work.calls[0], expert=32)])
    assert lasting.tier.begin(away).finish().lost == (32,)


def test_closing_ends_the_child_without_a_word(mapped, caplog):
    mapped.ask(2, 4)
    caplog.clear()
    mapped.tier.close()
    mapped.until_it_is_gone()
    assert not caplog.records


def test_what_is_no_file_is_refused(lasting, monkeypatch):
    monkeypatch.setattr(lasting.model_file, "descriptors", tuple)
    with pytest.raises(ConfigurationError, match="needs a GGUF file"):
        map_experts(
            lasting.model_file,
            lasting.file,
            kernel="numpy",
            n_threads=1,
            cost=LocalCost(),
        )
    monkeypatch.setattr(mapped_experts.sys, "platform", "win32")
    with pytest.raises(ConfigurationError, match="not for Windows"):
        map_experts(
            lasting.model_file,
            lasting.file,
            kernel="numpy",
            n_threads=1,
            cost=LocalCost(),
        )


def test_a_child_that_ends_before_it_is_known_is_not_kept(copy, monkeypatch):
    """It was, for ever: its end had been told before it was remembered."""

    def ended_at_once(order, heard, ended):
        child = life.ChildLife(replace(order, kernel="none"), heard, ended)
        child._reader.join(WAIT_S)
        return child

    monkeypatch.setattr(mapped_experts, "ChildLife", ended_at_once)
    with open_model(copy) as file:
        mapped = Mapped(file, pause_s=0.0)
        assert mapped.is_right(1, 5)
        assert mapped.tier.child_pid is None
        assert mapped.is_right(1, 5)
        assert mapped.tier.restarts.n_starts == 2
        mapped.tier.close()
