"""P2PMOE_KERNEL, a native kernel that is not built, and the cores."""

import sys
from types import ModuleType

import pytest

from mobile_worker.arithmetic.candidates import Candidate, Keeps
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.contribute import machine
from p2pmoe.cli.computing import (
    KERNEL_VARIABLE,
    default_threads,
    line_without_native,
    wanted_kernel,
)

MODULE = "mobile_worker.arithmetic.native._kernel"
NUMPY = Candidate(name="numpy", keeps=Keeps.UNPACKED, open=lambda _: NumpyKernel())


def no_neon(_: int) -> Kernel:
    raise KernelUnavailable("no neon")


WITHOUT_NEON = Candidate(name="native/neon", keeps=Keeps.NOTHING, open=no_neon)


def test_the_kernel_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KERNEL_VARIABLE, raising=False)
    assert wanted_kernel() is None
    monkeypatch.setenv(KERNEL_VARIABLE, "")
    assert wanted_kernel() is None
    monkeypatch.setenv(KERNEL_VARIABLE, "numpy")
    assert wanted_kernel() == "numpy"
    monkeypatch.setenv(KERNEL_VARIABLE, "abacus")
    with pytest.raises(KernelUnavailable, match="abacus"):
        wanted_kernel()


def test_a_known_kernel_that_is_not_here_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "mobile_worker.arithmetic.candidates.kernel_candidates",
        lambda: (WITHOUT_NEON, NUMPY),
    )
    monkeypatch.setenv(KERNEL_VARIABLE, "native/neon")
    with pytest.raises(KernelUnavailable, match="no kernel native/neon on this"):
        wanted_kernel()


def test_a_line_says_that_the_native_kernel_was_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    line = line_without_native()
    assert line.startswith("the native kernel was not built: install a C compiler")
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))
    assert line_without_native() == ""


def test_threads_are_the_cores_up_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cpus", lambda: 3)
    assert default_threads() == 3
    monkeypatch.setattr(machine, "usable_cpus", lambda: 64)
    assert default_threads() == 8
