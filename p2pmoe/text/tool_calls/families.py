"""The families of tool-call formats, found by what stands in a model's template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from p2pmoe.text.tool_calls.calls import OutputReader
from p2pmoe.text.tool_calls.parameters import KnownTool

__all__ = ["ToolFamily", "find_family"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFamily:
    """One way to write calls.

    `marks` all stand in the template's text. `controls` are the marks that a reader
    must see even where they are control tokens. `forced` makes the grammar, in Lark's
    notation, of a call of one of the tools, given the ids of the marks that are control
    tokens; None where no grammar can hold the format.
    """

    name: str
    marks: tuple[str, ...]
    controls: tuple[str, ...]
    new_reader: Callable[[Sequence[KnownTool]], OutputReader]
    forced: Callable[[Sequence[KnownTool], Mapping[str, int]], str] | None = None
    reads_all: bool = False  # answers without tools too: they have channels


FAMILIES: tuple[ToolFamily, ...] = ()


def find_family(template: str) -> ToolFamily | None:
    """Return the first family whose marks all stand in a template's text."""
    return next(
        (f for f in FAMILIES if all(mark in template for mark in f.marks)), None
    )
