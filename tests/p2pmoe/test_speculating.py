"""What cannot be drafted with is refused with the option's name."""

from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.speculating import (
    MAX_DRAFT_TOKENS,
    SpeculationPolicy,
    SpeculationWish,
)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"draft_tokens": 0}, "--draft-tokens"),
        ({"draft_tokens": MAX_DRAFT_TOKENS + 1}, "--draft-tokens"),
        ({"policy": SpeculationPolicy.MODEL}, "--speculate model"),
        ({"policy": SpeculationPolicy.OFF, "draft": Path("d.gguf")}, "--draft"),
        ({"policy": SpeculationPolicy.NGRAM, "draft": Path("d.gguf")}, "--draft"),
    ],
)
def test_bad_values_are_refused_by_name(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        SpeculationWish(**changes)


def test_a_model_drafts_where_models_may() -> None:
    for policy in (SpeculationPolicy.AUTO, SpeculationPolicy.MODEL):
        wish = SpeculationWish(policy=policy, draft=Path("d.gguf"))
        assert wish.draft == Path("d.gguf")
