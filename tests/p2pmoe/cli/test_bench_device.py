"""`p2pmoe bench device`: figures of this machine, and what presets would take."""

import json

import pytest

from mobile_worker.arithmetic.candidates import Candidate, Keeps, kernel_candidates
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.select import choose_kernel
from mobile_worker.contribute.machine import Machine
from p2pmoe.cli import bench_device as module
from p2pmoe.cli.bench_device import bench_device
from p2pmoe.cli.computing import KERNEL_VARIABLE
from tests.support.commands import run_here

HERE = Machine(memory_bytes=8 << 30, free_memory_bytes=4 << 30, n_cpus=8)
NUMPY = Candidate(
    name="numpy",
    keeps=Keeps.UNPACKED,
    open=lambda n: NumpyKernel(decoded_cache_bytes=n),
)


def test_seconds_become_rates(tmp_path):
    choice = choose_kernel((NUMPY,), "numpy")
    ticks = iter([0.0, 0.5, 2.5])
    found = bench_device(
        choice, tmp_path / "none", HERE, n_bytes=1 << 20, perf_counter=ticks.__next__
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
    choice = choose_kernel((NUMPY,), "numpy")
    assert bench_device(choice, tmp_path, HERE, n_bytes=1).disk_bytes_s == 0.0


@pytest.mark.parametrize("as_json", [False, True])
def test_it_is_told(tmp_path, monkeypatch, as_json):
    monkeypatch.setenv(KERNEL_VARIABLE, "numpy")
    monkeypatch.setattr(module, "_TEST_BYTES", 1)
    shown = run_here("bench", "device", "--data", tmp_path, *["--json"] * as_json)
    assert shown.exit_code == 0, shown.exception
    if as_json:
        assert json.loads(shown.stdout)["kernel"] == "numpy"
    else:
        assert "quiet\t1\t" in shown.stdout
        assert "expert call\t" in shown.stdout
    assert kernel_candidates()
