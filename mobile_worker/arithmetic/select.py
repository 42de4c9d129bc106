"""Which kernel this machine computes with: native, else wasm, else numpy.

Candidates are tried best first. One that is there must give the specification's digest
(`self_test`) or is never used; then its rate is measured for a twentieth of a second,
with no memory to keep unpacked weights in, as it is with more experts than fit. Of
those that passed, the fastest is taken, and on a near tie the one that stands first.

What cannot win is not tried, so that a start neither waits for it nor holds its memory:
the slower kernels of a family after its best one, and everything else after a native
one with vector instructions, which no wasm engine of 128 bits outruns.

`wanted` names one kernel (native/avx2) or a family (native) and leaves out the others;
it is handed in, nothing here reads the environment. All kernels give the same bytes, so
the choice is one of speed alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mobile_worker.arithmetic.candidates import (
    KERNEL_NAMES,
    Candidate,
    Keeps,
    family_of,
)
from mobile_worker.arithmetic.errors import ArithmeticRefused, KernelUnavailable
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.native.extension import BUILD_AGAIN
from mobile_worker.arithmetic.rate import measure_rate
from mobile_worker.arithmetic.self_test import self_test
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST

__all__ = [
    "KernelChoice",
    "Outcome",
    "Trial",
    "check_kernel",
    "check_kernel_name",
    "choose_kernel",
    "pick",
    "try_kernel",
]

TRIAL_S: Final = 0.05
_NEAR_TIE: Final = 0.8  # of the fastest one's rate
_SCALAR_NATIVE: Final = "native/portable"


class Outcome(StrEnum):
    """What became of a candidate."""

    PASSED = "passed"
    FAILED = "failed"  # it is there and gives other bytes
    MISSING = "missing"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate's outcome; its rate in multiply-adds a second where it passed."""

    name: str
    outcome: Outcome
    reason: str = ""
    advice: str = ""
    rate_macs_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """The chosen kernel, and what was tried on the way."""

    candidate: Candidate
    rate_macs_s: int
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """The chosen kernel's name."""
        return self.candidate.name

    @property
    def keeps(self) -> Keeps:
        """What it would keep beside the weights' own bytes."""
        return self.candidate.keeps

    def open(self, decoded_bytes: int) -> Kernel:
        """Return the kernel, with so much memory for what it keeps."""
        return self.candidate.open(decoded_bytes)

    @property
    def line(self) -> str:
        """What a person is told of it."""
        rate = f"{self.rate_macs_s / 1e9:.1f} G multiply-adds a second"
        return f"computing with {self.name}, {rate}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines on what should be otherwise: wrong kernels, a native one not built."""
        lines = [
            f"kernel {trial.name} is not used: {_with_advice(trial)}"
            for trial in self.trials
            if trial.outcome is Outcome.FAILED
        ]
        native = [t for t in self.trials if family_of(t.name) == "native"]
        if native and all(trial.outcome is Outcome.MISSING for trial in native):
            lines.append(_with_advice(native[0]))
        return tuple(lines)


def check_kernel_name(wanted: str) -> None:
    """Refuse what is neither a kernel's name nor a family's.

    Raises:
        KernelUnavailable: with the names there are.
    """
    if wanted not in KERNEL_NAMES and wanted not in map(family_of, KERNEL_NAMES):
        names = ", ".join(("native", "wasm", *KERNEL_NAMES))
        raise KernelUnavailable(
            f"there is no kernel {wanted[:40]!r}", advice=f"P2PMOE_KERNEL is {names}"
        )


def check_kernel(candidates: Sequence[Candidate], wanted: str) -> None:
    """Refuse a kernel or family that cannot be had here; nothing is computed.

    Raises:
        KernelUnavailable: `wanted` is unknown, or not there on this machine.
    """
    choose_kernel(candidates, wanted, attempt=_open_only)


def try_kernel(candidate: Candidate) -> Trial:
    """Open a candidate, test it, and measure its rate."""
    return _tried(candidate, _test_and_measure)


def _test_and_measure(name: str, kernel: Kernel) -> Trial:
    if self_test(kernel) != SELF_TEST_DIGEST:
        reason = "its self-test gives other bytes than the specification"
        return Trial(name=name, outcome=Outcome.FAILED, reason=reason)
    rate_macs_s = measure_rate(kernel, within_s=TRIAL_S)
    return Trial(name=name, outcome=Outcome.PASSED, rate_macs_s=rate_macs_s)


def _open_only(candidate: Candidate) -> Trial:
    return _tried(candidate, lambda name, _: Trial(name=name, outcome=Outcome.PASSED))


def _tried(candidate: Candidate, use: Callable[[str, Kernel], Trial]) -> Trial:
    """Open a candidate and use it; a trial that says so where that cannot be."""
    name = candidate.name
    try:
        return use(name, candidate.open(0))
    except KernelUnavailable as error:
        return Trial(
            name=name,
            outcome=Outcome.MISSING,
            reason=str(error),
            advice=error.advice,
        )
    except ArithmeticRefused as error:
        return Trial(name=name, outcome=Outcome.FAILED, reason=str(error))
    # What is left of an older install takes other arguments, or lacks a function.
    except (AttributeError, TypeError, ValueError) as error:
        return Trial(
            name=name,
            outcome=Outcome.FAILED,
            reason=f"it is not of this version ({error})",
            advice=f"build it again: {BUILD_AGAIN}",
        )


def choose_kernel(
    candidates: Sequence[Candidate],
    wanted: str | None = None,
    *,
    attempt: Callable[[Candidate], Trial] = try_kernel,
) -> KernelChoice:
    """Try candidates, best first, and return the one to compute with.

    Raises:
        KernelUnavailable: `wanted` is unknown, not there, or wrong on this machine.
    """
    if wanted is not None:
        check_kernel_name(wanted)
    trials: list[Trial] = []
    for candidate in candidates:
        needless = _needless(candidate.name, wanted, trials)
        if needless:
            trials.append(_untried(candidate.name, needless))
        else:
            trials.append(attempt(candidate))
    chosen = pick(trials)
    if chosen is None:
        raise _none_left(wanted, candidates, trials)
    return KernelChoice(
        candidate=next(c for c in candidates if c.name == chosen.name),
        rate_macs_s=chosen.rate_macs_s,
        trials=tuple(trials),
    )


def pick(trials: Sequence[Trial]) -> Trial | None:
    """Return the first that passed and is about as fast as the fastest; else None."""
    passed = [trial for trial in trials if trial.outcome is Outcome.PASSED]
    fastest = max((trial.rate_macs_s for trial in passed), default=0)
    return next((t for t in passed if t.rate_macs_s >= _NEAR_TIE * fastest), None)


def _needless(name: str, wanted: str | None, trials: Sequence[Trial]) -> str:
    """Return why a candidate need not be tried, "" if it must be."""
    if wanted not in {None, name, family_of(name)}:
        return f"{wanted} is asked for"
    for trial in trials:
        if trial.outcome is not Outcome.PASSED:
            continue
        family = family_of(trial.name)
        if family == family_of(name):
            return f"{trial.name} is preferred"
        if family == "native" and trial.name != _SCALAR_NATIVE:
            return f"{trial.name} is faster"
    return ""


def _untried(name: str, reason: str) -> Trial:
    return Trial(name=name, outcome=Outcome.UNTRIED, reason=reason)


def _with_advice(trial: Trial) -> str:
    return f"{trial.reason}: {trial.advice}" if trial.advice else trial.reason


def _none_left(
    wanted: str | None, candidates: Sequence[Candidate], trials: Sequence[Trial]
) -> KernelUnavailable:
    """Return the error where nothing passed, with what can be had instead."""
    tried = [trial for trial in trials if trial.outcome is not Outcome.UNTRIED]
    named = dict.fromkeys(f"{trial.name}: {trial.reason}" for trial in tried)
    bare = dict.fromkeys(trial.reason for trial in tried)
    reasons = "; ".join(named if len(bare) > 1 else bare)
    if wanted is None:
        return KernelUnavailable(
            f"no kernel computes rightly on this machine ({reasons})",
            advice="reinstall p2pmoe and numpy; do not serve from this machine",
        )
    if any(trial.outcome is Outcome.FAILED for trial in tried):
        advice = next((trial.advice for trial in tried if trial.advice), "")
        return KernelUnavailable(
            f"the kernel {wanted} cannot be used here ({reasons})",
            advice=advice or "unset P2PMOE_KERNEL, and the best one here is taken",
        )
    here = [each.name for each in candidates if _is_here(each)]
    if family_of(wanted) in map(family_of, here):
        return KernelUnavailable(
            f"there is no kernel {wanted} on this machine",
            advice=f"it has {', '.join(here)}",
        )
    return KernelUnavailable(
        f"there is no kernel {wanted} on this machine ({reasons})",
        advice=tried[0].advice,
    )


def _is_here(candidate: Candidate) -> bool:
    return _open_only(candidate).outcome is Outcome.PASSED
