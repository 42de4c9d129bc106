from p2pmoe.text.tool_calls.calls import CalledTool, Said
from p2pmoe.text.tool_calls.tags import TaggedReader, n_beginning


def calls(body: str) -> list[CalledTool]:
    return [CalledTool(body, "{}")] if body.isalpha() else []


def test_text_is_told_as_soon_as_it_cannot_begin_a_call() -> None:
    reader = TaggedReader("<c>", "</c>", calls)
    assert reader.push("ab <") == [Said("ab")]
    assert reader.push("d") == [Said(" <d")]
    assert reader.push(" <c>x</c") == []
    assert reader.push("> ") == [CalledTool("x", "{}")]
    assert reader.push("\n") == []
    assert reader.finish() == []


def test_a_missing_closing_mark_at_the_end() -> None:
    reader = TaggedReader("<c>", "</c>", calls)
    assert reader.push("<c>x") == []
    assert reader.finish() == [CalledTool("x", "{}")]
    to_the_end = TaggedReader("<c>", "", calls)
    assert to_the_end.push("<c>xy") == []
    assert to_the_end.finish() == [CalledTool("xy", "{}")]


def test_whitespace_of_what_is_no_call_is_kept() -> None:
    reader = TaggedReader("<c>", "</c>", calls)
    items = [*reader.push("a \n<c>1</c> b"), *reader.finish()]
    assert "".join(item.text for item in items) == "a \n<c>1</c> b"


def test_how_much_may_begin_a_mark() -> None:
    assert n_beginning("ab<to", "<tool>", "<x>") == 3
    assert n_beginning("ab<tool>", "<tool>") == 0
    assert n_beginning("", "<tool>") == 0
