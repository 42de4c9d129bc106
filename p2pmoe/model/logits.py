"""Which logits a step is asked for."""

from enum import Enum, unique

__all__ = ["Logits"]


@unique
class Logits(Enum):
    """The rows of logits that a step returns for a sequence."""

    NONE = "none"  # as of a piece of a prompt that goes on
    LAST = "last"  # of its last token in the step
    ALL = "all"  # of every token of the step, as verification needs them
