"""Beacon audits of small ledgers: drawn, decided, and books that have some of each."""

from collections.abc import Iterable
from pathlib import Path

from ledger.beacon_rows import Audited, audits_where
from ledger.beacon_verdicts import Finding
from ledger.beacon_words import AuditState, Word
from ledger.leaf import Leaf
from ledger.policy import Policy
from ledger.store import Store
from tests.support.ledger_world import HOUR_US, Party, TabSide, World

__all__ = [
    "AUDIT_TERMS",
    "audited_books",
    "audits",
    "convicted",
    "decide",
    "draw",
    "failed",
    "new_tab",
    "rows_behind",
    "word",
]

AUDIT_TERMS = Policy(holdback_ppm=100_000)


def rows_behind(leaf: Leaf) -> bytes:
    """The rows whose hash a leaf of a TabSide has."""
    return b"x%d" % leaf.serving


def word(name: str, leaf: Leaf, *, says: bytes = b"") -> Word:
    """What a referee says: the worker's own results, or another hash."""
    return Word(Party(name).id, says or leaf.out_hash)


def new_tab(
    world: World, store: Store, name: str = "tab-0001", worker: Party | None = None
) -> TabSide:
    """A tab under a new grant, whose worker may be another than the world's."""
    issued = store.grant(world.order(worker=worker)).result(60)
    return world.tab(issued, worker=worker, tab=name.encode())


def audits(store: Store) -> list[Audited]:
    """All audits, in the order they were drawn."""
    with store.reader().session() as connection:
        return audits_where(connection)[::-1]


def draw(world: World, store: Store) -> list[Audited]:
    """Cast a beacon a moment later; return the audits that are new."""
    before = len(audits(store))
    world.now_us += 1_000_000
    store.cast_beacon().result(60)
    return audits(store)[before:]


def decide(store: Store, audited: Audited, **finding: object) -> Audited | None:
    """Write down what one audit came to."""
    made = Finding(audit=audited.id, **finding)  # type: ignore[arg-type]
    return store.decide_audit(made).result(60)


def failed(
    audited: Audited, names: Iterable[str] = ("one", "two")
) -> dict[str, object]:
    """The finding of two referees who agree on other results."""
    words = tuple(word(name, audited.leaf, says=bytes(16)) for name in names)
    return {
        "state": AuditState.FAILED,
        "words": words,
        "opened": rows_behind(audited.leaf),
    }


def convicted(store: Store, audited: Audited) -> Audited | None:
    """Convict the worker of one audit."""
    return decide(store, audited, **failed(audited))


def audited_books(path: Path) -> World:
    """Write a ledger's folder with audits that came to everything they can."""
    world = World()
    with world.open(path, terms=AUDIT_TERMS) as store:
        draw(world, store)
        honest = new_tab(world, store)
        honest.file(store, *range(24))
        found = draw(world, store)
        decide(
            store,
            found[0],
            state=AuditState.PASSED,
            words=(
                word("one", found[0].leaf, says=bytes(16)),
                word("two", found[0].leaf),
            ),
        )
        store.tend()
        honest.file(store, *range(24, 200), final=True)
        store.tend()  # the log has a head: the next beacon names it
        rest = draw(world, store)
        outcomes = ("unopened", "unjudged", "unasked", "passed")
        for each, name in zip(rest, outcomes, strict=False):
            state = AuditState(name)
            said = (word("one", each.leaf),) if state is AuditState.PASSED else ()
            decide(store, each, state=state, words=said, detail="for a reason")
        _a_cheat(world, store)
        world.now_us += 49 * HOUR_US
        store.tend()
    return world


def _a_cheat(world: World, store: Store) -> None:
    """Another worker: one voucher closed and held back, one open and convicted."""
    worker = Party("cheat")
    closed = new_tab(world, store, "tab-0002", worker)
    closed.file(store, *range(24), final=True)
    draw(world, store)
    caught = new_tab(world, store, "tab-0003", worker)
    caught.file(store, *range(200))
    for audited in draw(world, store)[:2]:
        convicted(store, audited)
