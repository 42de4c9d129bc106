"""What lanes have drafted, and what of it was accepted, as samples for the page.

Read without a lock: a sample may be a round late.
"""

from collections.abc import Iterable

from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.speculation import Speculation
from p2pmoe.prometheus import render_metric

__all__ = ["speculation_page"]


def speculation_page(lanes: Iterable[Speculation | None]) -> str:
    """Return rounds and tokens by who drafted them, of all lanes that speculate."""
    counts = [own.counts for own in lanes if own is not None]
    rounds = [
        (
            {"source": "none" if source is None else source.value},
            sum(own.n_rounds.get(source, 0) for own in counts),
        )
        for source in (None, *DraftSource)
    ]
    drafted = [
        ({"source": source.value}, sum(own.n_drafted.get(source, 0) for own in counts))
        for source in DraftSource
    ]
    accepted = [
        ({"source": source.value}, sum(own.n_accepted.get(source, 0) for own in counts))
        for source in DraftSource
    ]
    n_failed = sum(own.n_failed for own in counts)
    return "".join(
        (
            render_metric("p2pmoe_rounds_total", rounds),
            render_metric("p2pmoe_drafted_tokens_total", drafted),
            render_metric("p2pmoe_accepted_draft_tokens_total", accepted),
            render_metric("p2pmoe_failed_draft_passes_total", [({}, n_failed)]),
        )
    )
