import json

import numpy as np
import pytest

from p2pmoe.grammar.errors import ConstraintFailed
from p2pmoe.grammar.grammars import Grammars
from tests.support.api import EOS, small_tokenizer

TOKENIZER = small_tokenizer()
YES = Grammars(TOKENIZER).json(json.dumps({"const": "yes"}))


def token(text: str) -> int:
    (only,) = TOKENIZER.encode(text, bos=False)
    return only


def test_only_stop_tokens_are_allowed_after_the_end() -> None:
    constraint = YES.start()
    for piece in ('"', "y", "e", "s", '"'):
        assert not constraint.allowed()[EOS]
        constraint.accept(token(piece))
    allowed = constraint.allowed()
    assert allowed.dtype == np.bool_
    assert allowed.shape == (TOKENIZER.n_vocab,)
    assert set(np.flatnonzero(allowed)) == TOKENIZER.vocabulary.stop_ids
    constraint.accept(EOS)
    assert constraint.allowed()[EOS]


def test_a_token_that_was_not_allowed_fails_this_answer_alone() -> None:
    constraint = YES.start()
    with pytest.raises(ConstraintFailed):
        constraint.accept(token("x"))
    with pytest.raises(ConstraintFailed):
        constraint.allowed()
    assert YES.start().allowed()[token('"')]
