"""What a model says besides text: calls of tools, and thoughts."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["CalledTool", "OutputReader", "PlainReader", "Said", "Thought"]


@dataclass(frozen=True, slots=True)
class Said:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Text that the model keeps to itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A whole call; `arguments` is a JSON object as text."""

    name: str
    arguments: str


class OutputReader(Protocol):
    """Reads one answer's text as it comes; never raises, whatever the text."""

    def push(self, text: str) -> list[Said | Thought | CalledTool]:
        """Return what is certain after this piece."""
        ...

    def finish(self) -> list[Said | Thought | CalledTool]:
        """Return what was held back, once no more will come."""
        ...


class PlainReader:
    """All is text."""

    def push(self, text: str) -> list[Said | Thought | CalledTool]:
        """Return the piece as it is."""
        return [Said(text)] if text else []

    def finish(self) -> list[Said | Thought | CalledTool]:
        """Return nothing: nothing is held back."""
        return []
