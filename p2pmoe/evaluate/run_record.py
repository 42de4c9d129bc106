"""A stored run: what was measured, on what, and every figure; and its JSON.

    {"kind": "p2pmoe evaluation", "version": 1, "made": "2026-11-30T03:00:00Z",
     "model": NAME, "configuration": {...}, "inputs": {...}, "figures": {NAME: VALUE},
     "windows": [...], "continuations": [...], "tasks": [...], "reference": IDENTITY}

Windows and continuations are what later runs are compared with, position by position.
Reading is strict: a file that was cut, edited by hand or made by someone else is a
Misread, never a wrong figure.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from p2pmoe.evaluate.configuration import StoredConfiguration, read_configuration
from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.reading import Misread, Record

__all__ = [
    "MAX_CONTINUATIONS",
    "MAX_TASKS",
    "MAX_WINDOWS",
    "Continuation",
    "EvaluationRun",
    "SetInput",
    "TaskResult",
    "TextInput",
    "WindowScore",
    "read_run",
]

MAX_WINDOWS: Final = 4096
MAX_WINDOW_TOKENS: Final = 1 << 16
MAX_POSITIONS: Final = 1 << 20
MAX_CONTINUATIONS: Final = 256
MAX_CONTINUATION_TOKENS: Final = 4096
MAX_TASKS: Final = 10_000
_KIND: Final = "p2pmoe evaluation"
_VERSION: Final = 1
_MAX_LOGPROB: Final = 1e6
_MAX_VALUE: Final = 1e300
_MAX_TEXT: Final = 20_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput:
    """The text of a run and how it was cut; equal ones give figures that compare.

    `cut_by` is "ids" (windows of equal length, by the model's tokenizer) or
    "characters" (pieces of text, where the tokenizer is not at hand). `tokens` is a
    digest of the tokens as the server told them, so that another vocabulary shows.
    """

    sha256: str
    cut_by: str
    window_tokens: int
    n_windows: int
    n_scored: int
    n_continuations: int
    continuation_tokens: int
    tokens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInput:
    """The task set of a run."""

    sha256: str
    n_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowScore:
    """What the model said of the scored tokens of one window.

    `logprobs` are natural logs, `top` the likeliest token at each position, as text.
    """

    logprobs: tuple[float, ...]
    top: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A greedy answer to the beginning of a window; no `tokens` if ids are not told."""

    text: str
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What came of one task: its figures, or why there are none."""

    id: str
    kind: str
    figures: Mapping[str, float] = field(default_factory=dict)
    answer: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRun:
    """One evaluation; see the module. `made` is UTC, to the second."""

    made: str
    model: str
    configuration: StoredConfiguration | None  # None: the server does not tell it
    text: TextInput | None
    tasks_from: SetInput | None
    figures: Mapping[str, float]
    windows: Sequence[WindowScore] = ()
    continuations: Sequence[Continuation] = ()
    tasks: Sequence[TaskResult] = ()
    reference: str = ""  # the identity of the reference

    @property
    def digest(self) -> str:
        """The configuration's digest, "" where it is not known."""
        return "" if self.configuration is None else self.configuration.digest

    @property
    def identity(self) -> str:
        """64 hexadecimal digits that no other run has."""
        text = json.dumps(self.document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """Return the whole run, ready for JSON."""
        told = self.configuration
        inputs = {"text": self.text, "set": self.tasks_from}
        return {
            "kind": _KIND,
            "version": _VERSION,
            "made": self.made,
            "model": self.model,
            "configuration": None if told is None else told.document(),
            "inputs": {name: given and asdict(given) for name, given in inputs.items()},
            "figures": dict(self.figures),
            "tasks": [asdict(task) for task in self.tasks],
            "windows": [asdict(window) for window in self.windows],
            "continuations": [asdict(each) for each in self.continuations],
            "reference": self.reference,
        }


def read_run(value: Mapping[str, Any]) -> EvaluationRun:
    """Return the run of a document, as `EvaluationRun.document` makes it; Misread."""
    record = Record(value)
    if record.text("kind", 40, "") != _KIND:
        raise Misread("is no run of `p2pmoe eval`")
    version = record.integer("version", 0, 1 << 31)
    if version != _VERSION:
        raise Misread(f"has version {version}, not {_VERSION}")
    made = record.text("made", 20)
    if not _TIME.fullmatch(made):
        raise Misread(f"was made at {made!r}, which is no time")
    inputs = Record(record.take("inputs"), "inputs")
    text, tasks_from = inputs.take("text"), inputs.take("set")
    inputs.finish()
    configuration = record.take("configuration")
    run = EvaluationRun(
        made=made,
        model=record.text("model", 200),
        configuration=(
            None if configuration is None else read_configuration(configuration)
        ),
        text=None if text is None else _text_input(text),
        tasks_from=None if tasks_from is None else _set_input(tasks_from),
        figures=_figures(record.mapping("figures"), "figures"),
        windows=_windows(record.items("windows", MAX_WINDOWS)),
        continuations=_continuations(record.items("continuations", MAX_CONTINUATIONS)),
        tasks=[_task(t, n) for n, t in enumerate(record.items("tasks", MAX_TASKS))],
        reference=record.text("reference", 64, ""),
    )
    record.finish()
    return run


def _text_input(value: object) -> TextInput:
    record = Record(value, "inputs.text")
    found = TextInput(
        sha256=record.text("sha256", 64),
        cut_by=record.text("cut_by", 20),
        window_tokens=record.integer("window_tokens", 4, MAX_WINDOW_TOKENS),
        n_windows=record.integer("n_windows", 1, MAX_WINDOWS),
        n_scored=record.integer("n_scored", 1, MAX_POSITIONS),
        n_continuations=record.integer("n_continuations", 0, MAX_CONTINUATIONS),
        continuation_tokens=record.integer(
            "continuation_tokens", 1, MAX_CONTINUATION_TOKENS
        ),
        tokens=record.text("tokens", 64),
    )
    record.finish()
    return found


def _set_input(value: object) -> SetInput:
    record = Record(value, "inputs.set")
    found = SetInput(
        sha256=record.text("sha256", 64),
        n_tasks=record.integer("n_tasks", 1, MAX_TASKS),
    )
    record.finish()
    return found


def _figures(value: Mapping[str, Any], where: str) -> dict[str, float]:
    record = Record(value, where)
    found = {
        name: record.number(name, -_MAX_VALUE, _MAX_VALUE)
        for name in FIGURES
        if record.has(name)
    }
    record.finish()
    return found


def _windows(values: list[Any]) -> tuple[WindowScore, ...]:
    windows: list[WindowScore] = []
    n_left = MAX_POSITIONS
    for number, value in enumerate(values):
        record = Record(value, f"windows[{number}]")
        logprobs, top = record.items("logprobs", n_left), record.items("top", n_left)
        record.finish()
        n_left -= len(logprobs)
        if len(logprobs) != len(top) or not logprobs:
            raise Misread(f"windows[{number}] has {len(logprobs)} and {len(top)} items")
        for logprob in logprobs:
            _check_logprob(logprob, number)
        if not all(isinstance(token, str) for token in top):
            raise Misread(f"windows[{number}].top holds what is no token")
        windows.append(
            WindowScore(logprobs=tuple(map(float, logprobs)), top=tuple(top))
        )
    return tuple(windows)


def _check_logprob(value: object, number: int) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -_MAX_LOGPROB <= float(str(value)) <= 0.0:
        raise Misread(f"windows[{number}].logprobs holds {str(value)[:40]!r}")


def _continuations(values: list[Any]) -> tuple[Continuation, ...]:
    found = []
    for number, value in enumerate(values):
        record = Record(value, f"continuations[{number}]")
        tokens = record.items("tokens", MAX_CONTINUATION_TOKENS, optional=True)
        if not all(type(token) is int and 0 <= token < 1 << 31 for token in tokens):
            raise Misread(f"continuations[{number}].tokens holds what is no id")
        text = record.text("text", 16 * MAX_CONTINUATION_TOKENS, "")
        record.finish()
        found.append(Continuation(text=text, tokens=tuple(tokens)))
    return tuple(found)


def _task(value: object, number: int) -> TaskResult:
    record = Record(value, f"tasks[{number}]")
    figures = record.mapping("figures") if record.has("figures") else {}
    found = TaskResult(
        id=record.text("id", 100),
        kind=record.text("kind", 20),
        figures=_figures(figures, f"tasks[{number}].figures"),
        answer=record.text("answer", _MAX_TEXT, ""),
        failure=record.text("failure", 1000, ""),
    )
    record.finish()
    return found
