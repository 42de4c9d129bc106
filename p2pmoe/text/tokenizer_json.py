"""A folder's tokenizer.json (Hugging Face tokenizers) as a vocabulary.

What is understood: byte-level BPE, BPE with byte fallback (SentencePiece's merges), and
Unigram. Everything that could change ids is read and either expressed in the
vocabulary or refused; decoders, truncation and padding are not looked at, since ours
are those of the vocabulary.

Added tokens that are special, or look like it, are control tokens; other added tokens
are user-defined. One that swallows the spaces beside it or counts only as a whole word
is refused.
"""

from pathlib import Path

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.folder_files import JsonObject, read_json
from p2pmoe.text.json_splitting import (
    SpaceRule,
    check_byte_level_normalizer,
    has_byte_level,
    pretokenizer_name,
    space_rule,
)
from p2pmoe.text.pretokenizers import pretokenizer_rule
from p2pmoe.text.sentence_piece import merge_scores
from p2pmoe.text.token_list import (
    SpecialTokens,
    TokenList,
    byte_level_vocabulary,
    list_tokens,
    special_tokens,
)
from p2pmoe.text.tokenizer_config import read_tokenizer_config
from p2pmoe.text.vocabulary import (
    SPACE,
    TokenKind,
    Vocabulary,
    VocabularyKind,
    check_vocabulary,
)

__all__ = ["vocabulary_from_folder"]

_MAX_BYTES = 1 << 27
_MAX_SCORE = 1e30
_LOOKS_SPECIAL = (("<|", "|>"), ("<\uff5c", "\uff5c>"), ("<unused", ">"))
_SPECIAL_TEXTS = frozenset({"<pad>", "<mask>", "<2mass>", "[@BOS@]"})
_TEXT_KINDS = frozenset({TokenKind.NORMAL, TokenKind.BYTE, TokenKind.UNKNOWN})


def vocabulary_from_folder(
    folder: Path, pretokenizer_override: str | None = None
) -> Vocabulary:
    """Read and check the vocabulary of a model folder.

    Raises:
        PretokenizerUnknown: Byte-level, and the way it splits is none known here.
        TokenizerError: It has no tokenizer.json, or one that is not understood.
    """
    document = read_json(folder, "tokenizer.json", _MAX_BYTES)
    if document is None:
        raise TokenizerError(
            f"{folder}: there is no tokenizer.json",
            advice="add the tokenizer.json of the model, or use its GGUF",
        )
    config = read_tokenizer_config(folder)
    model = document.child("model")
    kind = _kind(document, model)
    tokens = _tokens(document, model, kind, config.vocab_size)
    before, after = _template_tokens(document)
    special = special_tokens(tokens, config, before=before, after=after)
    if kind is VocabularyKind.BYTE_LEVEL:
        vocabulary = _byte_level(document, tokens, special, pretokenizer_override)
    else:
        vocabulary = _sentence_piece(document, tokens, special, kind)
    check_vocabulary(vocabulary)
    return vocabulary


def _byte_level(
    document: JsonObject,
    tokens: TokenList,
    special: SpecialTokens,
    override: str | None,
) -> Vocabulary:
    model = document.child("model")
    check_byte_level_normalizer(document)
    ignore_merges = model.of_type("ignore_merges", bool, False)
    name = override or pretokenizer_name(document, ignore_merges=ignore_merges)
    pretokenizer_rule(name)
    merges = _merges(model)
    for left, right in merges:
        if " " in left + right:
            raise TokenizerError(f"merge {left[:40]!r} {right[:40]!r} holds a space")
    return byte_level_vocabulary(
        tokens, special, name, merges, ignore_merges=ignore_merges
    )


def _sentence_piece(
    document: JsonObject,
    tokens: TokenList,
    special: SpecialTokens,
    kind: VocabularyKind,
) -> Vocabulary:
    spaces = space_rule(document)
    _check_crossing(tokens, spaces)
    return Vocabulary(
        kind=kind,
        pretokenizer="",
        texts=tokens.texts,
        kinds=tokens.kinds,
        merges=(),
        scores=_scores(document.child("model"), tokens, kind),
        bos_id=special.bos_id,
        eos_id=special.eos_id,
        unknown_id=_unknown_id(document.child("model"), tokens),
        add_bos=special.add_bos,
        add_space=spaces.add_space,
        stop_ids=special.stop_ids,
        add_eos=special.add_eos,
        space_after_control=spaces.after_control,
        squeeze_spaces=spaces.squeeze,
    )


def _kind(document: JsonObject, model: JsonObject) -> VocabularyKind:
    name = model.of_type("type", str, "BPE")
    if name == "Unigram":
        return VocabularyKind.UNIGRAM
    if name != "BPE":
        raise model.wrong("type", f"{name[:40]!r} is unknown here")
    for field in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.fields.get(field):
            raise model.wrong(field, "is not supported")
    if has_byte_level(document):
        return VocabularyKind.BYTE_LEVEL
    if model.of_type("byte_fallback", bool, False):
        return VocabularyKind.SENTENCE_PIECE
    raise model.wrong("type", "'BPE' is neither byte-level nor has byte fallback")


def _tokens(
    document: JsonObject, model: JsonObject, kind: VocabularyKind, vocab_size: int
) -> TokenList:
    """Return all tokens with their kinds, holes and rows to spare filled."""
    ids = _vocabulary_ids(model, kind)
    kinds = {id_: _plain_kind(text, kind) for text, id_ in ids.items()}
    for token in document.children("added_tokens"):
        text, id_ = token.of_type("content", str), token.of_type("id", int)
        if any(token.of_type(name, bool, False) for name in ("lstrip", "rstrip")):
            raise token.wrong("lstrip", "or 'rstrip': swallowed spaces would be lost")
        if token.of_type("single_word", bool, False):
            raise token.wrong("single_word", "is not supported")
        if ids.setdefault(text, id_) != id_:
            raise token.wrong("id", f"is not that of {text[:40]!r} in the vocabulary")
        special = token.of_type("special", bool, False) or _looks_special(text)
        kinds[id_] = TokenKind.CONTROL if special else TokenKind.USER_DEFINED
    unknown = _unknown_text(model)
    if kind is not VocabularyKind.BYTE_LEVEL and unknown in ids:
        kinds[ids[unknown]] = TokenKind.UNKNOWN
    texts = {id_: text for text, id_ in ids.items()}
    if len(texts) != len(ids):
        raise TokenizerError(f"{document.place}: two tokens have one id")
    return list_tokens(document.place, texts, kinds, vocab_size)


def _vocabulary_ids(model: JsonObject, kind: VocabularyKind) -> dict[str, int]:
    if kind is VocabularyKind.UNIGRAM:
        ids = {text: id_ for id_, (text, _) in enumerate(_pieces(model))}
        if len(ids) != len(model.of_type("vocab", list)):
            raise model.wrong("vocab", "holds one text twice")
        return ids
    found = model.of_type("vocab", dict)
    if not all(type(id_) is int for id_ in found.values()):
        raise model.wrong("vocab", "holds an id that is no int")
    return dict(found)


def _pieces(model: JsonObject) -> list[tuple[str, float]]:
    pieces: list[tuple[str, float]] = []
    for item in model.of_type("vocab", list):
        match item:
            case [str(text), float() | int() as score] if not isinstance(score, bool):
                if not abs(score) < _MAX_SCORE:
                    raise model.wrong("vocab", f"holds a score of {text[:40]!r}")
                pieces.append((text, float(score)))
            case _:
                raise model.wrong("vocab", "holds something else than [text, score]")
    return pieces


def _plain_kind(text: str, kind: VocabularyKind) -> TokenKind:
    byte_level = kind is VocabularyKind.BYTE_LEVEL
    looks_a_byte = len(text) == 6 and text.startswith("<0x") and text.endswith(">")
    return TokenKind.BYTE if looks_a_byte and not byte_level else TokenKind.NORMAL


def _looks_special(text: str) -> bool:
    """Whether an added token is one for control, though it is not marked so."""
    return text in _SPECIAL_TEXTS or any(
        text.startswith(start) and text.endswith(end) for start, end in _LOOKS_SPECIAL
    )


def _unknown_text(model: JsonObject) -> str:
    if model.of_type("type", str, "BPE") != "Unigram":
        return model.of_type("unk_token", str, "")
    place = model.of_type("unk_id", int, -1)
    pieces = _pieces(model)
    return pieces[place][0] if 0 <= place < len(pieces) else ""


def _unknown_id(model: JsonObject, tokens: TokenList) -> int | None:
    return tokens.ids.get(_unknown_text(model))


def _merges(model: JsonObject) -> list[tuple[str, str]]:
    """Return the merges, written as "left right" or as [left, right]."""
    merges: list[tuple[str, str]] = []
    for item in model.of_type("merges", list, []):
        match item:
            case [str(left), str(right)]:
                merges.append((left, right))
            case str() if item.count(" ") == 1:
                left, _, right = item.partition(" ")
                merges.append((left, right))
            case _:
                raise model.wrong("merges", f"holds {str(item)[:40]!r}")
    return merges


def _scores(
    model: JsonObject, tokens: TokenList, kind: VocabularyKind
) -> tuple[float, ...]:
    if kind is VocabularyKind.UNIGRAM:
        pieces = dict(_pieces(model))
        return tuple(pieces.get(text, 0.0) for text in tokens.texts)
    pairs = zip(tokens.texts, tokens.kinds, strict=True)
    known = {text: id_ for id_, (text, its) in enumerate(pairs) if its in _TEXT_KINDS}
    scores = merge_scores(_merges(model), known)
    return tuple(scores.get(text, 0.0) for text in tokens.texts)


def _check_crossing(tokens: TokenList, spaces: SpaceRule) -> None:
    """Refuse a split at spaces where it would keep tokens from being made."""
    if not spaces.split:
        return
    for text, kind in zip(tokens.texts, tokens.kinds, strict=True):
        if kind is TokenKind.NORMAL and SPACE in text[1:]:
            raise TokenizerError(
                f"token {text[:40]!r} crosses a space, where text is split"
            )


def _template_tokens(document: JsonObject) -> tuple[str, str]:
    """Return the special tokens that a post-processor puts before and after a text."""
    if "post_processor" not in document:
        return "", ""
    waiting = [document.child("post_processor")]
    while waiting:
        step = waiting.pop()
        if step.of_type("type", str) == "Sequence":
            waiting += reversed(step.children("processors"))
        elif step.of_type("type", str) == "TemplateProcessing":
            parts = step.children("single")
            ends = (parts[0], parts[-1]) if parts else ()
            ids = [
                end.child("SpecialToken").of_type("id", str)
                if "SpecialToken" in end
                else ""
                for end in ends
            ]
            return (ids[0], ids[1]) if len(parts) > 1 else ("", "")
    return "", ""
