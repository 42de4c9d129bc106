"""The operator's own tasks: a JSON-lines file, one task a line, read strictly.

    {"kind": "answer", "id": "capital", "prompt": "The capital of France is",
     "expect": ["Paris"], "match": "contains"}

Every task has a `kind`, an `id` that no other has, and either `prompt` (text to go on
from) or `messages` (a chat). docs/reference/evaluation.md is this module for people.
Blank lines and lines that begin with // are passed over. Whatever is wrong, the error
names the file and the line; the first bad line refuses the set, since a task that is
left out in silence makes a figure wrong.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from p2pmoe.evaluate.errors import SetRefused
from p2pmoe.evaluate.reading import Misread, Record, parse_object
from p2pmoe.evaluate.run_record import MAX_TASKS
from p2pmoe.evaluate.schema import check_schema

__all__ = [
    "AnswerTask",
    "ExpectedCall",
    "FormatTask",
    "LongTask",
    "Match",
    "Probe",
    "Task",
    "TaskPrompt",
    "TaskSet",
    "ToolTask",
    "load_tasks",
    "parse_task",
]

MAX_SET_BYTES: Final = 64 << 20
MAX_LINE_BYTES: Final = 1 << 20
MAX_PROMPT: Final = 500_000
_MAX_MESSAGES: Final = 200
_MAX_EXPECTED: Final = 64
_MAX_TOKENS: Final = 4096
_MAX_SEEDS: Final = 8
_MAX_TOOLS: Final = 64
_ROLES: Final = frozenset({"system", "user", "assistant"})


class Match(StrEnum):
    """When an answer is right; see answers.py."""

    EXACT = "exact"
    CONTAINS = "contains"
    STARTS = "starts"
    NUMBER = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrompt:
    """What is asked: a text, or messages of a chat; exactly one of them."""

    text: str | None = None
    messages: tuple[Mapping[str, str], ...] = ()

    @property
    def is_chat(self) -> bool:
        """Whether it is a conversation."""
        return self.text is None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTask:
    """A question with right answers; with `choices` the likeliest of them counts."""

    id: str
    prompt: TaskPrompt
    expect: tuple[str, ...]
    match: Match = Match.EXACT
    choices: tuple[str, ...] = ()
    max_tokens: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatTask:
    """An answer that must be JSON, and match `schema` if there is one.

    `constrained` asks the server to allow nothing else, which measures the server.
    """

    id: str
    prompt: TaskPrompt
    schema: Mapping[str, Any] | None = None
    constrained: bool = False
    max_tokens: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question asked in the middle of a long answer and once more at its end."""

    question: str
    max_tokens: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTask:
    """A long answer, once a seed."""

    id: str
    prompt: TaskPrompt
    max_tokens: int = 256
    seeds: tuple[int, ...] = (1, 2)
    temperature: float = 0.8
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A call of a tool that must be made."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """A chat in which exactly the expected calls must be made; none is one way."""

    id: str
    prompt: TaskPrompt
    tools: tuple[Mapping[str, Any], ...]
    expect: tuple[ExpectedCall, ...]
    subset: bool = False  # further arguments are no fault
    max_tokens: int = 256


Task = AnswerTask | FormatTask | LongTask | ToolTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """The tasks of a file, in its order, and the digest of its bytes."""

    tasks: tuple[Task, ...]
    sha256: str


def load_tasks(path: Path) -> TaskSet:
    """Read a task set.

    Raises:
        SetRefused: the file cannot be read, or a line is wrong; the line is named.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SET_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SetRefused(
            f"cannot read the set {path}: {reason}",
            advice="name a file that can be read",
        ) from error
    if len(raw) > MAX_SET_BYTES:
        raise SetRefused(f"the set {path} is larger than {MAX_SET_BYTES} bytes")
    tasks: dict[str, Task] = {}
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            task = _task_of(line, tasks)
        except Misread as error:
            raise SetRefused(f"{path}, line {number}: {error}") from error
        if task is not None:
            tasks[task.id] = task
    if not tasks:
        raise SetRefused(f"the set {path} holds no task")
    return TaskSet(tasks=tuple(tasks.values()), sha256=hashlib.sha256(raw).hexdigest())


def _task_of(line: bytes, earlier: Collection[str]) -> Task | None:
    """Return the task of a line, None of a line that holds none."""
    if len(line) > MAX_LINE_BYTES:
        raise Misread(f"has {len(line)} bytes, more than {MAX_LINE_BYTES}")
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise Misread("is not UTF-8") from error
    if not text or text.startswith("//"):
        return None
    if len(earlier) == MAX_TASKS:
        raise Misread(f"is beyond {MAX_TASKS} tasks")
    task = parse_task(text)
    if task.id in earlier:
        raise Misread(f"id {task.id!r} is of an earlier line")
    return task


def parse_task(line: str) -> Task:
    """Return the task of one line; Misread says what is wrong with it."""
    record = Record(parse_object(line))
    kind = record.text("kind", 20)
    parse = _KINDS.get(kind)
    if parse is None:
        raise record.wrong("kind", f"{kind!r} is none of {', '.join(_KINDS)}")
    task_id = record.text("id", 100)
    if not task_id or not task_id.isprintable():
        raise record.wrong("id", f"{task_id!r} is empty or not printable")
    task = parse(task_id, _prompt(record), record)
    record.finish()
    return task


def _prompt(record: Record) -> TaskPrompt:
    if record.has("prompt") == record.has("messages"):
        raise Misread("needs either prompt or messages")
    if record.has("prompt"):
        text = record.text("prompt", MAX_PROMPT)
        if not text:
            raise record.wrong("prompt", "is empty")
        return TaskPrompt(text=text)
    messages = [
        _message(value, f"messages[{number}]")
        for number, value in enumerate(record.items("messages", _MAX_MESSAGES))
    ]
    if not messages:
        raise record.wrong("messages", "is empty")
    return TaskPrompt(messages=tuple(messages))


def _message(value: object, where: str) -> dict[str, str]:
    record = Record(value, where)
    role = record.text("role", 20)
    if role not in _ROLES:
        raise record.wrong("role", f"{role!r} is none of {', '.join(sorted(_ROLES))}")
    content = record.text("content", MAX_PROMPT)
    record.finish()
    return {"role": role, "content": content}


def _answer(task_id: str, prompt: TaskPrompt, record: Record) -> AnswerTask:
    expect = _texts(record, "expect")
    if not expect:
        raise record.wrong("expect", "is missing")
    choices = _texts(record, "choices")
    match = _match(record)
    if choices:
        if prompt.is_chat:
            raise record.wrong("choices", "goes with prompt, not with messages")
        if len(choices) < 2 or not set(expect) <= set(choices):
            raise record.wrong("choices", "must be two or more, with those expected")
        if match is not Match.EXACT:
            raise record.wrong("match", "does not go with choices")
    if match is Match.NUMBER and not all(map(_is_number, expect)):
        raise record.wrong("expect", "must be numbers to match them")
    return AnswerTask(
        id=task_id,
        prompt=prompt,
        expect=expect,
        match=match,
        choices=choices,
        max_tokens=record.integer("max_tokens", 1, _MAX_TOKENS, 32),
    )


def _match(record: Record) -> Match:
    name = record.text("match", 20, Match.EXACT.value)
    try:
        return Match(name)
    except ValueError:
        raise record.wrong("match", f"{name!r} is none of {', '.join(Match)}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texts(record: Record, name: str) -> tuple[str, ...]:
    """Return a string, or an array of strings, that are not empty."""
    value = record.take(name)
    values = [value] if isinstance(value, str) else value or []
    if not isinstance(values, list) or len(values) > _MAX_EXPECTED:
        raise record.wrong(name, f"must be at most {_MAX_EXPECTED} strings")
    if not all(isinstance(v, str) and 0 < len(v) <= MAX_PROMPT for v in values):
        raise record.wrong(name, "must hold strings that are not empty")
    return tuple(values)


def _format(task_id: str, prompt: TaskPrompt, record: Record) -> FormatTask:
    schema = record.mapping("schema") if record.has("schema") else None
    if schema is not None:
        check_schema(schema)
    constrained = record.flag("constrained", default=False)
    if constrained and not prompt.is_chat:
        raise record.wrong("constrained", "goes with messages, not with a prompt")
    return FormatTask(
        id=task_id,
        prompt=prompt,
        schema=schema,
        constrained=constrained,
        max_tokens=record.integer("max_tokens", 1, _MAX_TOKENS, 256),
    )


def _long(task_id: str, prompt: TaskPrompt, record: Record) -> LongTask:
    seeds = record.items("seeds", _MAX_SEEDS) if record.has("seeds") else [1, 2]
    if not seeds or not all(type(s) is int and 0 <= s < 1 << 62 for s in seeds):
        raise record.wrong("seeds", "must hold integers from 0")
    if len(set(seeds)) != len(seeds):
        raise record.wrong("seeds", "holds one twice")
    return LongTask(
        id=task_id,
        prompt=prompt,
        max_tokens=record.integer("max_tokens", 16, _MAX_TOKENS, 256),
        seeds=tuple(seeds),
        temperature=record.number("temperature", 0.0, 2.0, 0.8),
        probe=_probe(record.take("probe")),
    )


def _probe(value: object) -> Probe | None:
    if value is None:
        return None
    record = Record(value, "probe")
    probe = Probe(
        question=record.text("question", 10_000),
        max_tokens=record.integer("max_tokens", 1, _MAX_TOKENS, 16),
    )
    record.finish()
    return probe


def _tools(task_id: str, prompt: TaskPrompt, record: Record) -> ToolTask:
    if not prompt.is_chat:
        raise Misread("tools go with messages, not with a prompt")
    tools = record.items("tools", _MAX_TOOLS)
    if not tools:
        raise record.wrong("tools", "is empty")
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        function = Record(Record(tool, where).mapping("function"), f"{where}.function")
        function.text("name", 100)
    return ToolTask(
        id=task_id,
        prompt=prompt,
        tools=tuple(tools),
        expect=tuple(
            _call(value, f"expect[{number}]")
            for number, value in enumerate(record.items("expect", _MAX_EXPECTED))
        ),
        subset=record.flag("subset", default=False),
        max_tokens=record.integer("max_tokens", 1, _MAX_TOKENS, 256),
    )


def _call(value: object, where: str) -> ExpectedCall:
    record = Record(value, where)
    call = ExpectedCall(
        name=record.text("name", 100),
        arguments=record.mapping("arguments") if record.has("arguments") else {},
    )
    record.finish()
    return call


_KINDS: Final[dict[str, Callable[[str, TaskPrompt, Record], Task]]] = {
    "answer": _answer,
    "format": _format,
    "long": _long,
    "tools": _tools,
}
