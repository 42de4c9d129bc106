"""Errors of tokenizers and templates, leaves of `p2pmoe.errors`.

P2pmoeError
  TokenizerError           the file's tokenizer is incomplete or inconsistent
    PretokenizerUnknown    its pre-tokenizer is missing or not known here
  TextRefused              a text or token id that cannot be converted
  TemplateError            a chat template failed; says whether the messages did it
"""

from p2pmoe.errors import P2pmoeError

__all__ = ["PretokenizerUnknown", "TemplateError", "TextRefused", "TokenizerError"]


class TokenizerError(P2pmoeError):
    """The tokenizer in a model file is incomplete or inconsistent."""

    advice = "use another file of the model"


class PretokenizerUnknown(TokenizerError):
    """The file names no pre-tokenizer, or one that is not known here.

    Guessing would give fluent but wrong answers (fault B10), so it is refused.
    """

    advice = "if you are sure of the right one, name it with --pre-tokenizer"


class TextRefused(P2pmoeError):
    """A text that is no Unicode, or a token id that the vocabulary lacks."""


class TemplateError(P2pmoeError):
    """A chat template could not be compiled or rendered.

    `by_messages` is true where the template itself refused the messages, so that
    others might have passed.
    """

    advice = "use the model's own template, or plain completions"

    def __init__(self, message: str, *, by_messages: bool = False) -> None:
        """Keep the reason and whose fault it is."""
        super().__init__(message)
        self.by_messages = by_messages
