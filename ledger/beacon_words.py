"""What referees say about an audited serving, and what it comes to. Pure.

Contract: expert arithmetic is exact, so two honest computations give the same results.
The worker's own is one word; each referee adds one. Who agrees with the worker clears
it; two referees who agree with each other and not with the worker convict it; three
different words decide nothing. Nobody convicts alone, the backbone that pays included.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.errors import FormatRefused
from ledger.keys import KEY_BYTES

__all__ = [
    "MAX_WORDS",
    "WORD_BYTES",
    "AuditState",
    "Word",
    "pack_words",
    "parse_words",
    "weigh_words",
]

MAX_WORDS = 3
_HASH_BYTES = 16
WORD_BYTES = KEY_BYTES + _HASH_BYTES


class AuditState(StrEnum):
    """Where an audit stands; see `ledger.schema_beacon`."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    UNOPENED = "unopened"
    UNJUDGED = "unjudged"
    UNASKED = "unasked"


@dataclass(frozen=True, slots=True)
class Word:
    """What one referee computed."""

    referee: bytes  # [32]
    out_hash: bytes  # [16]

    def __post_init__(self) -> None:
        """Check the lengths.

        Raises:
            FormatRefused: it is no word.
        """
        if (len(self.referee), len(self.out_hash)) != (KEY_BYTES, _HASH_BYTES):
            raise FormatRefused(
                f"a word of {len(self.out_hash)} bytes by {len(self.referee)}"
            )


def weigh_words(words: Sequence[Word], out_hash: bytes) -> AuditState:
    """Return what these words come to; OPEN while another one is needed.

    Args:
        words: of different referees, none of them the worker, in order.
        out_hash: the worker's, from its leaf.
    """
    said = [word.out_hash for word in words]
    if out_hash in said:
        return AuditState.PASSED
    if any(said.count(each) > 1 for each in said):
        return AuditState.FAILED
    return AuditState.UNJUDGED if len(said) >= MAX_WORDS else AuditState.OPEN


def pack_words(words: Iterable[Word]) -> bytes:
    """Return the words as they are stored, 48 bytes each."""
    return b"".join(word.referee + word.out_hash for word in words)


def parse_words(raw: bytes) -> tuple[Word, ...]:
    """Read stored words back.

    Raises:
        FormatRefused: it is no whole number of words, or too many.
    """
    if len(raw) % WORD_BYTES or len(raw) > MAX_WORDS * WORD_BYTES:
        raise FormatRefused(f"words of {len(raw)} bytes")
    starts = range(0, len(raw), WORD_BYTES)
    return tuple(
        Word(raw[at : at + KEY_BYTES], raw[at + KEY_BYTES : at + WORD_BYTES])
        for at in starts
    )
