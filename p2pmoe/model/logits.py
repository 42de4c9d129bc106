"""Which logits a step is asked for."""

from enum import Enum, unique

__all__ = ["Logits"]


@unique
class Logits(Enum):
    """The rows of logits that `Model.forward` returns."""

    LAST = "last"  # of the step's last token
    ALL = "all"  # of every token of the step, as verification needs them
