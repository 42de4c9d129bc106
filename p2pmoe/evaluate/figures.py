"""The figures of a run: each one's name, what it is measured on, and how it reads.

One table, so that the command line, comparisons and the timeline say the same of each.
A figure that is not in it is never stored.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["FIGURES", "Better", "Figure", "Input", "shown"]


class Input(StrEnum):
    """What a figure is measured on; two figures compare if that is the same."""

    TEXT = "text"
    SET = "set"
    BOTH = "text and set"  # whatever was asked, latency
    REFERENCE = "reference"  # the text, and another run's answers on it


class Better(StrEnum):
    """Which way is good."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: `unit` is "", "share" (0 to 1), "nats" or "s"; `what` one line."""

    name: str
    input: Input
    better: Better
    unit: str
    what: str


def _figure(name: str, where: Input, better: Better, unit: str, what: str) -> Figure:
    return Figure(name=name, input=where, better=better, unit=unit, what=what)


_LOW, _HIGH = Better.LOWER, Better.HIGHER
_TEXT, _SET, _REFERENCE = Input.TEXT, Input.SET, Input.REFERENCE

FIGURES: Final[dict[str, Figure]] = {
    figure.name: figure
    for figure in (
        _figure("perplexity", _TEXT, _LOW, "", "e to the mean negative log likelihood"),
        _figure(
            "top1_agreement",
            _REFERENCE,
            _HIGH,
            "share",
            "positions whose likeliest token is the reference's, given the same prefix",
        ),
        _figure(
            "logprob_difference",
            _REFERENCE,
            _LOW,
            "nats",
            "mean absolute difference of the text's log probabilities",
        ),
        _figure(
            "greedy_agreement",
            _REFERENCE,
            _HIGH,
            "share",
            "of greedy continuations, until the first token that differs",
        ),
        _figure("answer_accuracy", _SET, _HIGH, "share", "answers that are right"),
        _figure("format_valid", _SET, _HIGH, "share", "answers that are JSON"),
        _figure(
            "format_matching", _SET, _HIGH, "share", "answers that match their schema"
        ),
        _figure(
            "long_repetition",
            _SET,
            _LOW,
            "share",
            "of long answers, runs of four words that came before",
        ),
        _figure(
            "long_distinct",
            _SET,
            _HIGH,
            "share",
            "of long answers, pairs of words that are different ones",
        ),
        _figure(
            "long_stability",
            _SET,
            _HIGH,
            "share",
            "words that long answers of different seeds have in common",
        ),
        _figure(
            "long_consistency",
            _SET,
            _HIGH,
            "share",
            "questions answered the same in mid-answer and at its end",
        ),
        _figure(
            "tool_accuracy", _SET, _HIGH, "share", "all calls right, arguments too"
        ),
        _figure("tool_names", _SET, _HIGH, "share", "the right tools called"),
        *(
            _figure(f"{name}_{rank}_s", Input.BOTH, _LOW, "s", f"{what}, {rank}")
            for name, what in (
                ("first_token", "from the request to the first text"),
                ("per_token", "per token after the first"),
                ("gap", "between two pieces of a stream"),
            )
            for rank in ("p50", "p90", "p99")
        ),
    )
}


def shown(name: str, value: float) -> str:
    """Return a figure as people read it, with its unit."""
    unit = FIGURES[name].unit
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return f"{1000 * value:.1f} ms"
    return f"{value:.4f}"
