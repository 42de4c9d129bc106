"""A ledger that files vouchers for ever and says what was acknowledged, to be killed.

Run as `python -m tests.support.ledger_process FOLDER N_TABS`. Each line on stdout is
`TAB NUMBER AMOUNT_UC`, written only after the store's future resolved.
"""

import sys
from pathlib import Path

from tests.support.ledger_world import Party, World

__all__ = ["main"]

_LEAVES = 3


def main() -> None:
    folder, n_tabs = Path(sys.argv[1]), int(sys.argv[2])
    world = World()
    with world.open(folder, window_s=0.002, credit_uc=10**12) as store:
        # Tabs of their own for each life: an old one is never extended.
        life = sum(1 for _ in folder.glob("life-*"))
        (folder / f"life-{life}").touch()
        tabs = []
        for n in range(n_tabs):
            worker = Party(f"worker {n}")
            order = world.order(
                worker=worker, ceiling_uc=10**8, request=life * n_tabs + n
            )
            tab = life.to_bytes(4, "big") + n.to_bytes(4, "big")
            issued = store.grant(order).result(60)
            tabs.append(world.tab(issued, worker=worker, tab=tab))
        print("ready", flush=True)
        step = 0
        while True:
            span = range(step * _LEAVES, (step + 1) * _LEAVES)
            futures = []
            for tab in tabs:
                signed, block = tab.next(*span)
                futures.append((tab, store.file(signed, block, tab.backbone.id)))
            for tab, future in futures:
                if future.result(60).status == 0:
                    amount_uc = tab.previous.amount_uc
                    print(tab.tab.hex(), step + 1, amount_uc, flush=True)
            step += 1


if __name__ == "__main__":
    main()
