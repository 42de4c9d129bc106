"""Text to token ids and back, by a model file's own vocabulary.

Rules:
- Control tokens come from text only where `special=True` asks for it; without it, no
  text whatever gives one (faults B08): they are not even in the merge model.
- User-defined tokens stand for their literal text and are found everywhere.
- `decode(encode(text))` gives the text's bytes back, byte by byte. SentencePiece's
  kinds are different in one point: they write a space as U+2581, so that a U+2581 in a
  text comes back as a space. Unigrams may also squeeze spaces (where the file says so),
  or, without byte tokens, give their unknown token for what they do not know.
- The rest of the text is split and merged by the `tokenizers` package.

Encoding is pure computation, some 10 ms for 10,000 words: call it from a worker thread
where an event loop must go on. Instances may be shared between threads.
"""

from collections.abc import Sequence

from p2pmoe.text.errors import TextRefused
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.text.mergers import build_merger
from p2pmoe.text.token_finder import TokenFinder
from p2pmoe.text.vocabulary import SPACE, TokenKind, Vocabulary, VocabularyKind
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["Tokenizer", "load_tokenizer"]


class Tokenizer:
    """The tokenizer of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Build the merge model; takes about a second for 100,000 merges.

        Raises:
            TokenizerError: The merges do not fit the vocabulary.
        """
        self.vocabulary = vocabulary
        self.digest = vocabulary.digest()
        self._bytes = tuple(map(vocabulary.token_bytes, range(len(vocabulary.texts))))
        self._ids = {text: token for token, text in enumerate(vocabulary.texts)}
        self._merger = build_merger(vocabulary)
        defined = self._texts_of(TokenKind.USER_DEFINED)
        self._defined = TokenFinder(defined)
        self._special = TokenFinder([*defined, *self.control_texts])

    @property
    def n_vocab(self) -> int:
        """Number of tokens."""
        return len(self._bytes)

    @property
    def longest_token_bytes(self) -> int:
        """Bytes of the longest token: no text has fewer tokens than its part of it."""
        return max(map(len, self._bytes))

    @property
    def control_texts(self) -> tuple[str, ...]:
        """The texts of control tokens that can be asked for: two characters or more."""
        texts = self._texts_of(TokenKind.CONTROL)
        return tuple(text for text in texts if len(text) > 1)

    def encode(
        self, text: str, *, bos: bool, special: bool = False, guard: str = ""
    ) -> list[int]:
        """Return the token ids of a text.

        Args:
            text: Any Unicode text.
            bos: Put the BOS token first, unless the text gave it already.
            special: Find control tokens in the text too.
            guard: A character that keeps control tokens apart; removed before the
                rest is tokenized (see `template`).

        Raises:
            TextRefused: The text holds lone surrogates, or there is no BOS token.
        """
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise TextRefused("text holds a lone surrogate and is no Unicode")
        ids: list[int] = []
        at = 0
        finder = self._special if special else self._defined
        for start, end in finder.find(text):
            self._encode_plain(text[at:start], guard, ids)
            ids.append(self._ids[text[start:end]])
            at = end
        self._encode_plain(text[at:], guard, ids)
        return self._with_bos(ids) if bos else ids

    def token_bytes(self, token: int) -> bytes:
        """Return what one token adds to the text; TextRefused if there is no such."""
        if not 0 <= token < len(self._bytes):
            raise TextRefused(f"there is no token {token}")
        return self._bytes[token]

    def decode(self, tokens: Sequence[int]) -> bytes:
        """Return the text's bytes of whole sequences; raises as `token_bytes`."""
        text = b"".join(map(self.token_bytes, tokens))
        if self.vocabulary.add_space and text.startswith(b" "):
            return text[1:]
        return text

    def _encode_plain(self, text: str, guard: str, ids: list[int]) -> None:
        if guard:
            text = text.replace(guard, "")
        if not text:
            return
        vocabulary = self.vocabulary
        if vocabulary.kind is not VocabularyKind.BYTE_LEVEL:
            if vocabulary.squeeze_spaces:
                text = " ".join(part for part in text.split(" ") if part)
                if not text:
                    return
            text = text.replace(" ", SPACE)
            if vocabulary.add_space and self._starts_afresh(ids):
                text = SPACE + text
        ids.extend(self._merger.encode(text, add_special_tokens=False).ids)

    def _starts_afresh(self, ids: list[int]) -> bool:
        if not ids:
            return True
        after_control = self.vocabulary.kinds[ids[-1]] is TokenKind.CONTROL
        return after_control and self.vocabulary.space_after_control

    def _with_bos(self, ids: list[int]) -> list[int]:
        bos = self.vocabulary.bos_id
        if bos is None:
            raise TextRefused("the vocabulary has no BOS token")
        return ids if ids[:1] == [bos] else [bos, *ids]

    def _texts_of(self, kind: TokenKind) -> list[str]:
        pairs = zip(self.vocabulary.texts, self.vocabulary.kinds, strict=True)
        return [text for text, its_kind in pairs if its_kind is kind and text]


def load_tokenizer(
    model: ModelHeader, *, pretokenizer_override: str | None = None
) -> Tokenizer:
    """Build the tokenizer of a model file.

    `pretokenizer_override` names the pre-tokenizer to use whatever the file says.

    Raises:
        PretokenizerUnknown: The pre-tokenizer is missing or unknown (fault B10).
        TokenizerError: The vocabulary is incomplete, inconsistent or of another kind.
        ModelFileError: A key is missing or of another type.
    """
    return Tokenizer(load_vocabulary(model, pretokenizer_override))
