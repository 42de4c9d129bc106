"""Write the golden bytes of the ledger: `python -m tests.vectors.make_ledger`.

All inputs are derived from names by SHA-256 and Ed25519 signs deterministically, so the
same program writes the same file. Other implementations read `ledger/golden.json`.
"""

import json
from dataclasses import replace
from pathlib import Path

from ledger.dispute_papers import ANSWER_DOMAIN, CLAIM_DOMAIN
from ledger.equivocation import EQUIVOCATION_DOMAIN, equivocations
from ledger.grant import GRANT_DOMAIN, sign_grant
from ledger.leaf import Leaf
from ledger.log.checkpoint import (
    Checkpoint,
    cosign,
    log_key,
    log_origin,
    sign_checkpoint,
    witness_key,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.merkle import Node, inclusion_path, leaf_hash
from ledger.policy import POLICY_DOMAIN, Policy, sign_policy
from ledger.prices import PRICE_DOMAIN, sign_price_table
from ledger.receipt import Receipt
from ledger.voucher import VOUCHER_DOMAIN, SignedVoucher, voucher_hash
from tests.support.dispute_papers import (
    answer_of,
    claim_of,
    signed_answer,
    signed_claim,
)
from tests.support.ledger_world import NOVEMBER_US, Party, TabSide, paper_tab
from tests.support.merkle import tree_root

__all__ = ["FILE", "golden", "main"]

FILE = Path(__file__).parent / "ledger" / "golden.json"
SERVINGS = (0, 1, 2, 5, 6, 9, 10, 11, 40)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 255, 256, 257)


def trees() -> list[dict[str, object]]:
    """Roots over the leaves `leaf 0`, `leaf 1`, ... with amounts 0, 1, 4, 9, ..."""
    nodes = [Node(leaf_hash(b"leaf %d" % n), n * n) for n in range(max(SIZES))]
    made: list[dict[str, object]] = []
    for size in SIZES:
        root = tree_root(nodes[:size])
        made.append({"size": size, "root": root.hash.hex(), "sum_uc": str(root.sum_uc)})
    return made


def papers(tab: TabSide) -> dict[str, object]:
    """Both papers of each kind of dispute, about serving 6, with their signatures."""
    made: dict[str, object] = {}
    for by_worker in (False, True):
        opener, other = tab.backbone, tab.worker
        if by_worker:
            opener, other = other, opener
        claim = claim_of(tab, 6, by_worker=by_worker)
        raw, signature = signed_claim(claim, opener)
        answer, answer_signature = signed_answer(answer_of(tab, claim), other)
        made[claim.reason.name.lower()] = {
            "claim": raw.hex(),
            "claim_signature": signature.hex(),
            "answer": answer.hex(),
            "answer_signature": answer_signature.hex(),
        }
    return made


def proof(tab: TabSide) -> dict[str, object]:
    """The proof that a worker signed two vouchers of one number."""
    later = replace(tab.previous, issued_us=tab.previous.issued_us + 1)
    found = equivocations(tab.sign(tab.previous), tab.sign(later))[0]
    return {"bytes": found.pack().hex(), "name": found.name.hex()}


def log(tab: TabSide, signed: SignedVoucher, policy: Policy) -> dict[str, object]:
    """A log of one entry, its checkpoint, cosigned by a witness."""
    world = tab.world
    raw = pack_entry(signed, policy.content_hash)
    head = Checkpoint(log_origin(world.network.id), 1, entry_hash(raw))
    key = log_key(world.network.id, world.ledger.id)
    witness = Party("witness")
    note = sign_checkpoint(head, key, world.ledger.sign)
    cosigned = cosign(
        note,
        witness_key("example.com/witness", witness.id),
        witness.sign,
        NOVEMBER_US // 1_000_000,
    )
    return {
        "entry": raw.hex(),
        "entry_hash": entry_hash(raw).hex(),
        "witness": witness.id.hex(),
        "checkpoint": cosigned.pack().decode(),
    }


def golden() -> dict[str, object]:
    """Return everything, as it is written."""
    tab = paper_tab()
    world = tab.world
    signed, _ = tab.next(*SERVINGS)
    leaves = [tab.leaves[serving] for serving in SERVINGS]
    nodes = [Node(leaf_hash(raw), Leaf.parse(raw).amount_uc) for raw in leaves]
    grant, prices = tab.grant.pack(), world.prices.pack()
    receipt = Receipt(
        leaf=leaves[4],
        path=inclusion_path(nodes, 4),
        signed=signed,
        grant=grant,
        grant_signature=sign_grant(grant, world.ledger.sign),
        prices=prices,
        price_signature=sign_price_table(prices, world.market.sign),
        other_proofs={},
    )
    policy = Policy(fee_ppm=25_000, holdback_ppm=100_000, since_us=NOVEMBER_US)
    return {
        "domains": {
            "claim": CLAIM_DOMAIN.hex(),
            "answer": ANSWER_DOMAIN.hex(),
            "equivocation": EQUIVOCATION_DOMAIN.hex(),
            "policy": POLICY_DOMAIN.hex(),
            "grant": GRANT_DOMAIN.hex(),
            "prices": PRICE_DOMAIN.hex(),
            "voucher": VOUCHER_DOMAIN.hex(),
        },
        "keys": {
            name: Party(name).id.hex()
            for name in ("network", "ledger", "market", "backbone", "worker")
        },
        "leaves": [raw.hex() for raw in leaves],
        "voucher": signed.raw.hex(),
        "voucher_hash": voucher_hash(signed.raw).hex(),
        "worker_signature": signed.worker_signature.hex(),
        "backbone_signature": signed.backbone_signature.hex(),
        "grant": grant.hex(),
        "ledger_signature": receipt.grant_signature.hex(),
        "prices": prices.hex(),
        "market_signature": receipt.price_signature.hex(),
        "policy": policy.pack().hex(),
        "policy_signature": sign_policy(policy.pack(), world.ledger.sign).hex(),
        "disputes": papers(tab),
        "equivocation": proof(tab),
        "log": log(tab, signed, policy),
        "trees": trees(),
        "receipt": json.loads(receipt.to_json()),
    }


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(golden(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
