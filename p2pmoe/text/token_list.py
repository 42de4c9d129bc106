"""The tokens of a folder's vocabulary by id, and which of them are special.

A model's matrices may have more rows than there are tokens: rows that no token fills
are unused tokens `[PADn]`, and a few of them are all that is believed. Special tokens
are named by the files beside the vocabulary (`tokenizer_config`), as texts or as ids;
one that is not there is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.tokenizer_config import TokenizerConfig
from p2pmoe.text.vocabulary import (
    MAX_TOKENS,
    TokenKind,
    Vocabulary,
    VocabularyKind,
    turn_ends,
)

__all__ = [
    "SpecialTokens",
    "TokenList",
    "byte_level_vocabulary",
    "list_tokens",
    "special_tokens",
]

_MAX_SPARE_ROWS = 1 << 18  # without a token; checkpoints for tests have many


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenList:
    """All rows by id, and the ids of those that are tokens, by text."""

    texts: tuple[str, ...]
    kinds: tuple[TokenKind, ...]
    ids: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """What begins and ends a text, and what ends a turn."""

    bos_id: int | None
    eos_id: int | None
    stop_ids: frozenset[int]
    add_bos: bool
    add_eos: bool


def list_tokens(
    place: str, texts: Mapping[int, str], kinds: Mapping[int, TokenKind], n_rows: int
) -> TokenList:
    """Return all tokens, with holes and up to `n_rows` rows to spare filled.

    `place` is for messages; a token without a kind is an unused one.

    Raises:
        TokenizerError: Ids are missing or too large, two tokens have one text, or there
            are far more rows than tokens.
    """
    n_tokens = max(n_rows, max(texts, default=-1) + 1)
    if n_tokens > MAX_TOKENS or min(texts, default=-1) < 0:
        raise TokenizerError(f"{place}: token ids are missing or too large")
    if n_tokens > len(texts) + _MAX_SPARE_ROWS:
        reason = f"{len(texts)} tokens for a vocabulary of {n_tokens}"
        raise TokenizerError(f"{place}: {reason}")
    ids = {text: id_ for id_, text in texts.items()}
    if len(ids) != len(texts):
        raise TokenizerError(f"{place}: tokens are not unique")
    return TokenList(
        texts=tuple(texts.get(id_, f"[PAD{id_}]") for id_ in range(n_tokens)),
        kinds=tuple(kinds.get(id_, TokenKind.UNUSED) for id_ in range(n_tokens)),
        ids=ids,
    )


def special_tokens(
    tokens: TokenList, config: TokenizerConfig, *, before: str = "", after: str = ""
) -> SpecialTokens:
    """Return the special tokens that the files name.

    `before` and `after` are texts of tokens that the tokenizer itself puts around a
    text; the configuration may say otherwise.

    Raises:
        TokenizerError: One that is named is not in the vocabulary.
    """
    bos_id = _named(tokens, config.bos, config.bos_id)
    eos_id = _named(tokens, config.eos, next(iter(config.eos_ids), None))
    adds_bos = bos_id is not None and before == tokens.texts[bos_id]
    adds_eos = eos_id is not None and after == tokens.texts[eos_id]
    stops = {token for token in config.eos_ids if token < len(tokens.texts)}
    named = {eos_id} if eos_id is not None else set()
    return SpecialTokens(
        bos_id=bos_id,
        eos_id=eos_id,
        stop_ids=turn_ends(tokens.texts, tokens.kinds) | stops | named,
        add_bos=adds_bos if config.add_bos is None else config.add_bos,
        add_eos=adds_eos if config.add_eos is None else config.add_eos,
    )


def _named(tokens: TokenList, text: str | None, else_id: int | None) -> int | None:
    if text is not None:
        if text not in tokens.ids:
            raise TokenizerError(
                f"special token {text[:40]!r} is not in the vocabulary"
            )
        return tokens.ids[text]
    if else_id is not None and else_id >= len(tokens.texts):
        raise TokenizerError(f"special token {else_id} is not in the vocabulary")
    return else_id


def byte_level_vocabulary(
    tokens: TokenList,
    special: SpecialTokens,
    pretokenizer: str,
    merges: Iterable[tuple[str, str]],
    *,
    ignore_merges: bool,
) -> Vocabulary:
    """Return the vocabulary of byte-level merges, the first merge first.

    `pretokenizer` is a name of `pretokenizers`; with `ignore_merges` a piece that is a
    token is taken as it is.
    """
    return Vocabulary(
        kind=VocabularyKind.BYTE_LEVEL,
        pretokenizer=pretokenizer,
        texts=tokens.texts,
        kinds=tokens.kinds,
        merges=tuple(f"{left} {right}" for left, right in merges),
        scores=(),
        bos_id=special.bos_id,
        eos_id=special.eos_id,
        unknown_id=None,
        add_bos=special.add_bos,
        add_space=False,
        stop_ids=special.stop_ids,
        add_eos=special.add_eos,
        ignore_merges=ignore_merges,
    )
