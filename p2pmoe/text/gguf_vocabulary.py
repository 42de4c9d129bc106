"""A vocabulary in GGUF metadata: read and checked, and written back.

Keys are llama.cpp's `tokenizer.ggml.*`. Three properties that they cannot express have
keys of our own, `tokenizer.p2pmoe.*`, written only where llama.cpp's meaning differs.

Tokenizer models of other kinds (WordPiece, RWKV and the like) are refused by name, and
so is `precompiled_charsmap`, a table that rewrites text before it is tokenized.
"""

from pathlib import Path

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.pretokenizers import pretokenizer_rule
from p2pmoe.text.vocabulary import (
    MAX_TOKENS,
    TokenKind,
    Vocabulary,
    VocabularyKind,
    check_vocabulary,
    turn_ends,
)
from p2pmoe.weights.metadata import Metadata, MetadataValue

__all__ = ["vocabulary_from_metadata", "vocabulary_metadata"]

_PREFIX = "tokenizer.ggml."
_OURS = "tokenizer.p2pmoe."
_NO_TOKEN = 0xFFFFFFFF  # -1, as some writers say that there is none
_STOPS = ("eos_token_id", "eot_token_id", "eom_token_id")
_OTHER_MODELS = {
    "bert": "WordPiece",
    "gemma4": "unsplit byte-fallback merges",
    "no_vocab": "no vocabulary",
    "none": "no vocabulary",
    "plamo2": "PLaMo-2",
    "rwkv": "RWKV",
}


def vocabulary_from_metadata(
    meta: Metadata, path: Path, pretokenizer_override: str | None = None
) -> Vocabulary:
    """Read and check the vocabulary of GGUF metadata; `path` is for messages.

    Raises:
        PretokenizerUnknown: Byte-level, and the pre-tokenizer is missing or unknown.
        TokenizerError: Another tokenizer model, or an inconsistent vocabulary.
        ModelFileError: A key is missing or of another type.
    """
    kind = _kind(meta)
    texts = meta.texts(f"{_PREFIX}tokens")
    if not 0 < len(texts) <= MAX_TOKENS or len(set(texts)) != len(texts):
        raise TokenizerError(f"{path}: tokens are missing or not unique")
    byte_level = kind is VocabularyKind.BYTE_LEVEL
    unigram = kind is VocabularyKind.UNIGRAM
    name, add_bos, ignore_merges = "", not unigram, False
    if byte_level:
        name = pretokenizer_override or _pretokenizer_name(meta)
        rule = pretokenizer_rule(name)
        add_bos, ignore_merges = rule.add_bos, rule.ignore_merges
    elif meta.get(f"{_PREFIX}precompiled_charsmap"):
        raise TokenizerError("the tokenizer rewrites text by a precompiled_charsmap")
    kinds = _token_kinds(meta, texts)
    vocabulary = Vocabulary(
        kind=kind,
        pretokenizer=name,
        texts=texts,
        kinds=kinds,
        merges=_merges(meta) if byte_level else (),
        scores=() if byte_level else _scores(meta, len(texts)),
        bos_id=_special(meta, "bos_token_id", len(texts)),
        eos_id=_special(meta, "eos_token_id", len(texts)),
        unknown_id=None if byte_level else _unknown(meta, kinds),
        add_bos=_flag(meta, "add_bos_token", default=add_bos),
        add_space=not byte_level and _flag(meta, "add_space_prefix", default=True),
        stop_ids=_stop_ids(meta, texts, kinds),
        add_eos=_flag(meta, "add_eos_token", default=unigram),
        ignore_merges=meta.flag(f"{_OURS}ignore_merges", ignore_merges),
        space_after_control=meta.flag(f"{_OURS}space_after_control", default=True),
        squeeze_spaces=unigram
        and _flag(meta, "remove_extra_whitespaces", default=False),
    )
    check_vocabulary(vocabulary)
    return vocabulary


def vocabulary_metadata(vocabulary: Vocabulary) -> dict[str, MetadataValue]:
    """Return the metadata from which the same vocabulary is read back.

    The template is not part of it: its key is `tokenizer.chat_template`.
    """
    byte_level = vocabulary.kind is VocabularyKind.BYTE_LEVEL
    unigram = vocabulary.kind is VocabularyKind.UNIGRAM
    ids = {
        "bos_token_id": vocabulary.bos_id,
        "eos_token_id": vocabulary.eos_id,
        "unknown_token_id": vocabulary.unknown_id,
    }
    written: dict[str, MetadataValue] = {
        f"{_PREFIX}model": vocabulary.kind.value,
        f"{_PREFIX}pre": vocabulary.pretokenizer or "default",
        f"{_PREFIX}tokens": vocabulary.texts,
        f"{_PREFIX}token_type": tuple(map(int, vocabulary.kinds)),
        f"{_PREFIX}add_bos_token": vocabulary.add_bos,
        f"{_PREFIX}add_eos_token": vocabulary.add_eos,
        **{f"{_PREFIX}{key}": value for key, value in ids.items() if value is not None},
    }
    if byte_level:
        written[f"{_PREFIX}merges"] = vocabulary.merges
        rule = pretokenizer_rule(vocabulary.pretokenizer)
        if vocabulary.ignore_merges != rule.ignore_merges:
            written[f"{_OURS}ignore_merges"] = vocabulary.ignore_merges
    else:
        written[f"{_PREFIX}scores"] = vocabulary.scores
        written[f"{_PREFIX}add_space_prefix"] = vocabulary.add_space
        if not vocabulary.space_after_control:
            written[f"{_OURS}space_after_control"] = False
    if unigram:
        written[f"{_PREFIX}remove_extra_whitespaces"] = vocabulary.squeeze_spaces
    return written | _stop_keys(vocabulary)


def _stop_keys(vocabulary: Vocabulary) -> dict[str, MetadataValue]:
    """Return eot and eom where they suffice, else all stop ids under our own key."""
    known = turn_ends(vocabulary.texts, vocabulary.kinds) | {vocabulary.eos_id}
    more = sorted(vocabulary.stop_ids - known)
    names = [f"{_PREFIX}{name}" for name in _STOPS[1:]]
    if len(more) > len(names):
        return {f"{_OURS}stop_token_ids": tuple(sorted(vocabulary.stop_ids))}
    return dict(zip(names, more, strict=False))


def _kind(meta: Metadata) -> VocabularyKind:
    name = meta.text(f"{_PREFIX}model")
    try:
        return VocabularyKind(name)
    except ValueError as exc:
        what = _OTHER_MODELS.get(name)
        known = f" ({what})" if what else ""
        raise TokenizerError(
            f"tokenizer model {name[:80]!r} is unknown here{known}"
        ) from exc


def _pretokenizer_name(meta: Metadata) -> str:
    name = meta.text(f"{_PREFIX}pre", "")
    if name == "default":
        raise PretokenizerUnknown("pre-tokenizer 'default' stands for an unknown one")
    return name


def _merges(meta: Metadata) -> tuple[str, ...]:
    return meta.texts(f"{_PREFIX}merges") if f"{_PREFIX}merges" in meta else ()


def _flag(meta: Metadata, name: str, *, default: bool) -> bool:
    return meta.flag(_PREFIX + name, default)


def _token_kinds(meta: Metadata, texts: tuple[str, ...]) -> tuple[TokenKind, ...]:
    """Return what each token is; one that ends a turn is for control.

    Files of models that others have trained on list those as text now and then.
    """
    numbers = meta.integers(f"{_PREFIX}token_type")
    if len(numbers) != len(texts):
        raise TokenizerError(f"{len(numbers)} token types for {len(texts)} tokens")
    try:
        kinds = list(map(TokenKind, numbers))
    except ValueError as exc:
        raise TokenizerError(f"token type {exc}") from exc
    for token in turn_ends(texts, (TokenKind.CONTROL,) * len(texts)):
        kinds[token] = TokenKind.CONTROL
    return tuple(kinds)


def _scores(meta: Metadata, n_tokens: int) -> tuple[float, ...]:
    scores = meta.reals(f"{_PREFIX}scores")
    if len(scores) != n_tokens:
        raise TokenizerError(f"{len(scores)} scores for {n_tokens} tokens")
    return scores


def _special(meta: Metadata, name: str, n_tokens: int) -> int | None:
    key = _PREFIX + name
    if meta.get(key, _NO_TOKEN) == _NO_TOKEN:
        return None
    return meta.integer(key, high=n_tokens - 1)


def _unknown(meta: Metadata, kinds: tuple[TokenKind, ...]) -> int | None:
    named = _special(meta, "unknown_token_id", len(kinds))
    if named is None and TokenKind.UNKNOWN in kinds:
        return kinds.index(TokenKind.UNKNOWN)
    return named


def _stop_ids(
    meta: Metadata, texts: tuple[str, ...], kinds: tuple[TokenKind, ...]
) -> frozenset[int]:
    ours = f"{_OURS}stop_token_ids"
    if ours in meta:
        stops = meta.integers(ours)
        if not all(0 <= token < len(texts) for token in stops):
            raise TokenizerError(f"{ours} names a token that is not there")
        return frozenset(stops)
    named = (_special(meta, name, len(texts)) for name in _STOPS)
    return turn_ends(texts, kinds) | {token for token in named if token is not None}
