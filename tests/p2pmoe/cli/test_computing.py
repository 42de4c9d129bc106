"""P2PMOE_KERNEL and the cores, as commands that compute see them."""

import pytest

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.contribute import machine
from p2pmoe.cli.computing import KERNEL_VARIABLE, default_threads, wanted_kernel


def test_the_kernel_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KERNEL_VARIABLE, raising=False)
    assert wanted_kernel() is None
    monkeypatch.setenv(KERNEL_VARIABLE, "")
    assert wanted_kernel() is None
    monkeypatch.setenv(KERNEL_VARIABLE, "native/avx2")
    assert wanted_kernel() == "native/avx2"
    monkeypatch.setenv(KERNEL_VARIABLE, "abacus")
    with pytest.raises(KernelUnavailable, match="abacus"):
        wanted_kernel()


def test_threads_are_the_cores_up_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cpus", lambda: 3)
    assert default_threads() == 3
    monkeypatch.setattr(machine, "usable_cpus", lambda: 64)
    assert default_threads() == 8
