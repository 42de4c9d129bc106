"""Makes what each lane drafts by, as the operator wishes and the model allows."""

from dataclasses import dataclass

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.backbone.prefetch.prefetching import Prefetching
from p2pmoe.backbone.speculation.controller import Controller
from p2pmoe.backbone.speculation.draft_file import DraftFile
from p2pmoe.backbone.speculation.drafts import Drafter
from p2pmoe.backbone.speculation.ngram import NgramDraft
from p2pmoe.backbone.speculation.restricted import ExpertsOfLayer
from p2pmoe.backbone.speculation.self_draft import SelfDraft
from p2pmoe.backbone.speculation.speculation import Speculation, SpeculationMaker
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.model.model import Model
from p2pmoe.speculating import PrefetchPolicy, SpeculationPolicy, SpeculationWish

__all__ = ["DraftGround", "draft_ground", "speculation_maker"]

_LEAST_BYTES = 8 << 20  # that stand-ins may take, however little memory there is
_STAND_IN_SHARE = 16  # of the memory for experts they may take, else


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGround:
    """What there is to draft with.

    `at_hand` returns a layer's experts that are in memory. With `holds_all` that is
    every one, and then the model drafting for itself would do the same work twice. Nor
    does it draft unasked without a network (`in_network`): there are no trips to save,
    and its stand-ins would take memory beyond what was given (fault B15).
    `stand_ins` guess for experts that are absent, `prefetch` fetches them; `draft` is
    another model that drafts.
    """

    model: Model
    kernel: Kernel
    profile: Profile
    at_hand: ExpertsOfLayer
    holds_all: bool = False
    in_network: bool = True
    stand_ins: StandIns | None = None
    prefetch: Prefetching | None = None
    draft: DraftFile | None = None


def speculation_maker(
    wish: SpeculationWish, ground: DraftGround
) -> SpeculationMaker | None:
    """Return what makes a lane's speculation; None if nobody can draft."""
    n_layers = len(ground.model.routers())

    def drafters() -> tuple[Drafter, ...]:
        return _drafters(wish, ground)

    if not drafters():
        return None

    def make() -> Speculation:
        return Speculation(
            drafters=drafters(),
            chooser=Controller(n_layers, wish.draft_tokens),
            max_drafts=wish.draft_tokens,
            prefetch=None if wish.prefetch is PrefetchPolicy.OFF else ground.prefetch,
        )

    return make


def draft_ground(
    wish: SpeculationWish,
    local: LocalSide,
    places: ExpertPlaces,
    draft: DraftFile | None = None,
) -> DraftGround:
    """Return what a service's lanes draft with; stand-ins only if they are asked."""
    description, hot = local.model.description, local.hot
    stand_ins, in_network = None, places.network is not None
    if _wants_self_draft(wish, hot.holds_all, in_network):
        stand_ins = StandIns.within(
            description.n_expert,
            description.n_embd,
            len(description.moe_layers),
            max(_LEAST_BYTES, hot.budget_bytes // _STAND_IN_SHARE),
        )
    return DraftGround(
        model=local.model,
        kernel=places.kernel,
        profile=places.profile,
        at_hand=hot.layer,
        holds_all=hot.holds_all,
        in_network=in_network,
        stand_ins=stand_ins,
        prefetch=places.prefetch,
        draft=draft,
    )


def _wants_self_draft(wish: SpeculationWish, holds_all: bool, in_network: bool) -> bool:
    """Whether the model is to draft for itself."""
    if holds_all:
        return False
    is_auto = wish.policy is SpeculationPolicy.AUTO and in_network
    return is_auto or wish.policy is SpeculationPolicy.SELF


def _drafters(wish: SpeculationWish, ground: DraftGround) -> tuple[Drafter, ...]:
    found: list[Drafter] = []
    if wish.policy in {SpeculationPolicy.AUTO, SpeculationPolicy.NGRAM}:
        found.append(NgramDraft())
    if _wants_self_draft(wish, ground.holds_all, ground.in_network):
        found.append(
            SelfDraft(
                ground.model,
                ground.at_hand,
                kernel=ground.kernel,
                profile=ground.profile,
                stand_ins=ground.stand_ins,
            )
        )
    models = {SpeculationPolicy.AUTO, SpeculationPolicy.MODEL}
    if ground.draft is not None and wish.policy in models:
        found.append(ground.draft.drafter())
    return tuple(found)
