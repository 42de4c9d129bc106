r"""Log probabilities in the shapes of the two endpoints (fault B21).

A token is told by the bytes that it has in the text, an alternative by its own. The
text of bytes that are no whole characters has U+FFFD in a chat, where the bytes stand
beside it, and is `bytes:\xNN...` in a completion, where nothing else does. Control
tokens have no bytes and are told by their name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from p2pmoe.backbone.generation import TokenLogprobs
from p2pmoe.text.token_places import PlacedToken
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["ScoredToken", "chat_logprobs", "text_logprobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredToken:
    """A token in the text, and how likely it was there."""

    placed: PlacedToken
    score: TokenLogprobs


def chat_logprobs(
    scored: Sequence[ScoredToken], tokenizer: Tokenizer
) -> dict[str, object]:
    """Return the field `logprobs` of a chat's choice; stop tokens are left out."""
    return {
        "content": [
            {
                **_chat_token(each.placed.token, each.placed.piece, tokenizer),
                "logprob": each.score.logprob,
                "top_logprobs": [
                    {
                        **_chat_token(token, tokenizer.token_bytes(token), tokenizer),
                        "logprob": logprob,
                    }
                    for token, logprob in each.score.top
                ],
            }
            for each in scored
            if not each.placed.ends
        ],
        "refusal": None,
    }


def text_logprobs(
    scored: Sequence[ScoredToken], tokenizer: Tokenizer
) -> dict[str, object]:
    """Return the field `logprobs` of a completion's choice, stop tokens included.

    The alternatives of a place hold its token too; of several tokens with one text the
    likelier counts.
    """
    return {
        "tokens": [_name(each.placed, tokenizer) for each in scored],
        "token_logprobs": [each.score.logprob for each in scored],
        "top_logprobs": [_alternatives(each, tokenizer) for each in scored],
        "text_offset": [each.placed.start for each in scored],
    }


def _alternatives(scored: ScoredToken, tokenizer: Tokenizer) -> dict[str, float] | None:
    if scored.score.logprob is None:
        return None
    told: dict[str, float] = {}
    for token, logprob in scored.score.top:
        told.setdefault(_text(token, tokenizer.token_bytes(token), tokenizer), logprob)
    told.setdefault(_name(scored.placed, tokenizer), scored.score.logprob)
    return told


def _name(placed: PlacedToken, tokenizer: Tokenizer) -> str:
    return _text(placed.token, placed.piece, tokenizer)


def _text(token: int, piece: bytes, tokenizer: Tokenizer) -> str:
    if not piece:
        return tokenizer.vocabulary.texts[token]
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def _chat_token(token: int, piece: bytes, tokenizer: Tokenizer) -> dict[str, object]:
    if not piece:
        return {"token": tokenizer.vocabulary.texts[token], "bytes": None}
    return {"token": piece.decode(errors="replace"), "bytes": list(piece)}
