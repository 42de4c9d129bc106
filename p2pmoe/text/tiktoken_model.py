"""A folder's tiktoken.model, as Kimi publishes it, as a vocabulary.

Each line is a token's bytes in base64 and its rank, which is its id. Merging takes, at
each step, the two neighbours whose joined bytes have the lowest rank: these are the
merges of `sentence_piece` with the rank for a score. A piece that is a token is taken
whole.

Special tokens follow the ranks: tokenizer_config.json names them in
`added_tokens_decoder`, the rest of the 256 behind the last rank are reserved. How text
is split stands in a program beside the file, which is not run: Kimi's, named
tokenization_kimi, is known; anything else must be named by the caller.
"""

import base64
import binascii
from pathlib import Path

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR
from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.folder_files import JsonObject, read_beside, read_json
from p2pmoe.text.pretokenizers import pretokenizer_rule
from p2pmoe.text.sentence_piece import score_merges
from p2pmoe.text.token_list import (
    byte_level_vocabulary,
    list_tokens,
    special_tokens,
)
from p2pmoe.text.tokenizer_config import read_tokenizer_config
from p2pmoe.text.vocabulary import (
    MAX_TOKENS,
    TokenKind,
    Vocabulary,
    check_vocabulary,
)

__all__ = ["vocabulary_from_ranks"]

_MAX_BYTES = 1 << 26
_MAX_CONFIG_BYTES = 1 << 24
_N_RESERVED = 256
_SPLITTERS = {"tokenization_kimi": "kimi-k2"}


def vocabulary_from_ranks(
    folder: Path, pretokenizer_override: str | None = None
) -> Vocabulary:
    """Read and check the vocabulary of a folder that has a tiktoken.model.

    Raises:
        PretokenizerUnknown: The folder does not say how text is split.
        TokenizerError: A file cannot be read or is inconsistent.
    """
    ranked = _read_ranks(folder)
    config = read_tokenizer_config(folder)
    fields = read_json(folder, "tokenizer_config.json", _MAX_CONFIG_BYTES)
    fields = fields or JsonObject(str(folder), {})
    name = pretokenizer_override or _splitter(fields)
    pretokenizer_rule(name)
    known = {text: rank for rank, text in enumerate(ranked)}
    merges = score_merges(known, {text: -float(rank) for text, rank in known.items()})
    specials = _specials(fields, len(ranked))
    kinds = dict.fromkeys(range(len(ranked)), TokenKind.NORMAL)
    kinds |= dict.fromkeys(specials, TokenKind.CONTROL)
    texts = dict(enumerate(ranked)) | specials
    tokens = list_tokens(str(folder), texts, kinds, config.vocab_size)
    special = special_tokens(tokens, config)
    vocabulary = byte_level_vocabulary(
        tokens, special, name, merges, ignore_merges=True
    )
    check_vocabulary(vocabulary)
    return vocabulary


def _read_ranks(folder: Path) -> list[str]:
    """Return the tokens in order of their ranks, in the byte-level alphabet."""
    path = folder / "tiktoken.model"
    raw = read_beside(folder, path.name, _MAX_BYTES)
    if raw is None:
        raise TokenizerError(f"{path}: is missing")
    tokens: list[str] = []
    for line in filter(None, raw.splitlines()):
        encoded, _, rank = line.partition(b" ")
        try:
            token = base64.b64decode(encoded, validate=True)
        except binascii.Error as exc:
            raise TokenizerError(f"{path}: line {len(tokens) + 1}: {exc}") from exc
        if rank != b"%d" % len(tokens) or not token:
            raise TokenizerError(f"{path}: line {len(tokens) + 1} has no next rank")
        tokens.append("".join(BYTE_TO_CHAR[byte] for byte in token))
    return tokens


def _splitter(fields: JsonObject) -> str:
    described = str(fields.fields.get("auto_map"))
    for program, name in _SPLITTERS.items():
        if program in described:
            return name
    raise PretokenizerUnknown(
        f"{fields.place}: tiktoken.model does not say how to split"
    )


def _specials(fields: JsonObject, n_ranks: int) -> dict[int, str]:
    """Return the special tokens by id: named ones, and the reserved rest."""
    ids = range(n_ranks, n_ranks + _N_RESERVED)
    found = {id_: f"<|reserved_token_{id_}|>" for id_ in ids}
    if "added_tokens_decoder" not in fields:
        return found
    named = fields.child("added_tokens_decoder")
    for key in named.fields:
        if not (key.isascii() and key.isdigit() and n_ranks <= int(key) < MAX_TOKENS):
            raise named.wrong(key, "is no id behind the ranks")
        found[int(key)] = named.child(key).of_type("content", str)
    return found
