"""STANDBY papers of the test world's market, and a ledger whose pot is filled."""

from ledger.policy import Policy
from ledger.prices import ONE_Q16
from ledger.standby import ExpertScarcity, Holding, StandbyPaper, sign_standby
from ledger.store import Store
from tests.support.ledger_world import Party, World

__all__ = [
    "EPOCH_US",
    "TERMS",
    "book",
    "fill_pot",
    "paper_of",
    "served",
]

EPOCH_US = 600_000_000
TERMS = Policy(standby_uc=1_000_000)
ALL = ONE_Q16


def paper_of(
    world: World,
    *workers: Party,
    epoch: int | None = None,
    pot_uc: int = 1000,
    **changes: object,
) -> StandbyPaper:
    """The epoch that is just over: two experts, each held by all of the workers."""
    ended = world.now_us // EPOCH_US if epoch is None else epoch + 1
    held = sorted(each.id for each in workers)
    fields: dict[str, object] = {
        "network": world.network.id,
        "manifest_hash": world.manifest_hash,
        "epoch": ended - 1,
        "from_us": (ended - 1) * EPOCH_US,
        "to_us": ended * EPOCH_US,
        "price_table_hash": world.prices.content_hash,
        "pot_uc": pot_uc,
        "experts": tuple(
            ExpertScarcity(expert, 5, m, 2 * ALL, max(1, len(held)) * ALL)
            for expert, m in ((1 << 16 | 3, 2 * ALL), (2 << 16 | 1, ALL))
        ),
        "holdings": tuple(
            Holding(expert, worker, worker[:8], ALL)
            for expert in (1 << 16 | 3, 2 << 16 | 1)
            for worker in held
        ),
    }
    return StandbyPaper(**{**fields, **changes})


def book(store: Store, world: World, paper: StandbyPaper):
    """Book a paper that the market signs."""
    raw = paper.pack()
    signature = sign_standby(raw, world.market.sign)
    return store.book_standby(raw, signature).result(60)


def fill_pot(
    store: Store, amount_uc: int, note: str = "november", source: str = "outside"
):
    """Fill the pot; return the operation's answer."""
    return store.operate(
        "standby.fund",
        {"amount_uc": amount_uc, "source": source, "note": note, "commit": True},
    ).result(60)


def served(store: Store, world: World, *workers: Party) -> None:
    """Have each worker known: one voucher of each is filed."""
    for n, worker in enumerate(workers):
        issued = store.grant(world.order(worker=worker, ceiling_uc=5000)).result(60)
        tab = world.tab(issued, worker=worker, tab=b"known-%02d" % n)
        assert tab.file(store, 0, 1).status == 0
