"""One answer's way through a grammar: the engine's `TokenConstraint`.

Where the text may end the stop tokens are allowed, and when it must, they alone. Each
call takes some 10 to 100 microseconds of the decode thread and releases the lock of
the interpreter meanwhile; the library's own limits bound the worst step.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2pmoe.grammar.errors import ConstraintFailed

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["MatcherConstraint"]

_MAX_REASON = 200


class MatcherConstraint:
    """What tokens may come next, as far as the answer has come."""

    def __init__(
        self, matcher: "LLMatcher", n_vocab: int, stop_ids: Iterable[int]
    ) -> None:
        """Follow a matcher of its own from its start."""
        self._matcher = matcher
        self._n_vocab = n_vocab
        self._stop_ids = sorted(stop_ids)

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Return bool [n_vocab], never none of them.

        Raises:
            ConstraintFailed: No token is allowed, or it took too much to find out.
        """
        if self._matcher.is_stopped() and not self._matcher.is_error():
            mask = np.zeros(self._n_vocab, np.bool_)
            mask[self._stop_ids] = True
            return mask
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        bits = np.unpackbits(packed, bitorder="little", count=self._n_vocab)
        if self._matcher.is_error() or not bits.any():
            raise self._failure()
        return bits.view(np.bool_)

    def accept(self, token: int) -> None:
        """Take the token that came; a stop token ends it.

        Raises:
            ConstraintFailed: It was not allowed, or it took too much to follow.
        """
        if token in self._stop_ids:
            return
        if not self._matcher.consume_token(token):
            raise self._failure()

    def _failure(self) -> ConstraintFailed:
        reason = " ".join(
            self._matcher.get_error().replace("<non-verbose/>", "").split()
        )
        detail = f": {reason[:_MAX_REASON]}" if reason else ""
        return ConstraintFailed(f"the grammar allows no token here{detail}")
