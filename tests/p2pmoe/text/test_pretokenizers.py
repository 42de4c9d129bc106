"""Fault B10: how each family splits, and what happens to an unknown name."""

import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from p2pmoe.text.errors import PretokenizerUnknown
from p2pmoe.text.pretokenizers import (
    canonical,
    pretokenizer_names,
    pretokenizer_rule,
    rule_name,
)


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
        ("qwen35", "e\u0301a", ["e\u0301a"]),
        ("qwen2", "e\u0301a", ["e", "\u0301a"]),
        ("kimi-k2", "a中文Bc's12345", ["a", "中文", "Bc's", "123", "45"]),
        ("gpt-4o", "a中文b", ["a中文b"]),
        ("tekken", "it's 12", ["it", "'s", " ", "1", "2"]),
        ("bailingmoe", " \n\nx", [" \n\n", "x"]),
        ("deepseek-coder", "12 x,\n", ["1", "2", " x", ",", "\n"]),
        ("starcoder", "a12 b", ["a", "1", "2", " b"]),
        ("falcon", "12345,x", ["123", "45", ",", "x"]),
        ("seed-coder", "!\n\n", ["!", "\n\n"]),
        ("default", "a+12", ["a", "+", "12"]),
        ("llama-bpe", "4 ½ months", ["4", " ", "½", " months"]),
    ],
)
def test_b10_other_splits(name: str, text: str, pieces: list[str]) -> None:
    assert split(name, text) == pieces


def names() -> list[str]:
    with pytest.raises(PretokenizerUnknown) as caught:
        pretokenizer_rule("")
    return str(caught.value).partition("known are ")[2].split(", ")


def one_of_each() -> list[str]:
    rules = {
        rule.patterns: name for name in names() if (rule := pretokenizer_rule(name))
    }
    return list(rules.values())


@pytest.mark.parametrize("name", one_of_each())
@settings(max_examples=30)
@given(st.text("aB3 \n\r\t.'-_éÉ\u0301中か한½\u3000s", max_size=20))
def test_b10_no_character_is_lost_by_any_rule(name: str, text: str) -> None:
    assert "".join(split(name, text)) == text


@pytest.mark.parametrize("name", names())
def test_names_and_patterns_belong_together(name: str) -> None:
    rule = pretokenizer_rule(name)
    found = rule_name(rule.patterns, ignore_merges=rule.ignore_merges)
    assert found is not None
    assert pretokenizer_rule(found) == rule


def test_patterns_are_known_however_they_are_spelled() -> None:
    spelled = (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
        "| ?[^\\s\\p{L}\\p{N}]++[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
    )
    assert rule_name([spelled], ignore_merges=False) == "qwen2"
    assert rule_name([spelled + "|x"], ignore_merges=False) is None
    assert canonical(r"[\x{4E00}-\x{9FA5}]") == "[一-龥]"
    assert canonical("x[xyzf-ha-ec一-龥가]+") == "x[a-hx-z一-龥가-가]+"
    assert canonical(r"[a-\p{L}xyzabcd]") == r"[a-\p{L}xyzabcd]"


def test_characters_of_a_listed_class_may_stand_in_any_order() -> None:
    patterns = pretokenizer_rule("deepseek-llm").patterns
    listed = [canonical(pattern) for pattern in patterns]
    body = listed[1].partition("[")[2].partition("]")[0]
    spans = [body[at : at + 3] for at in range(0, len(body), 3)]
    apart = [span[0] if span[0] == span[2] else span for span in spans[::-1]]
    listed[1] = rf"\s?[{''.join(apart)}]+"
    assert rule_name(listed, ignore_merges=False) == "deepseek-llm"


LONG_TEXTS = """
import sys, tokenizers
from tokenizers import pre_tokenizers
from p2pmoe.text.pretokenizers import pretokenizer_rule
PIECES = ["a", " ", "\\n", "9", "中", "'s"]
for name in sys.argv[1:]:
    for piece in PIECES:
        steps = [
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
            for pattern in pretokenizer_rule(name).patterns
        ]
        splitter = pre_tokenizers.Sequence(steps)
        text = piece * (200_000 // len(piece))
        assert "".join(part for part, _ in splitter.pre_tokenize_str(text)) == text
"""


@pytest.mark.slow
def test_b10_200000_alike_characters_come_to_an_end_by_every_rule() -> None:
    subprocess.run(
        [sys.executable, "-c", LONG_TEXTS, *names()], check=True, timeout=600
    )


@pytest.mark.parametrize("name", ["", "unknown-xyz", "gpt2"])
def test_b10_a_missing_or_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(PretokenizerUnknown) as caught:
        pretokenizer_rule(name)
    assert caught.value.exit_code == 2


def test_what_comes_with_a_rule() -> None:
    assert pretokenizer_rule("llama-bpe").add_bos
    assert pretokenizer_rule("llama-bpe").ignore_merges
    assert not pretokenizer_rule("qwen2").add_bos


def test_each_name_has_a_rule() -> None:
    names = pretokenizer_names()
    assert names == tuple(sorted(names))
    assert {"gpt-2", "kimi-k2"} <= set(names)
    for name in names:
        assert pretokenizer_rule(name).patterns
