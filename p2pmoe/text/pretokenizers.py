r"""How each family of byte-level vocabularies splits text before merging.

A rule is a list of patterns (Oniguruma): each splits every piece that the patterns
before it left, matches become pieces of their own. Rules go by the name that files
carry in `tokenizer.ggml.pre`; a name that is not listed is refused, since a wrong
split gives fluent text with wrong arithmetic (fault B10).

Checked against published vectors: gpt-2, qwen2, deepseek-llm. The others are the
patterns of the models' own tokenizer files, checked by their piece splits alone.
`(?<!\s)\s+$` in deepseek-llm is its `\s+$` without the quadratic search.
"""

from dataclasses import dataclass

from p2pmoe.text.errors import PretokenizerUnknown

__all__ = ["PretokenizerRule", "pretokenizer_rule"]


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


_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_CJK = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"

_GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
_LLAMA3 = (f"{_ENDINGS}|{_WORD}|\\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}",)
_QWEN2 = (f"{_ENDINGS}|{_WORD}|\\p{{N}}|{_SIGNS}|{_SPACES}",)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    r"\s?" + _character_class(_DEEPSEEK_LETTERS) + "+",
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"(?<!\s)\s+$",
    r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
)
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    _CJK,
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
)

_LLAMA_BPE = PretokenizerRule(patterns=_LLAMA3, ignore_merges=True, add_bos=True)
_RULES = {
    "chatglm-bpe": PretokenizerRule(patterns=_LLAMA3),
    "deepseek-llm": PretokenizerRule(patterns=_DEEPSEEK_LLM),
    "deepseek-v3": PretokenizerRule(patterns=_DEEPSEEK_V3),
    "glm4": PretokenizerRule(patterns=_LLAMA3),
    "gpt-2": PretokenizerRule(patterns=_GPT2),
    "gpt-4o": PretokenizerRule(patterns=_GPT4O),
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "minimax-m2": PretokenizerRule(patterns=_GPT4O),
    "olmo": PretokenizerRule(patterns=_GPT2),
    "qwen2": PretokenizerRule(patterns=_QWEN2),
}


def pretokenizer_rule(name: str) -> PretokenizerRule:
    """Return the rule that goes by a name.

    Raises:
        PretokenizerUnknown: The name is empty or not listed.
    """
    try:
        return _RULES[name]
    except KeyError:
        known = ", ".join(sorted(_RULES))
        what = f"{name[:80]!r} is unknown" if name else "is missing in the file"
        raise PretokenizerUnknown(f"pre-tokenizer {what}; known are {known}") from None
