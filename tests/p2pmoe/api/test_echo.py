import dataclasses

import pytest

from p2pmoe.api.echo import echoed_prompt
from p2pmoe.backbone.generation import GenerationFailed, TokenLogprobs
from p2pmoe.text.tokenizer import Tokenizer
from tests.support.api import small_tokenizer
from tests.support.vocabularies import PIECES

TOKENIZER = small_tokenizer()


def scores(ids: list[int]) -> list[TokenLogprobs]:
    return [TokenLogprobs(token=token, logprob=-1.0) for token in ids]


def test_each_token_of_the_prompt_is_told_bos_included() -> None:
    ids = TOKENIZER.encode("hello é", bos=True)
    piece = echoed_prompt(ids, scores(ids), TOKENIZER)
    assert piece.text == "hello é"
    assert [each.placed.token for each in piece.scored] == ids
    assert [each.placed.start for each in piece.scored] == [0, 0, 5, 6, 6]
    assert b"".join(each.placed.piece for each in piece.scored) == "hello é".encode()


def test_without_scores_there_is_the_text_alone() -> None:
    ids = TOKENIZER.encode("hello", bos=True)
    assert echoed_prompt(ids, (), TOKENIZER).scored == ()


def test_a_prompt_that_ends_in_mid_character_is_told_whole() -> None:
    ids = TOKENIZER.encode("a😊", bos=False)[:3]
    piece = echoed_prompt(ids, scores(ids), TOKENIZER)
    assert (piece.text, len(piece.scored)) == ("a\ufffd", 3)


def test_the_space_that_a_vocabulary_adds_is_not_echoed() -> None:
    tokenizer = Tokenizer(dataclasses.replace(PIECES, add_space=True))
    ids = tokenizer.encode("hello", bos=False)
    assert echoed_prompt(ids, (), tokenizer).text == "hello"


def test_scores_of_other_tokens_are_a_failure() -> None:
    ids = TOKENIZER.encode("hello", bos=True)
    with pytest.raises(GenerationFailed, match="missing"):
        echoed_prompt(ids, scores(ids[1:]), TOKENIZER)
