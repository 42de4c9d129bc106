"""`p2pmoe bench`: what this machine can compute with, and how fast.

Every kernel is opened, tested and measured: multiply-adds a second of one expert with
one row and with eight, format by format, in thousands of millions (G), with no memory
to keep unpacked weights in. All give the same bytes; the table says which one `serve`
and `contribute` would take, and why others are not there; one that P2PMOE_KERNEL names
is taken however slow, which is said. It takes some ten seconds, in which each figure is
measured several times and the best kept: on a shared machine other work can only lower
it. Still figures of a moment: `make bench-kernels` measures beside llama.cpp.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.bench_device import add_device_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from mobile_worker.arithmetic.candidates import Candidate
    from mobile_worker.arithmetic.formats.block_format import Format
    from mobile_worker.arithmetic.kernel import Kernel
    from mobile_worker.arithmetic.select import KernelChoice, Trial

__all__ = ["KernelBench", "KernelReport", "bench_kernels", "register"]

N_ROWS = (1, 8)
_WITHIN_S = 0.03  # of all passes
_N_PASSES = 3  # some time apart, so that a moment's load spoils one of them

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Threads = Annotated[
    int,
    typer.Option(
        min=1, max=256, metavar="N", help="Threads that share an expert (native)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="What this machine computes with, and how fast.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_bench)
    group.command("kernels")(_kernels)
    add_device_command(group)
    app.add_typer(group, name="bench")


def _bench() -> None:
    """Keep `kernels` a command of its own, one of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """A kernel's trial, and its rates in multiply-adds a second where it passed."""

    trial: "Trial"
    is_chosen: bool
    rates: "dict[Format, dict[int, int]]" = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The trial's outcome in a word, or that it is the one that is taken."""
        return "chosen" if self.is_chosen else str(self.trial.outcome)

    @property
    def self_test(self) -> str:
        """What its self-test gave."""
        return {"passed": "right", "failed": "wrong"}.get(self.trial.outcome, "-")

    def as_json(self) -> dict[str, object]:
        """Return the kernel's object for `--json`."""
        return {
            "name": self.trial.name,
            "state": self.state,
            "self_test": self.self_test,
            "reason": self.trial.reason,
            "advice": self.trial.advice,
            "macs_per_second": {
                each.name: {str(n): rate for n, rate in rates.items()}
                for each, rates in self.rates.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBench:
    """What was found: the choice, and every kernel, best first."""

    choice: "KernelChoice"
    kernels: list[KernelReport]


def bench_kernels(
    candidates: "Sequence[Candidate]",
    wanted: str | None,
    step: "Callable[[float], None]" = lambda _: None,
    within_s: float = _WITHIN_S,
) -> KernelBench:
    """Try every kernel and measure those that are right; `step` is told the share done.

    Raises:
        KernelUnavailable: `wanted` is unknown, not there, or wrong on this machine.
    """
    from mobile_worker.arithmetic.select import Outcome, choose_kernel, try_kernel

    choice = choose_kernel(candidates, wanted)
    reports: list[KernelReport] = []
    for candidate, tried in zip(candidates, choice.trials, strict=True):
        trial = try_kernel(candidate) if tried.outcome is Outcome.UNTRIED else tried
        rates = {}
        if trial.outcome is Outcome.PASSED:
            rates = _rates(candidate.open(0), within_s)
        reports.append(
            KernelReport(
                trial=trial, is_chosen=candidate.name == choice.name, rates=rates
            )
        )
        step(len(reports) / len(candidates))
    return KernelBench(choice=choice, kernels=reports)


def _rates(kernel: "Kernel", within_s: float) -> "dict[Format, dict[int, int]]":
    """Return the best rates of every format, by the number of rows."""
    from mobile_worker.arithmetic.rate import fixed_expert, rate_of

    experts = {each: fixed_expert(each) for each in _formats()}
    rates = {each: dict.fromkeys(N_ROWS, 0) for each in experts}
    pass_s = within_s / _N_PASSES
    for _ in range(_N_PASSES):
        for each, expert in experts.items():
            for n, best in rates[each].items():
                rate = rate_of(kernel, expert, n, within_s=pass_s, n_runs=1)
                rates[each][n] = max(best, rate)
    return rates


def _formats() -> "tuple[Format, ...]":
    from mobile_worker.arithmetic.self_test import FORMATS

    return FORMATS


def _kernels(threads: Threads = 1, as_json: AsJson = False) -> None:
    """Test and measure this machine's kernels.

    Says which one `serve` and `contribute` would take.
    """
    from mobile_worker.arithmetic.candidates import kernel_candidates
    from p2pmoe.cli.computing import KERNEL_VARIABLE, wanted_kernel
    from p2pmoe.cli.tables import print_json, print_rows

    wanted = wanted_kernel()
    with _progress() as step:
        found = bench_kernels(kernel_candidates(threads), wanted, step)
    if as_json:
        document = {
            "chosen": found.choice.name,
            "forced_by": None if wanted is None else f"{KERNEL_VARIABLE}={wanted}",
            "n_threads": threads,
            "kernels": [each.as_json() for each in found.kernels],
        }
        print_json(document)
    else:
        forced = "" if wanted is None else f"forced by {KERNEL_VARIABLE}={wanted}"
        states = [_state_row(each, forced) for each in found.kernels]
        print_rows(("kernel", "state", "self_test", "note"), states, "Kernels")
        print()
        measured = [_short(each.trial.name) for each in found.kernels if each.rates]
        columns, rows = ("format", "rows", *measured), _rate_rows(found.kernels)
        print_rows(columns, rows, "Multiply-adds a second, in G", keep_title=True)
    for warning in found.choice.warnings:
        print(warning, file=sys.stderr)


def _state_row(report: KernelReport, forced: str) -> dict[str, object]:
    return {
        "kernel": report.trial.name,
        "state": report.state,
        "self_test": report.self_test,
        "note": forced if report.is_chosen else report.trial.reason,
    }


def _short(name: str) -> str:
    """Return what comes after a kernel's family, so that columns stay narrow."""
    return name.rpartition("/")[2]


def _rate_rows(reports: Sequence[KernelReport]) -> list[dict[str, object]]:
    measured = {_short(each.trial.name): each.rates for each in reports if each.rates}
    formats = next(iter(measured.values()), {})
    return [
        {
            "format": each.name,
            "rows": n,
            **{name: f"{rates[each][n] / 1e9:.2f}" for name, rates in measured.items()},
        }
        for each in formats
        for n in N_ROWS
    ]


@contextmanager
def _progress() -> "Iterator[Callable[[float], None]]":
    """Show a bar on stderr while it measures, on a terminal alone."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("measuring", total=1.0)
        yield lambda share: bar.update(task, completed=share)
