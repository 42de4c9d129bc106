"""Every kernel opens under its own name, or says why it cannot be had."""

import sys

import pytest

from mobile_worker.arithmetic.candidates import (
    KERNEL_NAMES,
    Candidate,
    Keeps,
    family_of,
    kernel_candidates,
)
from mobile_worker.arithmetic.errors import KernelUnavailable

NATIVE = "mobile_worker.arithmetic.native._kernel"
WASM = "mobile_worker.arithmetic.wasm.wasm_kernel"


def candidate(name: str) -> Candidate:
    return next(each for each in kernel_candidates() if each.name == name)


def test_candidates_stand_best_first_in_families() -> None:
    assert tuple(each.name for each in kernel_candidates()) == KERNEL_NAMES
    families = list(dict.fromkeys(each.family for each in kernel_candidates()))
    assert families == ["native", "wasm", "numpy"]
    assert family_of("numpy") == "numpy"


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_a_kernel_opens_under_its_own_name_or_says_why_not(name: str) -> None:
    reason = ""
    try:
        kernel = candidate(name).open(1 << 20)
    except KernelUnavailable as error:
        reason = str(error)
    if reason:
        assert name != "numpy"
        return
    assert kernel.name == name
    assert kernel.decoded_bytes <= 1 << 20
    assert (kernel.decoded_bytes == 0) is (candidate(name).keeps is Keeps.NOTHING)


def test_without_the_extension_the_advice_is_a_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, NATIVE, None)
    with pytest.raises(KernelUnavailable, match="not built") as caught:
        candidate("native/portable").open(0)
    assert "C compiler" in caught.value.advice


def test_without_wasmtime_there_is_no_wasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, WASM, None)
    with pytest.raises(KernelUnavailable, match="wasmtime"):
        candidate("wasm/plain").open(0)
