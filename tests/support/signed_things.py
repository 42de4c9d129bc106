"""One of everything that is signed in the accounts, with how each is checked."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.dispute_papers import (
    ANSWER_DOMAIN,
    CLAIM_DOMAIN,
    verify_dispute_answer,
    verify_dispute_claim,
)
from ledger.grant import GRANT_DOMAIN, verify_grant
from ledger.policy import POLICY_DOMAIN, Policy, verify_policy
from ledger.prices import PRICE_DOMAIN, verify_price_table
from ledger.standby import STANDBY_DOMAIN, verify_standby
from ledger.voucher import VOUCHER_DOMAIN, verify_voucher
from tests.support.dispute_papers import answer_of, claim_of
from tests.support.ledger_world import Party, paper_tab
from tests.support.standby_world import paper_of

__all__ = ["SIGNED_THINGS", "SignedThing"]


@dataclass(frozen=True, slots=True)
class SignedThing:
    """Bytes, who signs them for which purpose, and the check of a signature."""

    name: str
    raw: bytes
    domain: bytes
    signer: Party
    check: Callable[[bytes, bytes, bytes], object]  # raw, signature, signer's key
    key_at: int | None = None  # where the bytes name their signer, if they do

    def sign(self) -> bytes:
        """Its right signature."""
        return self.signer.sign(self.domain + self.raw)


def _things() -> list[SignedThing]:
    tab = paper_tab()
    world = tab.world
    tab.next(0, 1, 5)
    voucher = tab.previous.pack()
    claim = claim_of(tab, 1)
    answer = answer_of(tab, claim).pack()
    opened = claim.pack()
    return [
        SignedThing(
            f"voucher by {party.name}",
            voucher,
            VOUCHER_DOMAIN,
            party,
            verify_voucher,
            voucher.index(party.id),
        )
        for party in (tab.worker, tab.backbone)
    ] + [
        SignedThing(
            "grant", tab.grant.pack(), GRANT_DOMAIN, world.ledger, verify_grant
        ),
        SignedThing(
            "prices",
            world.prices.pack(),
            PRICE_DOMAIN,
            world.market,
            verify_price_table,
        ),
        SignedThing(
            "policy", Policy().pack(), POLICY_DOMAIN, world.ledger, verify_policy
        ),
        SignedThing(
            "policy with standby pay",
            Policy(standby_uc=7).pack(),
            POLICY_DOMAIN,
            world.ledger,
            verify_policy,
        ),
        SignedThing(
            "standby paper",
            paper_of(world, tab.worker).pack(),
            STANDBY_DOMAIN,
            world.market,
            verify_standby,
        ),
        SignedThing(
            "claim",
            opened,
            CLAIM_DOMAIN,
            tab.backbone,
            lambda raw, signature, _: verify_dispute_claim(raw, signature),
            opened.index(tab.backbone.id),
        ),
        SignedThing(
            "answer",
            answer,
            ANSWER_DOMAIN,
            tab.worker,
            lambda raw, signature, _: verify_dispute_answer(raw, signature),
            answer.index(tab.worker.id),
        ),
    ]


SIGNED_THINGS = _things()
