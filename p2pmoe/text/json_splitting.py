"""Which rule of `pretokenizers` a tokenizer.json describes, and what it normalises.

Its `pre_tokenizer` is a tree of steps. Those that split by a pattern are listed and
compared with the known rules, spelling aside; a step that is not understood makes the
rule unknown, never approximately known (fault B10).

Its `normalizer` may do what a vocabulary expresses: put U+2581 for spaces and before
the text. We do that as SentencePiece does, even if the text begins with a space, where
Metaspace would lose it. NFC is passed over where tokens are byte-level: like llama.cpp,
we tokenize the text as it came, so that its bytes come back. All else is refused.
"""

from dataclasses import dataclass

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.folder_files import JsonObject
from p2pmoe.text.pretokenizers import canonical, pretokenizer_rule, rule_name
from p2pmoe.text.vocabulary import SPACE

__all__ = [
    "SpaceRule",
    "check_byte_level_normalizer",
    "has_byte_level",
    "pretokenizer_name",
    "space_rule",
]

_GPT2 = pretokenizer_rule("gpt-2").patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRule:
    """What SentencePiece-like kinds do with spaces; `split`: no token crosses one."""

    add_space: bool = False
    after_control: bool = True
    squeeze: bool = False
    split: bool = False


def has_byte_level(document: JsonObject) -> bool:
    """Whether texts are turned into the byte-level alphabet."""
    return any(
        step.of_type("type", str) == "ByteLevel"
        for step in _steps(document, "pre_tokenizer", "pretokenizers")
    )


def pretokenizer_name(document: JsonObject, *, ignore_merges: bool) -> str:
    """Return the name of the rule that a byte-level tokenizer.json describes.

    Raises:
        PretokenizerUnknown: It is none that is known here.
        TokenizerError: A field is of another type.
    """
    patterns: list[str] = []
    for step in _steps(document, "pre_tokenizer", "pretokenizers"):
        patterns += _patterns(step)
    name = rule_name(patterns, ignore_merges=ignore_merges)
    if name is None:
        listed = " then ".join(map(repr, patterns))[:200]
        raise PretokenizerUnknown(
            f"{document.place}: pre-tokenizer {listed} is none that is known here"
        )
    return name


def check_byte_level_normalizer(document: JsonObject) -> None:
    """Refuse a normalizer other than NFC beside byte-level tokens."""
    for step in _steps(document, "normalizer", "normalizers"):
        if step.of_type("type", str) != "NFC":
            raise _unsupported(step, "normalizer")


def space_rule(document: JsonObject) -> SpaceRule:
    """Return what a SentencePiece-like tokenizer.json does with spaces.

    Raises:
        TokenizerError: It normalises or splits in another way.
    """
    found = SpaceRule()
    replaced = False
    for step in _steps(document, "normalizer", "normalizers"):
        match step.of_type("type", str), step.fields:
            case "Prepend", {"prepend": str(text)} if text == SPACE:
                found = SpaceRule(add_space=True, squeeze=found.squeeze)
            case "Replace", {"pattern": {"String": " "}, "content": str(text)} if (
                text == SPACE
            ):
                replaced = True
            case "Replace", {"pattern": {"Regex": " {2,}"}, "content": " "}:
                found = SpaceRule(add_space=found.add_space, squeeze=True)
            case _:
                raise _unsupported(step, "normalizer")
    for step in _steps(document, "pre_tokenizer", "pretokenizers"):
        if step.of_type("type", str) != "Metaspace" or replaced:
            raise _unsupported(step, "pre-tokenizer")
        found = _metaspace(step, squeeze=found.squeeze)
        replaced = True
    if not replaced:
        raise TokenizerError(f"{document.place}: spaces are not written as U+2581")
    return found


def _metaspace(step: JsonObject, *, squeeze: bool) -> SpaceRule:
    if step.of_type("replacement", str) != SPACE:
        raise _unsupported(step, "pre-tokenizer")
    old = "always" if step.of_type("add_prefix_space", bool, True) else "never"
    scheme = step.of_type("prepend_scheme", str, old)
    if scheme not in {"always", "first", "never"}:
        raise step.wrong("prepend_scheme", "is unknown")
    return SpaceRule(
        add_space=scheme != "never",
        after_control=scheme != "first",
        squeeze=squeeze,
        split=step.of_type("split", bool, True),
    )


def _patterns(step: JsonObject) -> list[str]:
    """Return the patterns that one step splits by."""
    match step.of_type("type", str):
        case "ByteLevel":
            if step.of_type("add_prefix_space", bool, True):
                raise _unknown(step, "puts a space before the text")
            return list(_GPT2) if step.of_type("use_regex", bool, True) else []
        case "Digits":
            alone = step.of_type("individual_digits", bool, False)
            return [r"\p{N}" if alone else r"\p{N}+"]
        case "Split":
            return [_split_pattern(step)]
        case other:
            raise _unknown(step, f"{other[:40]!r} is not known here")


def _split_pattern(step: JsonObject) -> str:
    pattern = step.child("pattern").of_type("Regex", str)
    how = step.of_type("behavior", str), step.of_type("invert", bool, False)
    covers_all = canonical(pattern).endswith(r"|\s+")
    if how == ("Isolated", False) or (how == ("Removed", True) and covers_all):
        return pattern
    raise _unknown(step, f"splits {how[0][:40]!r}")


def _steps(document: JsonObject, name: str, list_name: str) -> list[JsonObject]:
    """Return the steps of a field in turn, with sequences laid out flat."""
    if name not in document:
        return []
    waiting = [document.child(name)]
    steps: list[JsonObject] = []
    while waiting:
        step = waiting.pop()
        if step.of_type("type", str) == "Sequence":
            waiting += reversed(step.children(list_name))
        else:
            steps.append(step)
    return steps


def _unsupported(step: JsonObject, what: str) -> TokenizerError:
    kind = step.of_type("type", str)[:40]
    return TokenizerError(
        f"{step.place}: {what} {kind!r} as it is set is not supported"
    )


def _unknown(step: JsonObject, reason: str) -> PretokenizerUnknown:
    return PretokenizerUnknown(f"{step.place}: {reason}")
