"""Words of referees, and what they come to."""

import pytest

from ledger.beacon_words import (
    MAX_WORDS,
    AuditState,
    Word,
    pack_words,
    parse_words,
    weigh_words,
)
from ledger.errors import FormatRefused

WORKER = b"w" * 16


def words(said: str) -> list[Word]:
    """One word a letter: `w` is what the worker said."""
    return [
        Word(bytes([number]) * 32, letter.encode() * 16)
        for number, letter in enumerate(said)
    ]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("", AuditState.OPEN),
        ("w", AuditState.PASSED),
        ("a", AuditState.OPEN),
        ("aw", AuditState.PASSED),
        ("aa", AuditState.FAILED),
        ("ab", AuditState.OPEN),
        ("abw", AuditState.PASSED),
        ("aba", AuditState.FAILED),
        ("abb", AuditState.FAILED),
        ("abc", AuditState.UNJUDGED),
    ],
)
def test_nobody_convicts_alone(said, state):
    assert weigh_words(words(said), WORKER) is state


def test_words_are_stored_and_read_back():
    assert parse_words(pack_words(words("aw"))) == tuple(words("aw"))


@pytest.mark.parametrize("raw", [b"x", bytes(47), bytes(48 * (MAX_WORDS + 1))])
def test_what_is_no_words_is_refused(raw):
    with pytest.raises(FormatRefused):
        parse_words(raw)


@pytest.mark.parametrize(("referee", "out_hash"), [(b"", bytes(16)), (bytes(32), b"")])
def test_what_is_no_word_is_refused(referee, out_hash):
    with pytest.raises(FormatRefused):
        Word(referee, out_hash)
