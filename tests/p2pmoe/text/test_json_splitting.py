"""Fault B10: what a tokenizer.json's steps mean, and that nothing is guessed."""

import pytest

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.folder_files import JsonObject
from p2pmoe.text.json_splitting import (
    SpaceRule,
    check_byte_level_normalizer,
    has_byte_level,
    pretokenizer_name,
    space_rule,
)

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LETTERS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{LETTERS}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{LETTERS}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ\u30a0-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
DIGITS = {"type": "Digits", "individual_digits": True}
TO_ALPHABET = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
GPT2 = {"type": "ByteLevel", "add_prefix_space": False}


def split(
    pattern: str, behavior: str = "Isolated", *, invert: bool = False
) -> dict[str, object]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": invert,
    }


def document(*steps: object) -> JsonObject:
    sequence = {"type": "Sequence", "pretokenizers": list(steps)}
    return JsonObject("tokenizer.json", {"pre_tokenizer": sequence})


def name_of(*steps: object, ignore_merges: bool = False) -> str:
    return pretokenizer_name(document(*steps), ignore_merges=ignore_merges)


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ([GPT2], "gpt-2"),
        ([DIGITS, GPT2], "starcoder"),
        ([split(LLAMA3), TO_ALPHABET], "glm4"),
        ([split(LLAMA3, "Removed", invert=True), TO_ALPHABET], "glm4"),
        ([split(LLAMA3.replace("{1,3}", "")), TO_ALPHABET], "qwen2"),
        ([split(LLAMA3.replace("{1,3}", "{1}")), TO_ALPHABET], "qwen2"),
        (
            [
                split(
                    LLAMA3.replace(
                        "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)"
                    )
                    .replace("]?", "]?+")
                    .replace(r"\p{N}]+[\r", r"\p{N}]++[\r")
                ),
                TO_ALPHABET,
            ],
            "glm4",
        ),
        ([split(GPT4O), TO_ALPHABET], "gpt-4o"),
        ([*map(split, DEEPSEEK_V3), TO_ALPHABET], "deepseek-v3"),
        (
            [
                split("[\r\n]"),
                split(r"\s?\p{L}+"),
                split(r"\s?\p{P}+"),
                split("[一-龥ࠀ-一가-\ud7ff]+"),
                DIGITS,
                TO_ALPHABET,
            ],
            "deepseek-coder",
        ),
    ],
    ids=range(10),
)
def test_b10_known_rules_are_recognised(steps: list[object], name: str) -> None:
    assert name_of(*steps) == name


def test_a_rule_that_takes_whole_pieces_is_preferred_where_it_is_asked_for() -> None:
    assert name_of(split(LLAMA3), TO_ALPHABET, ignore_merges=True) == "llama-bpe"


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [split(LLAMA3 + "|x")],
        [split(LLAMA3, "Removed")],
        [split(LLAMA3, "MergedWithPrevious")],
        [split(r"\p{N}{1,3}", "Removed", invert=True)],
        [{"type": "Whitespace"}],
        [{"type": "ByteLevel"}],
        [GPT2, DIGITS],
        [{"type": "Digits"}, GPT2],
    ],
    ids=range(9),
)
def test_b10_anything_else_is_unknown(steps: list[object]) -> None:
    with pytest.raises(PretokenizerUnknown):
        name_of(*steps)


def test_whether_tokens_are_byte_level() -> None:
    assert has_byte_level(document(DIGITS, TO_ALPHABET))
    assert not has_byte_level(document(DIGITS))
    assert not has_byte_level(JsonObject("x", {"pre_tokenizer": None}))


def test_only_nfc_is_passed_over() -> None:
    check_byte_level_normalizer(JsonObject("x", {"normalizer": {"type": "NFC"}}))
    with pytest.raises(TokenizerError, match="'NFKC'"):
        check_byte_level_normalizer(JsonObject("x", {"normalizer": {"type": "NFKC"}}))


PREPEND = {"type": "Prepend", "prepend": "▁"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
SQUEEZE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def spaces(normalizers: list[object], metaspace: object = None) -> SpaceRule:
    normalizer = {"type": "Sequence", "normalizers": normalizers}
    fields = {"normalizer": normalizer, "pre_tokenizer": metaspace}
    return space_rule(JsonObject("x", fields))


def test_what_is_done_with_spaces() -> None:
    assert spaces([PREPEND, REPLACE]) == SpaceRule(add_space=True)
    assert spaces([REPLACE]) == SpaceRule()
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}
    assert spaces([SQUEEZE], metaspace) == SpaceRule(
        add_space=True, after_control=False, squeeze=True, split=True
    )
    never = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}
    assert spaces([], {**never, "split": False}) == SpaceRule()


@pytest.mark.parametrize(
    ("normalizers", "metaspace"),
    [
        ([], None),
        ([PREPEND], None),
        ([{"type": "NFKC"}, REPLACE], None),
        ([REPLACE], {"type": "Metaspace", "replacement": "▁"}),
        ([], {"type": "Metaspace", "replacement": "_"}),
        ([], {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "often"}),
        ([{**PREPEND, "prepend": "x"}, REPLACE], None),
        ([], {"type": "Whitespace"}),
    ],
    ids=range(8),
)
def test_other_ways_with_spaces_are_refused(
    normalizers: list[object], metaspace: object
) -> None:
    with pytest.raises(TokenizerError):
        spaces(normalizers, metaspace)
