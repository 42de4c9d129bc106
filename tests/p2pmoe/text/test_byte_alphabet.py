import pytest

from p2pmoe.text.byte_alphabet import (
    BYTE_TO_CHAR,
    CHAR_TO_BYTE,
    UTF8_BYTES,
    alphabet_bytes,
)


def test_every_byte_has_one_printable_character() -> None:
    assert len(BYTE_TO_CHAR) == len(CHAR_TO_BYTE) == 256
    assert all(char.isprintable() and char != " " for char in CHAR_TO_BYTE)
    assert (BYTE_TO_CHAR[0x20], BYTE_TO_CHAR[0x0A], BYTE_TO_CHAR[0]) == ("Ġ", "Ċ", "Ā")


def test_texts_become_bytes() -> None:
    assert alphabet_bytes("Ġhi") == b" hi"
    with pytest.raises(ValueError, match="stands for no byte"):
        alphabet_bytes("中")


def test_bytes_of_utf8() -> None:
    assert {*"é中😀".encode()} <= UTF8_BYTES
    assert len(UTF8_BYTES) == 256 - 13
