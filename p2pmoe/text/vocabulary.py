"""What a vocabulary is: its tokens, their kinds, and what each adds to a text.

Three kinds are known: `gpt2`, byte-level merges whose token texts are in the alphabet
of `byte_alphabet`; `llama`, SentencePiece merges by score; and `t5`, SentencePiece's
unigrams. The two last write U+2581 for a space and have a token for each byte (a
unigram vocabulary may do without). Control tokens never stand for text, user-defined
ones stand for their literal text, unused ones (rows that fill a matrix) for nothing.

Vocabularies come from a model file's metadata (`gguf_vocabulary`) or from a folder's
tokenizer.json (`tokenizer_json`); `loading` takes either.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import Enum, IntEnum, unique

import msgpack

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR, UTF8_BYTES, alphabet_bytes
from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.pretokenizers import pretokenizer_rule

__all__ = [
    "MAX_TOKENS",
    "SPACE",
    "TokenKind",
    "Vocabulary",
    "VocabularyKind",
    "check_vocabulary",
    "turn_ends",
]

SPACE = "\u2581"
MAX_TOKENS = 1 << 20
_MAX_TOKEN_CHARACTERS = 10_000
_MAX_SEARCHED_CHARACTERS = 256  # of tokens that are looked for at each place of a text
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")

# Control tokens that end a turn, for files whose metadata name only one of them.
_TURN_ENDS = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|endoftext|>",
        "<end_of_turn>",
    }
)


@unique
class VocabularyKind(Enum):
    """The tokenizer model; the value is `tokenizer.ggml.model`."""

    BYTE_LEVEL = "gpt2"
    SENTENCE_PIECE = "llama"
    UNIGRAM = "t5"


@unique
class TokenKind(IntEnum):
    """What a token is for, by its number in the file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_SILENT = frozenset({TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """All tokens; `merges` for byte-level kinds, `scores` for SentencePiece."""

    kind: VocabularyKind
    pretokenizer: str  # a name of `pretokenizers`, empty for SentencePiece
    texts: tuple[str, ...]
    kinds: tuple[TokenKind, ...]
    merges: tuple[str, ...]
    scores: tuple[float, ...]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None  # None for byte-level kinds, which know everything
    add_bos: bool
    add_space: bool  # SentencePiece: a space before the text
    stop_ids: frozenset[int]  # tokens that end a turn
    add_eos: bool = False  # kept for the file; a prompt goes on, so it is not obeyed
    ignore_merges: bool = False  # byte-level: a piece that is a token is taken whole
    space_after_control: bool = True  # `add_space` holds after control tokens too
    squeeze_spaces: bool = False  # unigrams: runs of spaces are one, none at the ends

    def digest(self) -> bytes:
        """Return 32 bytes that are equal only for equal tokenization.

        Names of pre-tokenizers with the same rule are one.
        """
        patterns: tuple[str, ...] = ()
        if self.kind is VocabularyKind.BYTE_LEVEL:
            patterns = pretokenizer_rule(self.pretokenizer).patterns
        packed: bytes = msgpack.packb(
            [
                2,
                self.kind.value,
                list(patterns),
                [self.add_bos, self.add_space, self.ignore_merges],
                [self.space_after_control, self.squeeze_spaces],
                [self.bos_id, self.eos_id, self.unknown_id, sorted(self.stop_ids)],
                list(self.texts),
                [int(kind) for kind in self.kinds],
                list(self.merges),
                list(self.scores),
            ]
        )
        return hashlib.sha256(packed).digest()

    def token_bytes(self, token: int) -> bytes:
        """Return what a token adds to the text; nothing for control tokens.

        Raises:
            TokenizerError: A normal token's text stands for no bytes.
        """
        text, kind = self.texts[token], self.kinds[token]
        if kind in _SILENT:
            return b""
        if kind is TokenKind.USER_DEFINED:
            return text.encode()
        try:
            if kind is TokenKind.BYTE:
                return _byte_of(text)
            if self.kind is VocabularyKind.BYTE_LEVEL:
                return alphabet_bytes(text)
            return text.replace(SPACE, " ").encode()
        except ValueError as exc:
            raise TokenizerError(f"token {token}: {exc}") from exc


def turn_ends(texts: tuple[str, ...], kinds: tuple[TokenKind, ...]) -> frozenset[int]:
    """Return the control tokens that end a turn in every model that has them.

    Where both <|return|> and <|call|> are there (gpt-oss), <|end|> ends one message of
    a turn only: its thoughts, say, before the answer.
    """
    controls = {
        text: token
        for token, (text, kind) in enumerate(zip(texts, kinds, strict=True))
        if kind is TokenKind.CONTROL and text in _TURN_ENDS
    }
    if controls.keys() >= {"<|return|>", "<|call|>"}:
        controls.pop("<|end|>", None)
    return frozenset(controls.values())


def check_vocabulary(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary that is inconsistent, or too slow to use.

    Raises:
        TokenizerError: What is wrong with it.
    """
    texts = vocabulary.texts
    if not 0 < len(texts) <= MAX_TOKENS or len(set(texts)) != len(texts):
        raise TokenizerError("tokens are missing or not unique")
    try:
        "".join([*texts, *vocabulary.merges]).encode()
    except UnicodeEncodeError as exc:
        raise TokenizerError("a token or merge holds a lone surrogate") from exc
    _check_lengths(vocabulary)
    for token in range(len(texts)):
        vocabulary.token_bytes(token)
    _check_bytes(vocabulary)


def _check_lengths(vocabulary: Vocabulary) -> None:
    searched = {TokenKind.CONTROL, TokenKind.USER_DEFINED}
    if vocabulary.kind is not VocabularyKind.BYTE_LEVEL:
        searched.add(TokenKind.NORMAL)
    for text, kind in zip(vocabulary.texts, vocabulary.kinds, strict=True):
        limit = _MAX_SEARCHED_CHARACTERS if kind in searched else _MAX_TOKEN_CHARACTERS
        if len(text) > limit:
            what = kind.name.lower().replace("_", "-")
            raise TokenizerError(f"a token of {len(text)} characters ({what})")


def _check_bytes(vocabulary: Vocabulary) -> None:
    known = set(vocabulary.texts)
    if vocabulary.kind is VocabularyKind.BYTE_LEVEL:
        lacking = [b for b in sorted(UTF8_BYTES) if BYTE_TO_CHAR[b] not in known]
    else:
        lacking = [b for b in range(256) if f"<0x{b:02X}>" not in known]
    without = vocabulary.kind is VocabularyKind.UNIGRAM and len(lacking) == 256
    if lacking and not without:
        raise TokenizerError(f"the vocabulary has no token for byte 0x{lacking[0]:02X}")
    if without and vocabulary.unknown_id is None:
        raise TokenizerError(
            "the vocabulary has neither byte tokens nor an unknown one"
        )


def _byte_of(text: str) -> bytes:
    found = _BYTE_TOKEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no byte token")
    return bytes([int(found[1], 16)])
