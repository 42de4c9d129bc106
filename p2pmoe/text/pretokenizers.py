r"""How each family of byte-level vocabularies splits text before merging.

A rule is a list of patterns (Oniguruma): each splits every piece that the patterns
before it left, matches become pieces of their own. Rules go by the names that files
carry in `tokenizer.ggml.pre`; a name that is not listed is refused, since a wrong
split gives fluent text with wrong arithmetic (fault B10).

The patterns are those of the models' own tokenizer files, character classes and all.
llama.cpp writes some of them in another way, so that in gpt-4o, kimi-k2, minimax-m2
and tekken letters outside ASCII or combining marks may be split otherwise there.
`(?<!\s)\s+$` in deepseek-llm is its `\s+$` without the quadratic search. A
tokenizer.json spells the same patterns in several ways: `canonical` makes them one.

`default` is what llama.cpp falls back to where a file says nothing. It is what no model
was trained with, so it is used only if the caller names it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from p2pmoe.text.errors import PretokenizerUnknown

__all__ = [
    "PretokenizerRule",
    "canonical",
    "pretokenizer_names",
    "pretokenizer_rule",
    "rule_name",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PretokenizerRule:
    """The patterns, and what comes with them where the file does not say."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a piece that is a token is taken as it is
    add_bos: bool = False


# Cased letters as deepseek-llm lists them: inclusive ranges of code points, in hex.
_DEEPSEEK_LETTERS = """
41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F
386 388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD
1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45
1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4
1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115
2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183-2184
2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2-2CF3 A640-A66D A680-A69B A722-A76F A771-A787
A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3
104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943
"""


def _character_class(ranges: str) -> str:
    ends = (part.partition("-") for part in ranges.split())
    spans = (f"\\x{{{a}}}-\\x{{{b or a}}}" for a, _, b in ends)
    return "[" + "".join(spans) + "]"


_LISTED_CLASS = re.compile(r"\[([^\]\[\\^&]{9,})\]")  # no escapes, nothing nested
_SPAN = re.compile(r"(.)(?:-(.))?", re.DOTALL)


def _rule(
    patterns: tuple[str, ...], *, ignore_merges: bool = False, add_bos: bool = False
) -> PretokenizerRule:
    return PretokenizerRule(
        patterns=patterns, ignore_merges=ignore_merges, add_bos=add_bos
    )


# Spellings of the same thing: what others write, what it is here. Possessive
# quantifiers stand where nothing would be given back anyway.
_SPELLINGS = (
    ("\r", r"\r"),
    ("\n", r"\n"),
    ("'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"),
    (
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    ),
    (r"\p{N}]?+\p{L}", r"\p{N}]?\p{L}"),
    (r"\p{N}]++[\r\n]*", r"\p{N}]+[\r\n]*"),
    (r"\p{N}{1}|", r"\p{N}|"),
    (r"(?<!\s)\s+$", r"\s+$"),
    (r"[\p{Han}]+", r"\p{Han}+"),
)

_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_CJK = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"

_GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
_LLAMA3 = (f"{_ENDINGS}|{_WORD}|\\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}",)
_QWEN2 = (f"{_ENDINGS}|{_WORD}|\\p{{N}}|{_SIGNS}|{_SPACES}",)
_QWEN35 = (
    rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
)
_BAILING = (rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_SIGNS}|\s*[\r\n]|\s+(?!\S)|\s+",)
_SEED = (rf"{_ENDINGS}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)


def _cased(digits: str, *, endings: str, both: str = "") -> str:
    """Return words of capitals, then small letters; `both` cuts the two classes."""
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{both}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{both}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return f"{start}{upper}*{lower}+{endings}|{start}{upper}+{lower}*{endings}|{digits}"


_LINES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_THREE_DIGITS = r"\p{N}{1,3}"
_GPT4O = (f"{_cased(_THREE_DIGITS, endings=_ENDINGS + '?')}|{_LINES}|{_SPACES}",)
_TEKKEN = (_cased(r"\p{N}", endings="") + f"|{_LINES}|{_SPACES}",)
_KIMI_K2 = (
    r"[\p{Han}]+|"
    + _cased(_THREE_DIGITS, endings=_ENDINGS + "?", both=r"&&[^\p{Han}]")
    + f"|{_SIGNS}|{_SPACES}",
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    r"\s?" + _character_class(_DEEPSEEK_LETTERS) + "+",
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"(?<!\s)\s+$",
    r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
)
_DEEPSEEK_CODER = (
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
)
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    _CJK,
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
)
_STARCODER = (r"\p{N}", *_GPT2)
_FALCON = (r"[\p{P}$+<=>^~|`]+", *_GPT2, r"[0-9][0-9][0-9]")
_DEFAULT = (r"[\p{P}$+<=>^~|]+", *_GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")

# The names that go with each rule. The first is the one written back.
_FAMILIES: tuple[tuple[str, PretokenizerRule], ...] = (
    ("gpt-2 phi-2 gigachat mellum modern-bert a.x-4.0 exaone4", _rule(_GPT2)),
    ("olmo mpt jais trillion granite-docling", _rule(_GPT2)),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        _rule(_LLAMA3, ignore_merges=True, add_bos=True),
    ),
    ("glm4 chatglm-bpe dbrx smaug-bpe", _rule(_LLAMA3)),
    (
        "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2",
        _rule(_QWEN2),
    ),
    ("qwen35", _rule(_QWEN35)),
    ("gpt-4o llama4 kanana2 minimax-m2", _rule(_GPT4O)),
    ("tekken", _rule(_TEKKEN, ignore_merges=True, add_bos=True)),
    ("kimi-k2", _rule(_KIMI_K2)),
    ("deepseek-v3 hunyuan-dense joyai-llm", _rule(_DEEPSEEK_V3)),
    ("deepseek-llm", _rule(_DEEPSEEK_LLM)),
    ("deepseek-coder", _rule(_DEEPSEEK_CODER)),
    ("bailingmoe bailingmoe2 llada-moe", _rule(_BAILING)),
    ("seed-coder", _rule(_SEED)),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b",
        _rule(_STARCODER),
    ),
    ("falcon", _rule(_FALCON)),
    ("default", _rule(_DEFAULT)),
)
_RULES = {name: rule for names, rule in _FAMILIES for name in names.split()}


def pretokenizer_names() -> tuple[str, ...]:
    """Return all known names, sorted; some stand for the same rule."""
    return tuple(sorted(_RULES))


def pretokenizer_rule(name: str) -> PretokenizerRule:
    """Return the rule that goes by a name.

    Raises:
        PretokenizerUnknown: The name is empty or not listed.
    """
    try:
        return _RULES[name]
    except KeyError:
        known = ", ".join(pretokenizer_names())
        what = f"{name[:80]!r} is unknown" if name else "is missing in the file"
        raise PretokenizerUnknown(f"pre-tokenizer {what}; known are {known}") from None


def canonical(pattern: str) -> str:
    """Return a pattern in the one spelling that rules are compared in."""
    pattern = re.sub(
        r"\\x\{([0-9A-F]{1,6})\}", lambda hexa: chr(int(hexa[1], 16)), pattern
    )
    for other, ours in _SPELLINGS:
        pattern = pattern.replace(other, ours)
    return _LISTED_CLASS.sub(lambda found: _sorted_class(found[1]), pattern)


def _sorted_class(listed: str) -> str:
    """Return a class of single characters and ranges with its ranges in order."""
    spans: list[tuple[str, str]] = []
    for span in sorted(
        (found[1], found[2] or found[1]) for found in _SPAN.finditer(listed)
    ):
        if spans and ord(span[0]) <= ord(spans[-1][1]) + 1:
            spans[-1] = (spans[-1][0], max(spans[-1][1], span[1]))
        else:
            spans.append(span)
    return "[" + "".join(f"{a}-{b}" for a, b in spans) + "]"


def rule_name(patterns: Sequence[str], *, ignore_merges: bool) -> str | None:
    """Return the name of the rule with these patterns, however they are spelled.

    A rule that treats merges as asked for is taken before another.
    """
    wanted = tuple(map(canonical, patterns))
    fitting = [
        (rule.ignore_merges != ignore_merges, place, names.split()[0])
        for place, (names, rule) in enumerate(_FAMILIES)
        if tuple(map(canonical, rule.patterns)) == wanted
    ]
    return min(fitting)[2] if fitting else None
