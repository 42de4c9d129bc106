from p2pmoe.text.tool_calls.calls import PlainReader, Said


def test_a_plain_reader_tells_all() -> None:
    reader = PlainReader()
    assert reader.push("<tool_call>") == [Said("<tool_call>")]
    assert reader.push("") == []
    assert reader.finish() == []
