"""Measure a model on a text over the API: perplexity's windows, then continuations.

Window by window, one request at a time: what is measured of time is that of a backbone
which does nothing else. A window that is refused ends the evaluation, since a figure
over the others would look like one over all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from p2pmoe.evaluate.asking import ModelApi, Streamed
from p2pmoe.evaluate.latency import StreamTimes
from p2pmoe.evaluate.run_record import Continuation, TextInput, WindowScore
from p2pmoe.evaluate.windows import (
    Window,
    echoed_tokens,
    perplexity_of,
    scored_window,
    tokens_digest,
)

__all__ = ["MeasuredText", "TextPlan", "measure_text"]

Tell = Callable[[str, float], None]  # what is done, and its share, 0 to 1
_PATH: Final = "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlan:
    """What of a text is asked; the first `n_continuations` windows are gone on from."""

    sha256: str
    windows: Sequence[Window]
    window_tokens: int
    n_continuations: int
    continuation_tokens: int

    @property
    def cut_by(self) -> str:
        """How it was cut: by "ids", or by "characters"."""
        is_text = any(isinstance(window.prompt, str) for window in self.windows)
        return "characters" if is_text else "ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredText:
    """What came out."""

    input: TextInput
    windows: tuple[WindowScore, ...]
    continuations: tuple[Continuation, ...]
    times: tuple[StreamTimes, ...]

    @property
    def figures(self) -> dict[str, float]:
        """The figures that need no other run."""
        return {"perplexity": perplexity_of(self.windows)}


async def measure_text(api: ModelApi, plan: TextPlan, tell: Tell) -> MeasuredText:
    """Ask for every window and continuation of a plan, which has one window or more.

    Raises:
        MeasurementFailed: the server refuses, or does not tell log probabilities.
        ApiError: the server is lost.
    """
    scores: list[WindowScore] = []
    texts: list[str] = []
    for number, window in enumerate(plan.windows):
        tell("text", number / len(plan.windows))
        tokens = echoed_tokens(await api.ask(_PATH, _echo(window)))
        scores.append(scored_window(tokens))
        texts += [token.text for token in tokens]
    answers: list[Streamed] = []
    chosen = plan.windows[: plan.n_continuations]
    for number, window in enumerate(chosen):
        tell("continuations", number / len(chosen))
        answers.append(await api.stream(_PATH, _greedy(window, plan)))
    return MeasuredText(
        input=TextInput(
            sha256=plan.sha256,
            cut_by=plan.cut_by,
            window_tokens=plan.window_tokens,
            n_windows=len(scores),
            n_scored=sum(len(score.logprobs) for score in scores),
            n_continuations=len(answers),
            continuation_tokens=plan.continuation_tokens,
            tokens=tokens_digest(texts),
        ),
        windows=tuple(scores),
        continuations=tuple(
            Continuation(text=a.text, tokens=a.tokens) for a in answers
        ),
        times=tuple(answer.times for answer in answers),
    )


def _echo(window: Window) -> dict[str, object]:
    prompt = window.prompt if isinstance(window.prompt, str) else list(window.prompt)
    return {
        "prompt": prompt,
        "max_tokens": 1,  # some servers refuse 0
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


def _greedy(window: Window, plan: TextPlan) -> dict[str, object]:
    return {
        "prompt": window.beginning,
        "max_tokens": plan.continuation_tokens,
        "temperature": 0,
    }
