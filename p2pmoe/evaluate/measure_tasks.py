"""Measure a model on a task set over the API, task by task.

A task that the server refuses or fails at has no figures but its reason, and does not
count in any mean: how many failed is told beside the figures. So a model without tools
is not "0 % right": it was not measured.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from p2pmoe.evaluate.answers import is_right, likeliest
from p2pmoe.evaluate.asking import ModelApi, Streamed
from p2pmoe.evaluate.errors import MeasurementFailed
from p2pmoe.evaluate.latency import StreamTimes
from p2pmoe.evaluate.long_form import (
    distinct_share,
    halves,
    repetition,
    same_answers,
    stability,
)
from p2pmoe.evaluate.measure_text import Tell
from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.run_record import TaskResult
from p2pmoe.evaluate.structured import score_format
from p2pmoe.evaluate.task_set import (
    AnswerTask,
    FormatTask,
    LongTask,
    Task,
    TaskPrompt,
    ToolTask,
)
from p2pmoe.evaluate.tool_calls import calls_of, score_calls
from p2pmoe.evaluate.windows import echoed_tokens

__all__ = ["MeasuredTasks", "means", "measure_tasks"]

_TEXT: Final = "/v1/completions"
_CHAT: Final = "/v1/chat/completions"
_SHOWN: Final = 2000  # characters of an answer that are kept
_KINDS: Final = {
    AnswerTask: "answer",
    FormatTask: "format",
    LongTask: "long",
    ToolTask: "tools",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTasks:
    """One result a task, in the order of the set, and the times of all answers."""

    results: tuple[TaskResult, ...]
    times: tuple[StreamTimes, ...]

    @property
    def figures(self) -> dict[str, float]:
        """The means over the tasks that were measured."""
        return means(self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    figures: dict[str, float]
    answer: str


async def measure_tasks(
    api: ModelApi, tasks: Sequence[Task], tell: Tell
) -> MeasuredTasks:
    """Ask for every task; ApiError if the server is lost."""
    asker = _Asker(api)
    results = []
    for number, task in enumerate(tasks):
        tell("tasks", number / len(tasks))
        results.append(await _result(asker, task))
    return MeasuredTasks(results=tuple(results), times=tuple(asker.times))


def means(results: Sequence[TaskResult]) -> dict[str, float]:
    """Return each figure's mean over the tasks that have it."""
    values: dict[str, list[float]] = {}
    for result in results:
        for name, value in result.figures.items():
            values.setdefault(name, []).append(value)
    return {name: sum(found) / len(found) for name, found in values.items()}


async def _result(asker: "_Asker", task: Task) -> TaskResult:
    kind = _KINDS[type(task)]
    try:
        scored = await _scored(asker, task)
    except (MeasurementFailed, Misread) as error:
        return TaskResult(id=task.id, kind=kind, failure=str(error)[:500])
    return TaskResult(
        id=task.id, kind=kind, figures=scored.figures, answer=scored.answer[:_SHOWN]
    )


def _scored(asker: "_Asker", task: Task) -> Awaitable[_Scored]:
    if isinstance(task, AnswerTask):
        return _choose(asker, task) if task.choices else _answer(asker, task)
    if isinstance(task, FormatTask):
        return _format(asker, task)
    if isinstance(task, LongTask):
        return _long(asker, task)
    return _tools(asker, task)


class _Asker:
    """Asks the API, and keeps the times of what is streamed."""

    def __init__(self, api: ModelApi) -> None:
        self.api = api
        self.times: list[StreamTimes] = []

    async def text(self, prompt: TaskPrompt, **fields: object) -> str:
        path, body = _body(prompt, fields)
        answer: Streamed = await self.api.stream(path, body)
        self.times.append(answer.times)
        return answer.text


def _body(
    prompt: TaskPrompt, fields: Mapping[str, object]
) -> tuple[str, dict[str, object]]:
    if prompt.is_chat:
        return _CHAT, {"messages": [dict(m) for m in prompt.messages], **fields}
    return _TEXT, {"prompt": prompt.text, **fields}


async def _answer(asker: _Asker, task: AnswerTask) -> _Scored:
    answer = await asker.text(task.prompt, max_tokens=task.max_tokens, temperature=0)
    right = is_right(answer, task.expect, task.match)
    return _Scored(figures={"answer_accuracy": float(right)}, answer=answer)


async def _choose(asker: _Asker, task: AnswerTask) -> _Scored:
    scores = [await _likelihood(asker.api, task, choice) for choice in task.choices]
    chosen = task.choices[likeliest(scores)]
    right = chosen in task.expect
    return _Scored(figures={"answer_accuracy": float(right)}, answer=chosen)


async def _likelihood(api: ModelApi, task: AnswerTask, choice: str) -> float:
    """Return the log probability of a choice behind the prompt.

    A token that begins in the prompt and ends in the choice counts.
    """
    prompt = task.prompt.text or ""
    body = {
        "prompt": prompt + choice,
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }
    tokens = echoed_tokens(await api.ask(_TEXT, body))
    ends = [token.offset for token in tokens[1:]] + [len(prompt) + len(choice)]
    pairs = zip(tokens, ends, strict=True)
    scored = [token.logprob for token, end in pairs if end > len(prompt)]
    return sum(logprob for logprob in scored if logprob is not None)


async def _format(asker: _Asker, task: FormatTask) -> _Scored:
    fields: dict[str, object] = {"max_tokens": task.max_tokens, "temperature": 0}
    if task.constrained:
        fields["response_format"] = _response_format(task.schema)
    answer = await asker.text(task.prompt, **fields)
    score = score_format(answer, task.schema)
    figures = {"format_valid": float(score.valid)}
    if score.matches is not None:
        figures["format_matching"] = float(score.matches)
    return _Scored(figures=figures, answer=answer)


def _response_format(schema: Mapping[str, Any] | None) -> dict[str, object]:
    if schema is None:
        return {"type": "json_object"}
    own = {"name": "answer", "schema": dict(schema), "strict": True}
    return {"type": "json_schema", "json_schema": own}


async def _long(asker: _Asker, task: LongTask) -> _Scored:
    answers: list[str] = []
    same: list[bool] = []
    for seed in task.seeds:
        answer = await asker.text(
            task.prompt,
            max_tokens=task.max_tokens,
            temperature=task.temperature,
            seed=seed,
        )
        answers.append(answer)
        if task.probe is not None:
            early, late = [await _probe(asker, task, part) for part in halves(answer)]
            same.append(same_answers(early, late))
    n = len(answers)
    figures = {
        "long_repetition": sum(map(repetition, answers)) / n,
        "long_distinct": sum(map(distinct_share, answers)) / n,
    }
    shared = stability(answers)
    if shared is not None:
        figures["long_stability"] = shared
    if same:
        figures["long_consistency"] = sum(same) / n
    return _Scored(figures=figures, answer=answers[0])


async def _probe(asker: _Asker, task: LongTask, answer: str) -> str:
    """Ask the probe behind (a part of) an answer, greedily; its first line."""
    probe = task.probe
    if probe is None:
        return ""
    asked = TaskPrompt(text=f"{task.prompt.text}{answer}{probe.question}")
    if task.prompt.is_chat:
        behind = (
            {"role": "assistant", "content": answer},
            {"role": "user", "content": probe.question},
        )
        asked = TaskPrompt(messages=(*task.prompt.messages, *behind))
    told = await asker.text(asked, max_tokens=probe.max_tokens, temperature=0)
    return next((line for line in told.splitlines() if line.strip()), "")


async def _tools(asker: _Asker, task: ToolTask) -> _Scored:
    path, body = _body(
        task.prompt,
        {
            "max_tokens": task.max_tokens,
            "temperature": 0,
            "tools": [dict(tool) for tool in task.tools],
        },
    )
    document = await asker.api.ask(path, body)
    try:
        message = document["choices"][0]["message"]
        calls = calls_of(message)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise MeasurementFailed("the server's answer holds no message") from error
    score = score_calls(calls, task.expect, subset=task.subset)
    told = ", ".join(f"{call.name}({dict(call.arguments or {})})" for call in calls)
    return _Scored(
        figures={"tool_accuracy": float(score.right), "tool_names": float(score.names)},
        answer=told or str(message.get("content") or ""),
    )
