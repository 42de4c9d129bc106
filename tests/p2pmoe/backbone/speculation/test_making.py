"""Who drafts, by the operator's wish and what there is."""

import pytest

from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.places import Network
from p2pmoe.backbone.speculation.controller import Controller
from p2pmoe.backbone.speculation.draft_file import DraftFile
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.making import draft_ground, speculation_maker
from p2pmoe.speculating import SpeculationPolicy, SpeculationWish
from tests.support.backbone_model import POCKET, local_side

NGRAM, SELF = DraftSource.NGRAM, DraftSource.SELF
NETWORK = Network(
    fleet=Fleet(), submit=lambda work: None, report=lambda ticket, passed: None
)


def sources(
    policy: str, hot_share: float, network: Network | None = NETWORK
) -> list[DraftSource]:
    side = local_side(POCKET, hot_share=hot_share)
    wish = SpeculationWish(policy=SpeculationPolicy(policy), draft_tokens=5)
    make = speculation_maker(wish, draft_ground(wish, side, side.places(network)))
    if make is None:
        return []
    one, other = make(), make()
    assert isinstance(one.chooser, Controller)
    assert one.chooser is not other.chooser
    assert one.max_drafts == 5
    return [drafter.source for drafter in one.drafters]


@pytest.mark.parametrize(
    ("policy", "hot_share", "found"),
    [
        ("auto", 0.5, [NGRAM, SELF]),
        ("auto", 1.0, [NGRAM]),  # a draft by all experts is the pass itself
        ("ngram", 0.5, [NGRAM]),
        ("self", 0.5, [SELF]),
        ("self", 1.0, []),
        ("off", 0.5, []),
    ],
)
def test_who_drafts(policy: str, hot_share: float, found: list[DraftSource]) -> None:
    assert sources(policy, hot_share) == found


def test_without_a_network_the_model_drafts_for_itself_if_it_is_told_to() -> None:
    assert sources("auto", 0.5, None) == [NGRAM]
    assert sources("self", 0.5, None) == [SELF]


def test_absent_experts_are_stood_in_for_if_the_model_drafts_for_itself() -> None:
    side = local_side(POCKET, hot_share=0.5)
    places = side.places(NETWORK)
    assert draft_ground(SpeculationWish(), side, places).stand_ins is not None
    off = SpeculationWish(policy=SpeculationPolicy.NGRAM)
    assert draft_ground(off, side, places).stand_ins is None


def test_a_model_that_was_opened_drafts_too() -> None:
    side = local_side(POCKET, hot_share=0.5)
    draft = DraftFile(None, 1 << 20)
    for policy, found in (("auto", 3), ("model", 1)):
        wish = SpeculationWish(policy=SpeculationPolicy(policy), draft=POCKET)
        make = speculation_maker(
            wish, draft_ground(wish, side, side.places(NETWORK), draft)
        )
        assert make is not None
        drafters = make().drafters
        assert len(drafters) == found
        assert drafters[-1].source is DraftSource.MODEL
