"""The choice of a kernel: order, ties, what is skipped, and what is said of it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mobile_worker.arithmetic.candidates import KERNEL_NAMES, Candidate, Keeps
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.native.extension import BUILD_AGAIN
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.select import (
    KernelChoice,
    Outcome,
    Trial,
    check_kernel,
    check_kernel_name,
    choose_kernel,
    pick,
    try_kernel,
)
from tests.support.flawed_kernel import OneBitKernel

GIGA = 1_000_000_000
ADVICE = "install a C compiler"


def open_numpy(decoded_bytes: int) -> Kernel:
    return NumpyKernel(decoded_cache_bytes=decoded_bytes)


def open_flawed(decoded_bytes: int) -> Kernel:
    return OneBitKernel(decoded_cache_bytes=decoded_bytes)


def open_missing(_: int) -> Kernel:
    raise KernelUnavailable("not built", advice=ADVICE)


CANDIDATES = tuple(
    Candidate(name=name, keeps=Keeps.UNPACKED, open=open_numpy) for name in KERNEL_NAMES
)


def passed(name: str, rate: float) -> Trial:
    return Trial(name=name, outcome=Outcome.PASSED, rate_macs_s=int(rate * GIGA))


def choose(
    rates: Mapping[str, float], *, wanted: str | None = None, failing: str = ""
) -> tuple[KernelChoice, list[str]]:
    """Choose among kernels of these rates; the names of those that were tried, too."""
    tried = []

    def attempt(candidate: Candidate) -> Trial:
        name = candidate.name
        tried.append(name)
        if name == failing:
            return Trial(name=name, outcome=Outcome.FAILED, reason="other bytes")
        if name not in rates:
            return Trial(
                name=name, outcome=Outcome.MISSING, reason="not built", advice=ADVICE
            )
        return passed(name, rates[name])

    return choose_kernel(CANDIDATES, wanted, attempt=attempt), tried


def test_a_native_kernel_with_vectors_ends_the_search() -> None:
    choice, tried = choose({"native/avx2": 5, "native/portable": 1, "wasm/relaxed": 3})
    assert choice.name == "native/avx2"
    assert tried == ["native/avx512", "native/avx2"]
    outcomes = {trial.name: trial.outcome for trial in choice.trials}
    assert outcomes["wasm/relaxed"] is Outcome.UNTRIED
    assert list(outcomes) == list(KERNEL_NAMES)
    assert choice.warnings == ()
    assert choice.line == "computing with native/avx2, 5.0 G multiply-adds a second"


def test_a_native_kernel_without_vectors_must_show_that_it_is_faster() -> None:
    faster_wasm = {"native/portable": 1.0, "wasm/relaxed": 2.0, "numpy": 0.3}
    choice, tried = choose(faster_wasm)
    assert choice.name == "wasm/relaxed"
    assert choice.warnings == ()  # a native one is built
    assert "wasm/plain" not in tried
    assert "numpy" in tried
    choice, _ = choose({"native/portable": 1.7, "wasm/relaxed": 2.0, "numpy": 0.3})
    assert choice.name == "native/portable"


def test_without_a_compiler_wasm_computes_and_a_line_says_what_to_do() -> None:
    choice, _ = choose({"wasm/plain": 1.0, "numpy": 0.3})
    assert choice.name == "wasm/plain"
    assert choice.warnings == (f"not built: {ADVICE}",)


def test_a_wrong_kernel_is_named_and_not_used() -> None:
    choice, tried = choose({"native/avx2": 5}, failing="native/avx512")
    assert choice.name == "native/avx2"
    assert tried == ["native/avx512", "native/avx2"]
    assert choice.warnings == ("kernel native/avx512 is not used: other bytes",)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("numpy", "numpy"),
        ("native", "native/avx2"),
        ("native/portable", "native/portable"),
        ("wasm", "wasm/relaxed"),
        ("wasm/plain", "wasm/plain"),
    ],
)
def test_one_that_is_asked_for_is_taken_however_slow(wanted: str, chosen: str) -> None:
    rates = dict.fromkeys(KERNEL_NAMES[1:], 1.0)
    choice, tried = choose(rates, wanted=wanted)
    assert choice.name == chosen
    assert {name for name in tried if not name.startswith(wanted)} == set()


def test_what_is_asked_for_and_not_there_is_an_error_with_its_reason() -> None:
    unbuilt = [
        replace(each, open=open_missing) if each.family == "native" else each
        for each in CANDIDATES
    ]
    with pytest.raises(KernelUnavailable) as caught:
        choose_kernel(unbuilt, "native")
    assert str(caught.value) == "there is no kernel native on this machine (not built)"
    assert caught.value.advice == ADVICE
    with pytest.raises(KernelUnavailable, match=r"native/avx2 .*other bytes") as caught:
        choose({}, wanted="native/avx2", failing="native/avx2")
    assert "P2PMOE_KERNEL" in caught.value.advice


def test_what_is_not_there_is_answered_with_names_that_are() -> None:
    other = [
        replace(each, open=open_missing) if each.name == "native/neon" else each
        for each in CANDIDATES
    ]
    for check in (check_kernel, choose_kernel):
        with pytest.raises(KernelUnavailable) as caught:
            check(other, "native/neon")
        message = "there is no kernel native/neon on this machine"
        assert str(caught.value) == message
        assert caught.value.advice == (
            "it has native/avx512, native/avx2, native/portable, "
            "wasm/relaxed, wasm/plain, numpy"
        )


def test_a_check_opens_and_computes_nothing() -> None:
    flawed = replace(CANDIDATES[-1], open=open_flawed)
    check_kernel([flawed], "numpy")
    with pytest.raises(KernelUnavailable, match="there is no kernel 'abacus'"):
        check_kernel(CANDIDATES, "abacus")


@pytest.mark.parametrize("name", ["", "Numpy", "native/", "avx2", "native/avx2 ", "x"])
def test_an_unknown_name_is_an_error_that_lists_the_known(name: str) -> None:
    with pytest.raises(KernelUnavailable, match="there is no kernel") as caught:
        check_kernel_name(name)
    assert "wasm/relaxed" in caught.value.advice
    assert caught.value.exit_code == 2


def test_a_machine_on_which_nothing_is_right_computes_nothing() -> None:
    with pytest.raises(KernelUnavailable, match="no kernel computes rightly"):
        choose_kernel([replace(CANDIDATES[-1], open=open_flawed)])


def test_the_first_of_about_the_fastest_is_picked() -> None:
    assert pick([passed("a", 0.81), passed("b", 1.0)]) == passed("a", 0.81)
    assert pick([passed("a", 0.79), passed("b", 1.0)]) == passed("b", 1.0)
    assert pick([]) is None


def test_the_reference_passes_its_trial() -> None:
    trial = try_kernel(CANDIDATES[-1])
    assert trial.outcome is Outcome.PASSED
    assert trial.rate_macs_s > 0


def test_an_extension_of_another_version_is_not_used() -> None:
    def open_stale(_: int) -> Kernel:
        raise AttributeError("module '_kernel' has no attribute 'sets'")

    stale = replace(CANDIDATES[0], open=open_stale)
    trial = try_kernel(stale)
    assert trial.outcome is Outcome.FAILED
    assert trial.reason.startswith("it is not of this version (module '_kernel' has")
    assert trial.advice == f"build it again: {BUILD_AGAIN}"
    choice = choose_kernel([stale, CANDIDATES[-1]])
    assert choice.warnings[0].endswith(trial.advice)


def test_a_chosen_kernel_keeps_weights_within_what_it_is_given() -> None:
    choice, _ = choose({"numpy": 1.0})
    assert choice.keeps is Keeps.UNPACKED
    assert choice.open(12345).decoded_bytes == 12345
