"""Task sets: every line is a task, or the error names it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate import task_set
from p2pmoe.evaluate.errors import SetRefused
from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.task_set import (
    AnswerTask,
    ExpectedCall,
    FormatTask,
    LongTask,
    Match,
    Probe,
    TaskPrompt,
    ToolTask,
    load_tasks,
    parse_task,
)

DOCS = Path(__file__).resolve().parents[3] / "docs/reference"


CHAT = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def line(kind: str = "answer", **fields: object) -> str:
    base: dict[str, object] = {"kind": kind, "id": "a", "prompt": "p"}
    if kind == "answer":
        base["expect"] = "x"
    if kind == "tools":
        base |= {"prompt": None, "messages": CHAT, "tools": [TOOL], "expect": []}
    return json.dumps({**base, **fields})


def test_each_kind_with_all_of_its_fields():
    assert parse_task(line(match="contains", max_tokens=5)) == AnswerTask(
        id="a", prompt=TaskPrompt(text="p"), expect=("x",), match=Match.CONTAINS,
        max_tokens=5,
    )  # fmt: skip
    chosen = parse_task(line(expect=["x"], choices=["x", "y"]))
    assert isinstance(chosen, AnswerTask)
    assert chosen.choices == ("x", "y")
    fields = {"prompt": None, "messages": CHAT, "schema": {"type": "object"}}
    assert parse_task(line("format", **fields, constrained=True)) == (
        FormatTask(
            id="a", prompt=TaskPrompt(messages=tuple(CHAT)), schema={"type": "object"},
            constrained=True,
        )
    )  # fmt: skip
    long = line("long", seeds=[3], temperature=0, probe={"question": "q"})
    assert parse_task(long) == LongTask(
        id="a", prompt=TaskPrompt(text="p"), seeds=(3,), temperature=0.0,
        probe=Probe(question="q"),
    )  # fmt: skip
    call = {"name": "f", "arguments": {"n": 1}}
    assert parse_task(line("tools", expect=[call], subset=True)) == ToolTask(
        id="a", prompt=TaskPrompt(messages=tuple(CHAT)), tools=(TOOL,),
        expect=(ExpectedCall(name="f", arguments={"n": 1}),), subset=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "is not valid JSON"),
        ("{}", "kind is missing"),
        (line("riddle"), "kind 'riddle' is none of answer, format, long, tools"),
        (line(id=""), "id '' is empty or not printable"),
        (line(id="a\nb"), "is empty or not printable"),
        (line(messages=CHAT), "needs either prompt or messages"),
        (line(prompt=None), "needs either prompt or messages"),
        (line(prompt=""), "prompt is empty"),
        (line(prompt="x" * 500_001), "prompt has 500001 characters"),
        (line(prompt=None, messages=[]), "messages is empty"),
        (line(prompt=None, messages=[{"role": "god", "content": ""}]), "'god' is none"),
        (
            line(prompt=None, messages=[{"role": "user"}]),
            r"messages\[0\].content is mi",
        ),
        (line(expect=None), "expect is missing"),
        (line(expect=[]), "expect is missing"),
        (line(expect=[""]), "expect must hold strings"),
        (line(expect=5), "expect must be at most 64 strings"),
        (line(match="like"), "match 'like' is none of exact, contains"),
        (line(match="number"), "expect must be numbers"),
        (line(choices=["x"]), "choices must be two or more"),
        (line(choices=["y", "z"]), "with those expected"),
        (line(choices=["x", "y"], match="starts"), "does not go with choices"),
        (line(prompt=None, messages=CHAT, choices=["x", "y"]), "goes with prompt"),
        (line(max_tokens=0), "max_tokens must be from 1 to 4096"),
        (line(max_token=5), "max_token is unknown"),
        (line("format", schema={"pattern": "a"}), "schema.pattern is not supported"),
        (line("format", constrained="yes"), "constrained must be true or false"),
        (line("format", constrained=True), "constrained goes with messages"),
        (line("long", seeds=[]), "seeds must hold integers"),
        (line("long", seeds=[1, 1]), "seeds holds one twice"),
        (line("long", seeds=["1"]), "seeds must hold integers"),
        (line("long", temperature=3), "temperature must be from 0 to 2"),
        (line("long", probe={"ask": "q"}), "probe.question is missing"),
        (line("tools", tools=[]), "tools is empty"),
        (line("tools", tools=[{}]), r"tools\[0\].function must be|is missing"),
        (line("tools", expect=None), "expect is missing"),
        (line("tools", expect=[{"arguments": {}}]), r"expect\[0\].name is missing"),
        (line("tools", messages=None, prompt="p"), "tools go with messages"),
    ],
)
def test_what_is_wrong_with_a_line_is_named(text: str, words: str):
    with pytest.raises(Misread, match=words):
        parse_task(text)


def write(folder: Path, *lines: str) -> Path:
    path = folder / "set.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_lines_that_hold_no_task_are_passed_over(tmp_path: Path):
    found = load_tasks(write(tmp_path, "", "// why", line(), "  ", line(id="b"), ""))
    assert [task.id for task in found.tasks] == ["a", "b"]
    assert len(found.sha256) == 64


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "holds no task"),
        (["// nothing"], "holds no task"),
        ([line(), "", line()], r"line 3: id 'a' is of an earlier line"),
        ([line(), "{"], "set.jsonl, line 2: is not valid JSON"),
    ],
)
def test_a_bad_line_refuses_the_set(tmp_path: Path, lines: list[str], words: str):
    with pytest.raises(SetRefused, match=words):
        load_tasks(write(tmp_path, *lines))


def test_sizes_are_bounded(tmp_path: Path, monkeypatch):
    path = write(tmp_path, line(), line(id="b"))
    monkeypatch.setattr(task_set, "MAX_TASKS", 1)
    with pytest.raises(SetRefused, match="line 2: is beyond 1 tasks"):
        load_tasks(path)
    monkeypatch.setattr(task_set, "MAX_LINE_BYTES", 10)
    with pytest.raises(SetRefused, match=r"line 1: has .* bytes, more than 10"):
        load_tasks(path)
    monkeypatch.setattr(task_set, "MAX_SET_BYTES", 10)
    with pytest.raises(SetRefused, match="larger than 10 bytes"):
        load_tasks(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(SetRefused, match="cannot read the set"):
        load_tasks(tmp_path)
    path = tmp_path / "latin"
    path.write_bytes(b"\xff")
    with pytest.raises(SetRefused, match="line 1: is not UTF-8"):
        load_tasks(path)


VALUES = (
    st.none() | st.integers() | st.text(max_size=5) | st.lists(st.text(), max_size=2)
)


@given(
    st.sampled_from(["answer", "format", "long", "tools"]),
    st.dictionaries(
        st.sampled_from(
            ["expect", "choices", "seeds", "schema", "tools", "probe", "x"]
        ),
        VALUES,
        max_size=2,
    ),
)
def test_any_field_is_read_or_named(kind: str, fields: dict[str, object]):
    try:
        task = parse_task(line(kind, **fields))
    except Misread:
        return
    assert task.id == "a"


def test_the_examples_of_the_documentation_are_tasks():
    kinds = {type(task) for task in load_tasks(DOCS / "pocket-tasks.jsonl").tasks}
    assert kinds == {AnswerTask, FormatTask, LongTask, ToolTask}
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    examples = [x.strip() for x in page.splitlines() if x.startswith('    {"kind"')]
    assert len([parse_task(example) for example in examples]) == 4
