from p2pmoe.text.tool_calls.marks import DEEPSEEK, HARMONY, KIMI


def test_marks_are_told_apart() -> None:
    marks = [*DEEPSEEK.values(), *HARMONY.values(), *KIMI.values()]
    assert len(set(marks)) == len(marks)
    assert DEEPSEEK["separator"] == "<\uff5ctool\u2581sep\uff5c>"
