"""Fault B21: bytes are the token's own; alternatives are told apart."""

from p2pmoe.api.logprobs import ScoredToken, chat_logprobs, text_logprobs
from p2pmoe.backbone.generation import TokenLogprobs
from p2pmoe.text.token_places import PlacedToken
from tests.support.api import EOS, small_tokenizer, spell

TOKENIZER = small_tokenizer()
GRIN = [token for (token,) in spell("😊")]


def scored(token: int, *top: tuple[int, float], ends: bool = False) -> ScoredToken:
    piece = TOKENIZER.token_bytes(token)
    return ScoredToken(
        placed=PlacedToken(index=0, token=token, start=4, piece=piece, ends=ends),
        score=TokenLogprobs(token=token, logprob=-0.5, top=top),
    )


def test_b21_bytes_of_partial_characters() -> None:
    made = chat_logprobs([scored(token) for token in GRIN], TOKENIZER)["content"]
    assert bytes(byte for each in made for byte in each["bytes"]) == "😊".encode()
    assert [each["token"] for each in made] == ["\ufffd"] * 4
    assert [each["top_logprobs"] for each in made] == [[]] * 4


def test_b21_each_alternative_has_its_own_bytes() -> None:
    (word,) = spell("hello")[0]
    (made,) = chat_logprobs([scored(word, (GRIN[0], -1.0), (EOS, -2.0))], TOKENIZER)[
        "content"
    ]
    assert made["logprob"] == -0.5
    assert made["top_logprobs"] == [
        {"token": "\ufffd", "bytes": [0xF0], "logprob": -1.0},
        {"token": "<|im_end|>", "bytes": None, "logprob": -2.0},
    ]


def test_a_chat_leaves_the_stop_token_out_and_a_completion_does_not() -> None:
    ends = [scored(EOS, ends=True)]
    assert chat_logprobs(ends, TOKENIZER)["content"] == []
    assert text_logprobs(ends, TOKENIZER)["tokens"] == ["<|im_end|>"]


def test_alternatives_of_a_completion_are_told_apart_by_their_bytes() -> None:
    top = ((GRIN[0], -1.0), (GRIN[1], -1.5))
    made = text_logprobs([scored(GRIN[3], *top)], TOKENIZER)
    assert made["tokens"] == ["bytes:\\x8a"]
    assert made["text_offset"] == [4]
    assert made["top_logprobs"] == [
        {"bytes:\\xf0": -1.0, "bytes:\\x9f": -1.5, "bytes:\\x8a": -0.5}
    ]


def test_a_prompts_first_token_has_none() -> None:
    first = ScoredToken(
        placed=PlacedToken(index=0, token=100, start=0, piece=b"a"),
        score=TokenLogprobs(token=100, logprob=None),
    )
    made = text_logprobs([first], TOKENIZER)
    assert (made["token_logprobs"], made["top_logprobs"]) == ([None], [None])
