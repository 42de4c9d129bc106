"""A tokenizer's bytes in the form that the grammar library walks.

Built once per model, on the first request that needs it: a tree over the bytes of all
tokens, some 0.1 to 1 s for 200,000. Tokens that stand for no text are special: a
grammar meets them by their id alone, so no text of an answer is made of them. Tokens
that end a turn are allowed where the answer is complete.
"""

from typing import TYPE_CHECKING

from p2pmoe.grammar.errors import GrammarRefused
from p2pmoe.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer

__all__ = ["build_token_tree"]


class _Vocabulary:
    """What the library asks of a tokenizer; it takes these names."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.eos_token_id = min(tokenizer.vocabulary.stop_ids)
        self.bos_token_id = tokenizer.vocabulary.bos_id
        pieces = [tokenizer.token_bytes(token) for token in range(tokenizer.n_vocab)]
        self.tokens = [piece or b"<|%d|>" % token for token, piece in enumerate(pieces)]
        self.special_token_ids = [
            token
            for token, piece in enumerate(pieces)
            if not piece or token in tokenizer.vocabulary.stop_ids
        ]
        self._tokenizer = tokenizer

    def __call__(self, text: bytes | str) -> list[int]:
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        return self._tokenizer.encode(text, bos=False)


def build_token_tree(tokenizer: Tokenizer) -> "LLTokenizer":
    """Return the tree; pure computation, for a worker thread.

    Raises:
        GrammarRefused: The vocabulary has no token to end an answer with, the library
            is not installed, or it cannot use this vocabulary.
    """
    if not tokenizer.vocabulary.stop_ids:
        raise GrammarRefused("the model has no token that ends an answer")
    try:
        from llguidance import LLTokenizer, TokenizerWrapper  # noqa: PLC0415 - lazy
    except ImportError as exc:
        reason = "answers by a grammar need the package llguidance"
        raise GrammarRefused(reason, advice="install p2pmoe[serve]") from exc
    try:
        return LLTokenizer(
            TokenizerWrapper(_Vocabulary(tokenizer)),
            n_vocab=tokenizer.n_vocab,
            eos_token=sorted(tokenizer.vocabulary.stop_ids),
        )
    except (ValueError, RuntimeError) as exc:
        reason = "the model's vocabulary cannot be used with a grammar"
        raise GrammarRefused(reason) from exc
