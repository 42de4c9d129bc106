from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.detokenizer import Detokenizer


def test_b21_a_character_waits_for_its_last_byte() -> None:
    text = Detokenizer()
    pieces = [text.push(bytes([byte])) for byte in (0xF0, 0x9F, 0x98, 0x8A)]
    assert pieces == ["", "", "", "😊"]
    assert text.finish() == ""


def test_b21_a_broken_rest_is_one_replacement_character() -> None:
    text = Detokenizer()
    assert text.push(b"\xf0\x9f") == ""
    assert text.finish() == "\ufffd"


def test_broken_bytes_in_the_middle_are_replaced() -> None:
    text = Detokenizer()
    assert text.push(b"\xf0\x9fa") == "\ufffda"


@given(st.binary(), st.lists(st.integers(1, 5)))
def test_b21_pieces_are_the_whole(content: bytes, cuts: list[int]) -> None:
    text = Detokenizer()
    pieces = []
    at = 0
    for cut in cuts:
        pieces.append(text.push(content[at : at + cut]))
        at += cut
    pieces += [text.push(content[at:]), text.finish()]
    assert "".join(pieces) == content.decode(errors="replace")


def test_what_is_held_back_can_be_counted() -> None:
    own = Detokenizer()
    assert own.n_open == 0
    own.push(b"a\xf0\x9f")
    assert own.n_open == 2
    own.push(b"\x98\x8a")
    assert own.n_open == 0
