"""The families of tool-call formats, found by what stands in a model's template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from p2pmoe.text.tool_calls import bodies, forced, forced_markup
from p2pmoe.text.tool_calls.calls import CalledTool, OutputReader
from p2pmoe.text.tool_calls.harmony import HarmonyReader
from p2pmoe.text.tool_calls.marks import DEEPSEEK, HARMONY, KIMI
from p2pmoe.text.tool_calls.parameters import KnownTool
from p2pmoe.text.tool_calls.tags import TaggedReader

__all__ = ["FAMILIES", "ToolFamily", "find_family"]

NewReader = Callable[[Sequence[KnownTool]], OutputReader]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFamily:
    """One way to write calls.

    `marks` all stand in the template's text. `controls` are the marks that a reader
    must see even where they are control tokens. `forced` makes the grammar, in Lark's
    notation, of a call of one of the tools, given the ids of the marks that are control
    tokens. `answer` makes that of an answer in JSON, where it is not the JSON alone;
    such a family's reader reads all answers.
    """

    name: str
    marks: tuple[str, ...]
    controls: tuple[str, ...]
    new_reader: NewReader
    forced: Callable[[Sequence[KnownTool], Mapping[str, int]], str]
    answer: Callable[[str, Mapping[str, int]], str] | None = None


def _tagged(
    opening: str, closing: str, read: Callable[[str], Sequence[CalledTool]]
) -> NewReader:
    return lambda _tools: TaggedReader(opening, closing, read)


def _typed(
    opening: str,
    closing: str,
    read: Callable[[str, Mapping[str, KnownTool]], Sequence[CalledTool]],
) -> NewReader:
    def new_reader(tools: Sequence[KnownTool]) -> OutputReader:
        by_name = {tool.name: tool for tool in tools}
        return TaggedReader(opening, closing, lambda body: read(body, by_name))

    return new_reader


_TAGS = ("<tool_call>", "</tool_call>")
_MINIMAX = ("<minimax:tool_call>", "</minimax:tool_call>")
_MISTRAL = "[TOOL_CALLS]"
_deepseek_reader = _tagged(
    DEEPSEEK["section"], DEEPSEEK["section_end"], bodies.deepseek_calls
)

# The more particular first: several have <tool_call>.
FAMILIES: tuple[ToolFamily, ...] = (
    ToolFamily(
        name="harmony",
        marks=(HARMONY["channel"], HARMONY["message"]),
        controls=tuple(HARMONY.values()),
        new_reader=lambda _tools: HarmonyReader(),
        forced=forced.harmony_call,
        answer=forced.final_answer,
    ),
    ToolFamily(
        name="kimi",
        marks=(KIMI["section"],),
        controls=tuple(KIMI.values()),
        new_reader=_tagged(KIMI["section"], KIMI["section_end"], bodies.kimi_calls),
        forced=forced.kimi_call,
    ),
    ToolFamily(
        name="deepseek",
        marks=(DEEPSEEK["section"], "```json"),
        controls=tuple(DEEPSEEK.values()),
        new_reader=_deepseek_reader,
        forced=forced.deepseek_fenced_call,
    ),
    ToolFamily(
        name="deepseek-v3.1",
        marks=(DEEPSEEK["section"],),
        controls=tuple(DEEPSEEK.values()),
        new_reader=_deepseek_reader,
        forced=forced.deepseek_call,
    ),
    ToolFamily(
        name="minimax",
        marks=(_MINIMAX[0],),
        controls=_MINIMAX,
        new_reader=_typed(*_MINIMAX, bodies.minimax_calls),
        forced=forced_markup.minimax_call,
    ),
    ToolFamily(
        name="glm",
        marks=(_TAGS[0], "<arg_key>"),
        controls=(*_TAGS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        new_reader=_typed(*_TAGS, bodies.glm_call),
        forced=forced_markup.glm_call,
    ),
    ToolFamily(
        name="qwen-coder",
        marks=(_TAGS[0], "<function="),
        controls=_TAGS,
        new_reader=_typed(*_TAGS, bodies.qwen_coder_call),
        forced=forced_markup.qwen_coder_call,
    ),
    ToolFamily(
        name="mistral",
        marks=(_MISTRAL,),
        controls=(_MISTRAL, "[ARGS]"),
        new_reader=_tagged(_MISTRAL, "", bodies.json_calls),
        forced=forced.mistral_call,
    ),
    ToolFamily(
        name="hermes",
        marks=(_TAGS[0],),
        controls=_TAGS,
        new_reader=_tagged(*_TAGS, bodies.json_call),
        forced=forced.hermes_call,
    ),
)


def find_family(template: str) -> ToolFamily | None:
    """Return the first family whose marks all stand in a template's text."""
    return next(
        (f for f in FAMILIES if all(mark in template for mark in f.marks)), None
    )
