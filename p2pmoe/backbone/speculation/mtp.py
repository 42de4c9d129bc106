"""The interface for next-token heads (multi-token prediction), for models with them.

Some files carry blocks behind their layers that predict the tokens after the next one
(`nextn_predict_layers` in GGUF; DeepSeek-V3, GLM-4.5). What runs them is a
`NextTokenHeads`, and `MtpDraft` drafts with any. No architecture here runs its own: the
blocks' experts are routed as well, and nothing is there to check a run against. So
nothing makes an `MtpDraft` yet; `p2pmoe models inspect` tells how many a file has.
"""

from collections.abc import Sequence
from typing import Protocol

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.growth import Growth

__all__ = ["MtpDraft", "MtpDrafting", "NextTokenHeads"]


class NextTokenHeads(Protocol):
    """A model's heads; for one lane's thread at a time."""

    @property
    def n_heads(self) -> int:
        """How many tokens can be drafted one behind the other."""
        ...

    def logits(self, wishes: Sequence[DraftWish], drawn: Sequence[int]) -> list[Floats]:
        """Return f32 [n_vocab] for each wish: what follows its tokens and drafts.

        `drawn` is each wish's latest draft, its last token before the first.
        """
        ...

    def forget(self, number: int) -> None:
        """Drop what is kept of a sequence."""
        ...


class MtpDraft:
    """A `Drafter` by next-token heads."""

    source = DraftSource.MTP

    def __init__(self, heads: NextTokenHeads) -> None:
        """Draft with a model's heads."""
        self.heads = heads

    def begin(self, wishes: Sequence[DraftWish]) -> "MtpDrafting":
        """Begin; nothing is run before `advance`."""
        return MtpDrafting(self.heads, wishes)

    def forget(self, number: int) -> None:
        """Drop what is kept of a sequence."""
        self.heads.forget(number)


class MtpDrafting:
    """Drafting under way for some sequences."""

    def __init__(self, heads: NextTokenHeads, wishes: Sequence[DraftWish]) -> None:
        """Hold wishes."""
        self._heads = heads
        self._wishes = wishes
        self._growths = [Growth(wish, heads.n_heads) for wish in wishes]

    def advance(self) -> bool:
        """Draft one more token of each sequence that wants one; False if none does."""
        pairs = zip(self._wishes, self._growths, strict=True)
        active = [(wish, growth) for wish, growth in pairs if growth.wants_more]
        if not active:
            return False
        drawn = [growth.last[0] for _, growth in active]
        logits = self._heads.logits([wish for wish, _ in active], drawn)
        for (_, growth), own in zip(active, logits, strict=True):
            growth.draw(own)
        return True

    def drafts(self) -> list[Draft]:
        """Return what was drafted so far, one for each wish."""
        return [growth.draft(DraftSource.MTP) for growth in self._growths]
