"""`p2pmoe bench device`: figures of this machine, and what presets would take."""

import json
from types import SimpleNamespace

import pytest

from mobile_worker.contribute.machine import Machine
from p2pmoe.cli import bench_device as module
from p2pmoe.cli.bench_device import bench_device
from tests.support.commands import run_here

HERE = Machine(memory_bytes=8 << 30, free_memory_bytes=4 << 30, n_cpus=8)
CHOICE = SimpleNamespace(name="numpy", rate_macs_s=3_000_000_000, warnings=("slow",))


def test_seconds_become_rates(tmp_path):
    ticks = iter([0.0, 0.5, 2.5])
    found = bench_device(
        CHOICE, tmp_path / "none", HERE, n_bytes=1 << 20, perf_counter=ticks.__next__
    )
    assert found.hash_bytes_s == 2 << 20
    assert found.disk_bytes_s == (1 << 20) / 2
    assert found.call_ms > 0
    assert list(tmp_path.iterdir()) == []
    presets = found.as_json()["presets"]
    assert presets["quiet"]["threads"] <= presets["max"]["threads"] == 8


def test_a_disk_that_takes_nothing_is_told_as_0(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", refuse)
    assert bench_device(CHOICE, tmp_path, HERE, n_bytes=1).disk_bytes_s == 0.0


@pytest.mark.parametrize("as_json", [False, True])
def test_it_is_told(tmp_path, monkeypatch, as_json):
    monkeypatch.setattr(
        "mobile_worker.arithmetic.select.choose_kernel", lambda *_: CHOICE
    )
    monkeypatch.setattr(module, "_TEST_BYTES", 1)
    shown = run_here("bench", "device", "--data", tmp_path, *["--json"] * as_json)
    assert shown.exit_code == 0, shown.exception
    if as_json:
        assert json.loads(shown.stdout)["kernel"] == "numpy"
    else:
        assert "quiet\t1\t" in shown.stdout
        assert "expert call\t1.57 ms" in shown.stdout
        assert shown.stderr == "slow\n"
