"""Drafts are told by who made them."""

from p2pmoe.backbone.speculation.controller import Controller
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.speculation import Speculation, SpeculationCounts
from p2pmoe.backbone.speculation_metrics import speculation_page


def speculation(counts: SpeculationCounts) -> Speculation:
    return Speculation(drafters=(), chooser=Controller(1), counts=counts)


def test_lanes_are_summed_by_source() -> None:
    ngram, self_draft = DraftSource.NGRAM, DraftSource.SELF
    one = SpeculationCounts(
        n_rounds={None: 3, ngram: 2},
        n_drafted={ngram: 10},
        n_accepted={ngram: 7},
        n_failed=1,
    )
    other = SpeculationCounts(
        n_rounds={ngram: 1, self_draft: 4},
        n_drafted={ngram: 4, self_draft: 8},
        n_accepted={self_draft: 6},
    )
    page = speculation_page([speculation(one), None, speculation(other)])
    for line in (
        'p2pmoe_rounds_total{source="none"} 3',
        'p2pmoe_rounds_total{source="ngram"} 3',
        'p2pmoe_rounds_total{source="self"} 4',
        'p2pmoe_drafted_tokens_total{source="ngram"} 14',
        'p2pmoe_accepted_draft_tokens_total{source="ngram"} 7',
        'p2pmoe_accepted_draft_tokens_total{source="self"} 6',
        'p2pmoe_accepted_draft_tokens_total{source="model"} 0',
        "p2pmoe_failed_draft_passes_total 1",
    ):
        assert f"{line}\n" in page


def test_without_speculation_all_are_zero() -> None:
    assert 'p2pmoe_rounds_total{source="none"} 0\n' in speculation_page([None])
