"""Bodies of calls; what is said of each family as a whole is in test_families."""

import pytest

from p2pmoe.text.tool_calls.bodies import (
    deepseek_calls,
    glm_call,
    json_call,
    json_calls,
    kimi_calls,
    minimax_calls,
    named_call,
    qwen_coder_call,
)
from p2pmoe.text.tool_calls.calls import CalledTool
from p2pmoe.text.tool_calls.marks import DEEPSEEK

CALL = CalledTool("f", '{"a": "1"}')


def test_json() -> None:
    assert json_call('{"name": "f", "arguments": {"a": "1"}}') == [CALL]
    assert json_call('{"name": "f", "parameters": {"a": "1"}}') == [CALL]
    assert json_call('{"name": "f", "arguments": "{\\"a\\": \\"1\\"}"}') == [CALL]
    assert json_call('{"name": "f"}') == [CalledTool("f", "{}")]
    assert json_calls('[{"name": "f", "arguments": {"a": "1"}}]') == [CALL]
    assert json_calls('f[ARGS]{"a": "1"}') == [CALL]
    assert json_calls('[{"name": "f"}, 3]') == []
    assert json_calls("{}") == []


def test_arguments_keep_their_characters() -> None:
    assert named_call("f", '{"a": "é"}') == CalledTool("f", '{"a": "é"}')
    escaped = '{"a": "\\ud800"}'  # which is no Unicode unless it stays escaped
    assert named_call("f", escaped) == CalledTool("f", escaped)
    assert named_call("f g", "{}") is None
    assert named_call("f", "[]") is None


def test_deepseek_with_bare_arguments_and_several_calls() -> None:
    one = f'{DEEPSEEK["call"]}f{DEEPSEEK["separator"]}{{"a": "1"}}'
    both = f"{one}{DEEPSEEK['call_end']}\n{one}"
    assert deepseek_calls(both) == [CALL, CALL]
    assert deepseek_calls("x" + both) == []
    assert deepseek_calls(both.replace(DEEPSEEK["separator"], "")) == []


def test_kimi_with_dots_in_a_name() -> None:
    text = '<|tool_call_begin|>functions.a.b:12<|tool_call_argument_begin|>{"a": "1"}'
    assert kimi_calls(text) == [CalledTool("a.b", '{"a": "1"}')]


@pytest.mark.parametrize(
    "body",
    [
        "f<arg_key>a</arg_key>",
        "f<arg_key>a</arg_key>x<arg_value>1</arg_value>",
        "f<arg_key>a</arg_key><arg_value>1</arg_value>x",
        "f<arg_key>a<arg_value>1</arg_value>",
        "two words",
    ],
)
def test_glm_malformed(body: str) -> None:
    assert glm_call(body, {}) == []


def test_glm_without_a_line_end_and_without_arguments() -> None:
    body = "f<arg_key>a</arg_key><arg_value>1</arg_value>"
    assert glm_call(body, {}) == [CALL]
    assert glm_call("f\n", {}) == [CalledTool("f", "{}")]


def test_markup() -> None:
    inner = "<function=f><parameter=a>1</parameter></function>"
    assert qwen_coder_call(inner, {}) == [CALL]
    for wrong in (inner[:-5], "x" + inner, inner.replace("</p", "<p"), "<function=f>"):
        assert qwen_coder_call(wrong, {}) == []
    invoke = "<invoke name='f'><parameter name=\"a\">1</parameter></invoke>"
    assert minimax_calls(invoke, {}) == [CALL]
    for wrong in (invoke + "x", "x" + invoke, invoke.replace("<par", "x<par")):
        assert minimax_calls(wrong, {}) == []
