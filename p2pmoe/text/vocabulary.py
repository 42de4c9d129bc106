"""The vocabulary of a model file, read from its metadata and checked.

Two kinds are known: `gpt2`, byte-level merges whose token texts are in the alphabet of
`byte_alphabet`; and `llama`, SentencePiece merges with scores, U+2581 for a space and
byte tokens. The kinds of tokens are the file format's: control tokens never stand for
text, user-defined ones stand for their literal text.
"""

import hashlib
from dataclasses import dataclass
from enum import Enum, IntEnum, unique

import msgpack

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR, UTF8_BYTES, alphabet_bytes
from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.pretokenizers import pretokenizer_rule
from p2pmoe.weights.metadata import Metadata
from p2pmoe.weights.model_file import ModelFile

__all__ = ["SPACE", "TokenKind", "Vocabulary", "VocabularyKind", "load_vocabulary"]

SPACE = "\u2581"
_MAX_TOKENS = 1 << 22
_MAX_TOKEN_CHARACTERS = 10_000
_PREFIX = "tokenizer.ggml."

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


@unique
class TokenKind(IntEnum):
    """What a token is for, by its number in the file."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


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
    unknown_id: int | None
    add_bos: bool
    add_space: bool  # SentencePiece: a space before the text
    stop_ids: frozenset[int]  # tokens that end a turn

    def digest(self) -> bytes:
        """Return 32 bytes that are equal only for equal tokenization."""
        merges = [list(self.merges), list(self.scores)]
        special = [self.bos_id, self.eos_id, self.unknown_id, sorted(self.stop_ids)]
        flags = [self.kind.value, self.pretokenizer, self.add_bos, self.add_space]
        tokens = [list(self.texts), [int(kind) for kind in self.kinds]]
        packed: bytes = msgpack.packb([1, *flags, *special, *tokens, *merges])
        return hashlib.sha256(packed).digest()

    def token_bytes(self, token: int) -> bytes:
        """Return what a token adds to the text; nothing for control tokens.

        Raises:
            TokenizerError: A normal token's text stands for no bytes.
        """
        text, kind = self.texts[token], self.kinds[token]
        if kind in {TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED}:
            return b""
        if kind is TokenKind.USER_DEFINED:
            return text.encode()
        try:
            if kind is TokenKind.BYTE:
                return _byte_of(text)
            if self.kind is VocabularyKind.SENTENCE_PIECE:
                return text.replace(SPACE, " ").encode()
            return alphabet_bytes(text)
        except ValueError as exc:
            raise TokenizerError(f"token {token}: {exc}") from exc


def load_vocabulary(
    model: ModelFile, pretokenizer_override: str | None = None
) -> Vocabulary:
    """Read and check the vocabulary of a model file.

    Raises:
        PretokenizerUnknown: Byte-level, and the pre-tokenizer is missing or unknown.
        TokenizerError: Another tokenizer model, or an inconsistent vocabulary.
        ModelFileError: A key is missing or of another type.
    """
    meta = model.metadata
    kind = _kind(meta)
    texts = meta.texts(f"{_PREFIX}tokens")
    if not 0 < len(texts) <= _MAX_TOKENS or len(set(texts)) != len(texts):
        raise TokenizerError(f"{model.path}: tokens are missing or not unique")
    longest = max(map(len, texts))
    if longest > _MAX_TOKEN_CHARACTERS:
        raise TokenizerError(f"{model.path}: a token of {longest} characters")
    byte_level = kind is VocabularyKind.BYTE_LEVEL
    name, add_bos = "", True
    if byte_level:
        name = pretokenizer_override or meta.text(f"{_PREFIX}pre", "")
        add_bos = pretokenizer_rule(name).add_bos
    kinds = _token_kinds(meta, len(texts))
    eos_id = _special(meta, "eos_token_id", len(texts))
    vocabulary = Vocabulary(
        kind=kind,
        pretokenizer=name,
        texts=texts,
        kinds=kinds,
        merges=meta.texts(f"{_PREFIX}merges") if byte_level else (),
        scores=() if byte_level else _scores(meta, len(texts)),
        bos_id=_special(meta, "bos_token_id", len(texts)),
        eos_id=eos_id,
        unknown_id=_special(meta, "unknown_token_id", len(texts)),
        add_bos=meta.flag(f"{_PREFIX}add_bos_token", add_bos),
        add_space=not byte_level
        and meta.flag(f"{_PREFIX}add_space_prefix", default=True),
        stop_ids=_stop_ids(meta, texts, kinds),
    )
    _check(vocabulary)
    return vocabulary


def _kind(meta: Metadata) -> VocabularyKind:
    name = meta.text(f"{_PREFIX}model")
    try:
        return VocabularyKind(name)
    except ValueError as exc:
        raise TokenizerError(f"tokenizer model {name[:80]!r} is unknown here") from exc


def _token_kinds(meta: Metadata, n_tokens: int) -> tuple[TokenKind, ...]:
    numbers = meta.integers(f"{_PREFIX}token_type")
    if len(numbers) != n_tokens:
        raise TokenizerError(f"{len(numbers)} token types for {n_tokens} tokens")
    try:
        return tuple(map(TokenKind, numbers))
    except ValueError as exc:
        raise TokenizerError(f"token type {exc}") from exc


def _scores(meta: Metadata, n_tokens: int) -> tuple[float, ...]:
    scores = meta.reals(f"{_PREFIX}scores")
    if len(scores) != n_tokens:
        raise TokenizerError(f"{len(scores)} scores for {n_tokens} tokens")
    return scores


def _special(meta: Metadata, name: str, n_tokens: int) -> int | None:
    key = _PREFIX + name
    return meta.integer(key, high=n_tokens - 1) if key in meta else None


def _stop_ids(
    meta: Metadata, texts: tuple[str, ...], kinds: tuple[TokenKind, ...]
) -> frozenset[int]:
    names = ("eos_token_id", "eot_token_id", "eom_token_id")
    named = {_special(meta, name, len(texts)) for name in names} - {None}
    listed = {
        token
        for token, (text, kind) in enumerate(zip(texts, kinds, strict=True))
        if kind is TokenKind.CONTROL and text in _TURN_ENDS
    }
    return frozenset(token for token in named | listed if token is not None)


def _check(vocabulary: Vocabulary) -> None:
    for token in range(len(vocabulary.texts)):
        vocabulary.token_bytes(token)
    known = set(vocabulary.texts)
    if vocabulary.kind is VocabularyKind.BYTE_LEVEL:
        lacking = [b for b in sorted(UTF8_BYTES) if BYTE_TO_CHAR[b] not in known]
    else:
        lacking = [b for b in range(256) if f"<0x{b:02X}>" not in known]
    if lacking:
        raise TokenizerError(f"the vocabulary has no token for byte 0x{lacking[0]:02X}")


def _byte_of(text: str) -> bytes:
    if len(text) != 6 or not (text.startswith("<0x") and text.endswith(">")):
        raise ValueError(f"{text!r} is no byte token")
    return bytes([int(text[3:5], 16)])
