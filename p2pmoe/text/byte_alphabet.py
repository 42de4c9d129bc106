"""The byte-level alphabet of GPT-2: one printable character for each byte.

Printable bytes of Latin-1 stand for themselves; the 68 others take the characters
from U+0100 on, in order. Token texts of byte-level vocabularies are written in it.
"""

__all__ = ["BYTE_TO_CHAR", "CHAR_TO_BYTE", "UTF8_BYTES", "alphabet_bytes"]

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

BYTE_TO_CHAR: dict[int, str] = {
    **{byte: chr(byte) for byte in sorted(_PRINTABLE)},
    **{byte: chr(0x100 + place) for place, byte in enumerate(_OTHERS)},
}
CHAR_TO_BYTE: dict[str, int] = {char: byte for byte, char in BYTE_TO_CHAR.items()}

# Bytes that occur in UTF-8; C0, C1 and F5 to FF never do.
UTF8_BYTES = frozenset({*range(0xC0), *range(0xC2, 0xF5)})


def alphabet_bytes(text: str) -> bytes:
    """Return the bytes that a token text stands for.

    Raises:
        ValueError: A character is none of the alphabet.
    """
    try:
        return bytes(CHAR_TO_BYTE[char] for char in text)
    except KeyError as exc:
        raise ValueError(f"{exc.args[0]!r} stands for no byte") from exc
