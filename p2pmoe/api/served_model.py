"""The model as its clients see it, with what is made of it once, when first needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from p2pmoe.grammar.grammars import Grammars
from p2pmoe.text.template import BrokenTemplate, ChatTemplate
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tool_calls.families import ToolFamily, find_family

__all__ = ["ServedModel"]


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """What is served.

    `template` None means that the file has none; `created_s` is when it was loaded,
    in seconds since 1970; `configuration` is what `/v1/models` tells of how it is
    served, ready for JSON.
    """

    name: str
    n_context: int
    tokenizer: Tokenizer
    template: ChatTemplate | BrokenTemplate | None
    created_s: int
    configuration: Mapping[str, object] | None = None

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.tokenizer.vocabulary.stop_ids

    @cached_property
    def grammars(self) -> Grammars:
        """The grammars of its answers; nothing is built before one is asked for."""
        return Grammars(self.tokenizer)

    @cached_property
    def family(self) -> ToolFamily | None:
        """How it writes calls of tools, by its template."""
        return None if self.template is None else find_family(self.template.source)

    def reading(self, controls: tuple[str, ...]) -> Callable[[int], bytes]:
        """Return the bytes of tokens for a reader that must see some control tokens."""
        vocabulary = self.tokenizer.vocabulary
        seen = {
            token: text.encode()
            for token, text in enumerate(vocabulary.texts)
            if text in controls
        }
        token_bytes = self.tokenizer.token_bytes
        return lambda token: seen.get(token) or token_bytes(token)
