"""The options about drafting, as `serve` reads them."""

from pathlib import Path

import pytest

from p2pmoe.cli.speculating import speculation_wish
from p2pmoe.errors import ConfigurationError
from p2pmoe.speculating import PrefetchPolicy, SpeculationPolicy


def test_options_become_a_wish() -> None:
    wish = speculation_wish("model", Path("small.gguf"), 4, "off")
    assert wish.policy is SpeculationPolicy.MODEL
    assert wish.draft == Path("small.gguf")
    assert (wish.draft_tokens, wish.prefetch) == (4, PrefetchPolicy.OFF)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("guess", None, 4, "auto"), "--speculate"),
        (("auto", None, 4, "always"), "--prefetch"),
        (("auto", None, 0, "auto"), "--draft-tokens"),
        (("model", None, 4, "auto"), "--speculate model"),
    ],
)
def test_bad_options_are_named(
    arguments: tuple[str, Path | None, int, str], word: str
) -> None:
    with pytest.raises(ConfigurationError, match=word):
        speculation_wish(*arguments)
