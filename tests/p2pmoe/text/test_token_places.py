"""Fault B21: bytes of the tokens told are the text's, wherever it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.stopping import CompletionText, FinishReason, StopRules
from p2pmoe.text.token_places import PlacedToken, TokenPlaces

STOP = 99
WORDS = {
    1: b"ten ",
    2: b"\xf0\x9f",
    3: b"\x98\x8a",
    4: "dé".encode(),
    5: b"",
    6: b"e\xcc",
    7: b"\x81n",
}


def run(
    blocks: list[list[int]], *stops: str, max_tokens: int = 50
) -> tuple[str, list[PlacedToken], FinishReason | None]:
    rules = StopRules(
        max_tokens=max_tokens, stop_ids=frozenset({STOP}), stop_texts=stops
    )
    text = CompletionText(rules, WORDS.__getitem__)
    deltas = [*(text.accept(block) for block in blocks), text.finish()]
    placed = [each for delta in deltas for each in delta.placed]
    finish = next((d.finish for d in deltas if d.finish), None)
    return "".join(delta.text for delta in deltas), placed, finish


def pieces(placed: list[PlacedToken]) -> list[bytes]:
    return [each.piece for each in placed]


def test_a_token_is_told_when_its_character_is_whole() -> None:
    text = CompletionText(StopRules(max_tokens=9), WORDS.__getitem__)
    assert text.accept([1]).placed[0].start == 0
    assert text.accept([2]).placed == ()
    both = text.accept([3]).placed
    assert [(each.index, each.start) for each in both] == [(1, 4), (2, 4)]
    assert pieces(list(both)) == [b"\xf0\x9f", b"\x98\x8a"]


def test_a_stop_string_cuts_tokens_with_the_text() -> None:
    text, placed, _ = run([[1, 4, 1]], "é")
    assert (text, pieces(placed)) == ("ten d", [b"ten ", b"d"])
    text, placed, _ = run([[1], [1], [1]], "n ten t")
    assert (text, pieces(placed)) == ("te", [b"te"])
    text, placed, _ = run([[6], [7]], "n")
    assert (text, pieces(placed)) == ("e\u0301", [b"e\xcc", b"\x81"])


def test_the_stop_token_is_told_last_and_has_no_bytes() -> None:
    _, placed, finish = run([[1, STOP, 1]])
    assert [(each.token, each.ends) for each in placed] == [(1, False), (STOP, True)]
    assert finish is FinishReason.STOP
    _, placed, _ = run([[1], [STOP]], "n !")
    assert [each.ends for each in placed] == [False, True]


def test_a_broken_character_is_told_at_the_end() -> None:
    text, placed, _ = run([[1, 2, STOP]])
    assert text == "ten \ufffd"
    assert pieces(placed) == [b"ten ", b"\xf0\x9f", b""]
    text, placed, _ = run([[2, 1]])
    assert (text, pieces(placed)) == ("\ufffdten ", [b"\xf0\x9f", b"ten "])


def test_silent_tokens_are_told_in_their_turn() -> None:
    _, placed, _ = run([[5, 1, 2, 5, 3]])
    assert [each.index for each in placed] == [0, 1, 2, 3, 4]
    places = TokenPlaces()
    assert places.cut(0) == ()


@given(
    st.lists(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 7, STOP]), max_size=4)),
    st.sampled_from([(), ("n t",), ("é", "😊"), ("\u0301", "d")]),
    st.integers(1, 9),
)
def test_b21_bytes_of_the_tokens_are_the_text(
    blocks: list[list[int]], stops: tuple[str, ...], max_tokens: int
) -> None:
    text, placed, _ = run(blocks, *stops, max_tokens=max_tokens)
    assert [each.index for each in placed] == list(range(len(placed)))
    whole = b"".join(pieces(placed))
    if "\ufffd" not in text:
        assert whole == text.encode()
        for each in placed:
            before = b"".join(pieces(placed[: each.index]))
            assert len(before.decode(errors="ignore")) == each.start
