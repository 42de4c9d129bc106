"""Write the golden bytes of the ledger: `python -m tests.vectors.make_ledger`.

All inputs are derived from names by SHA-256 and Ed25519 signs deterministically, so the
same program writes the same file. Other implementations read `ledger/golden.json`.
"""

import json
from pathlib import Path

from ledger.grant import GRANT_DOMAIN, sign_grant
from ledger.leaf import Leaf
from ledger.merkle import Node, inclusion_path, leaf_hash
from ledger.prices import PRICE_DOMAIN, sign_price_table
from ledger.receipt import Receipt
from ledger.voucher import VOUCHER_DOMAIN, voucher_hash
from tests.support.ledger_world import Party, paper_tab
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
    return {
        "domains": {
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
        "trees": trees(),
        "receipt": json.loads(receipt.to_json()),
    }


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(golden(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
