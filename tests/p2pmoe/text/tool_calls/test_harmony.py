from p2pmoe.text.tool_calls.calls import CalledTool, Said, Thought
from p2pmoe.text.tool_calls.harmony import HarmonyReader


def test_text_is_told_as_it_comes() -> None:
    reader = HarmonyReader()
    assert reader.push("<|channel|>anal") == []
    assert reader.push("ysis<|message|>Let") == [Thought("Let")]
    assert reader.push(" me<|en") == [Thought(" me")]
    assert reader.push("d|><|start|>assistant<|channel|>final<|message|>") == []
    assert reader.push("Yes") == [Said("Yes")]
    assert reader.finish() == []


def test_a_call_is_told_whole() -> None:
    reader = HarmonyReader()
    head = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    assert reader.push(head + '{"a"') == []
    assert reader.push(": 1}") == []
    assert reader.finish() == [CalledTool("f", '{"a": 1}')]


def test_another_recipient_is_no_tool_of_the_request() -> None:
    reader = HarmonyReader()
    assert reader.push("<|channel|>commentary to=python<|message|>1+1") == [
        Thought("1+1")
    ]


def test_a_message_may_end_with_the_start_of_the_next() -> None:
    reader = HarmonyReader()
    items = reader.push("<|channel|>final<|message|>a<|start|>assistant<|message|>b")
    assert items == [Said("a"), Said("b")]
