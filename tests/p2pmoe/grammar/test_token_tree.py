import dataclasses

import pytest

from p2pmoe.grammar.errors import GrammarRefused
from p2pmoe.grammar.token_tree import build_token_tree
from p2pmoe.text.tokenizer import Tokenizer
from tests.support.api import small_tokenizer
from tests.support.vocabularies import BYTE_LEVEL, PIECES, UNIGRAMS

TOKENIZER = small_tokenizer()


@pytest.mark.parametrize("vocabulary", [BYTE_LEVEL, PIECES, UNIGRAMS])
def test_each_kind_of_vocabulary_becomes_a_tree(vocabulary) -> None:
    stops = vocabulary.stop_ids or frozenset({1})
    tokenizer = Tokenizer(dataclasses.replace(vocabulary, stop_ids=stops))
    tree = build_token_tree(tokenizer)
    assert tree.vocab_size == tokenizer.n_vocab
    assert sorted(tree.eos_tokens) == sorted(stops)


def test_silent_tokens_are_special() -> None:
    tree = build_token_tree(TOKENIZER)
    for token in range(TOKENIZER.n_vocab):
        piece = TOKENIZER.token_bytes(token)
        if piece != b"\xff":  # which no text has, and the library marks its own with
            assert tree.is_special_token(token) is (not piece)


def test_a_model_without_an_end_is_refused() -> None:
    endless = dataclasses.replace(TOKENIZER.vocabulary, stop_ids=frozenset())
    with pytest.raises(GrammarRefused, match="ends an answer"):
        build_token_tree(Tokenizer(endless))
