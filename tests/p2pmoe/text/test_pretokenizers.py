"""Fault B10: how each family splits, and what happens to an unknown name."""

import pytest
import tokenizers
from tokenizers import pre_tokenizers

from p2pmoe.text.errors import PretokenizerUnknown
from p2pmoe.text.pretokenizers import pretokenizer_rule


def split(name: str, text: str) -> list[str]:
    steps = [
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        for pattern in pretokenizer_rule(name).patterns
    ]
    return [piece for piece, _ in pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("llama-bpe", ["333", "3"]),
        ("glm4", ["333", "3"]),
        ("gpt-4o", ["333", "3"]),
        ("deepseek-v3", ["333", "3"]),
        ("qwen2", ["3", "3", "3", "3"]),
        ("deepseek-llm", ["3", "3", "3", "3"]),
        ("gpt-2", ["3333"]),
        ("olmo", ["3333"]),
    ],
)
def test_b10_digits(name: str, pieces: list[str]) -> None:
    assert split(name, "3333") == pieces


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("llama-bpe", "3333+777", ["333", "3", "+", "777"]),
        ("llama-bpe", "They're Mary'S", ["They", "'re", " Mary", "'S"]),
        ("gpt-2", "They're Mary'S", ["They", "'re", " Mary", "'", "S"]),
        ("qwen2", "\n\n \n", ["\n\n \n"]),
        ("gpt-2", "   x", ["  ", " x"]),
        ("qwen2", "   x", ["  ", " x"]),
        ("gpt-4o", "HelloWorld's/\n", ["Hello", "World's", "/\n"]),
        ("minimax-m2", "XMLparser", ["XMLparser"]),
        ("deepseek-v3", "a中文b", ["a", "中文", "b"]),
        ("deepseek-v3", "_name x", ["_name", " x"]),
        ("deepseek-llm", "中文 end  ", ["中文", " end", "  "]),
        ("llama-bpe", "4 ½ months", ["4", " ", "½", " months"]),
    ],
)
def test_b10_other_splits(name: str, text: str, pieces: list[str]) -> None:
    assert split(name, text) == pieces


@pytest.mark.parametrize("name", ["", "unknown-xyz", "gpt2"])
def test_b10_a_missing_or_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(PretokenizerUnknown) as caught:
        pretokenizer_rule(name)
    assert caught.value.exit_code == 2


def test_what_comes_with_a_rule() -> None:
    assert pretokenizer_rule("llama-bpe").add_bos
    assert pretokenizer_rule("llama-bpe").ignore_merges
    assert not pretokenizer_rule("qwen2").add_bos
