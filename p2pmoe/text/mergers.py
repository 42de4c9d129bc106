"""The `tokenizers` models of the kinds of vocabularies: plain text to token ids.

Control and user-defined tokens are not in them, so that no text whatever becomes one
(faults B08). Time is bounded: merging is O(n log n) in a piece, splitting is linear for
every rule, and what a vocabulary could make slow is bounded where it is checked.
"""

from collections.abc import Iterable

import tokenizers
from tokenizers import models, pre_tokenizers

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.pretokenizers import pretokenizer_rule
from p2pmoe.text.sentence_piece import score_merges
from p2pmoe.text.vocabulary import TokenKind, Vocabulary, VocabularyKind

__all__ = ["build_merger"]

_TEXT_KINDS = frozenset({TokenKind.NORMAL, TokenKind.BYTE, TokenKind.UNKNOWN})


def build_merger(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Build the merge model; takes about a second for 100,000 merges.

    Raises:
        TokenizerError: The merges do not fit the vocabulary.
    """
    match vocabulary.kind:
        case VocabularyKind.BYTE_LEVEL:
            return _byte_level(vocabulary)
        case VocabularyKind.SENTENCE_PIECE:
            return _sentence_piece(vocabulary)
        case VocabularyKind.UNIGRAM:
            return _unigram(vocabulary)


def _tokens_of(vocabulary: Vocabulary, kinds: frozenset[TokenKind]) -> dict[str, int]:
    pairs = zip(vocabulary.texts, vocabulary.kinds, strict=True)
    return {text: token for token, (text, kind) in enumerate(pairs) if kind in kinds}


def _byte_level(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    rule = pretokenizer_rule(vocabulary.pretokenizer)
    known = _tokens_of(vocabulary, frozenset({TokenKind.NORMAL}))
    model = models.BPE(
        vocab=known,
        merges=_pairs(vocabulary.merges, known),
        ignore_merges=vocabulary.ignore_merges,
    )
    merger = tokenizers.Tokenizer(model)
    splits = [
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in rule.patterns
    ]
    to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    merger.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_alphabet])
    return merger


def _pairs(merges: Iterable[str], known: dict[str, int]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for merge in merges:
        left, _, right = merge.partition(" ")
        if left not in known or right not in known or left + right not in known:
            raise TokenizerError(
                f"merge {merge[:80]!r} names a token that is not there"
            )
        pairs.append((left, right))
    return pairs


def _sentence_piece(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    known = _tokens_of(vocabulary, _TEXT_KINDS)
    scores = dict(zip(vocabulary.texts, vocabulary.scores, strict=True))
    unknown = vocabulary.unknown_id
    model = models.BPE(
        vocab=known,
        merges=score_merges(known, scores),
        unk_token=None if unknown is None else vocabulary.texts[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    return tokenizers.Tokenizer(model)


def _unigram(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Return the best way through a text; silent tokens keep their places, unreachable.

    The place of a token in the model's list is its id, so all must be there: those
    that text may not become have a text that no text holds.
    """
    pieces = [
        (text if kind in _TEXT_KINDS else f"\ufdd0{token}", score)
        for token, (text, kind, score) in enumerate(
            zip(vocabulary.texts, vocabulary.kinds, vocabulary.scores, strict=True)
        )
    ]
    model = models.Unigram(
        vocab=pieces,
        unk_id=vocabulary.unknown_id,
        byte_fallback=TokenKind.BYTE in vocabulary.kinds,
    )
    return tokenizers.Tokenizer(model)
