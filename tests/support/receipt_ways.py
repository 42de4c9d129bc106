"""A ledger with a voucher in every state there is, and which each must be in."""

import dataclasses
from pathlib import Path

from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, Party, World

__all__ = ["WAYS", "books_of_every_way"]

# Each voucher's way: what is done with it, and the state and reason it must be in.
WAYS = [
    ("open", "pending", "open"),
    ("close", "pending", "window"),
    ("dispute", "held", "dispute"),
    ("reverse", "rejected", "reversed"),
    ("settle", "pending", "available"),
    ("settle prepared", "pending", "payout"),
    ("settle unresolved", "pending", "payout"),
    ("settle failed", "pending", "available"),
    ("settle void confirmed", "paid", ""),
    ("held settle confirmed", "held", "holdback"),
    ("held settle unhold", "pending", "available"),
    ("held settle unhold confirmed", "pending", "rest"),  # the holdback is not
    ("held settle forfeit confirmed", "paid", "forfeited"),
    ("held settle unhold confirmed both", "paid", ""),
]


def books_of_every_way(path: Path) -> Books:
    """Write a voucher on each way, and refused and one-sided ones."""
    world = World()
    with world.open(path) as store:
        issued = store.grant(world.order()).result(60)
        for n, _ in enumerate(WAYS):
            tab = world.tab(issued, tab=b"tab-%04d" % n)
            tab.file(store, 0, 1, 2, 3)
        for serving in (4, 5):  # a second receipt of the last one
            tab.file(store, serving)
        bad = dataclasses.replace(tab.forged(), worker_signature=b"")
        for forged in (tab.forged(), bad):  # two copies of one voucher
            store.file(forged, b"", world.worker.id).result(60)
        good = tab.sign(tab.previous)
        copy = dataclasses.replace(good, worker_signature=bytes(64))
        store.file(copy, b"", world.worker.id).result(60)  # it was filed before
        store.file(dataclasses.replace(good, raw=b"?"), b"", world.backbone.id).result(
            5
        )
        other = Party("other")
        issued = store.grant(world.order(worker=other)).result(60)
        world.tab(issued, worker=other, tab=b"tab-9999").file(store, 0)
    books = Books(world, path)
    with books:
        books.period("2026-11", 0, 1)
        attempt = 0
        for n, (way, _, _) in enumerate(WAYS):
            attempt = _walk(books, n + 1, way.split(), attempt)
        books.one_sided(1000, NOVEMBER_US)
        books.one_sided(70, NOVEMBER_US, "expired")
        books.one_sided(9999, NOVEMBER_US, "signed")
    return books


def _walk(books: Books, voucher_id: int, steps: list[str], attempt: int) -> int:
    if steps == ["open"]:
        return attempt
    held = 20 if "held" in steps else 0
    at_us = NOVEMBER_US + 10
    net = books.close(voucher_id, at_us, fee=5, held=held)
    if "dispute" in steps:
        books.dispute(voucher_id, at_us)
    for step in ("settle", "reverse", "unhold", "forfeit"):
        if step in steps:
            books.settle(voucher_id, at_us + 10, step)
    for state in ("prepared", "unresolved", "failed", "void", "confirmed"):
        if state in steps:
            attempt += 1
            items = [(voucher_id, "net", net)]
            if "both" in steps:
                items.append((voucher_id, "holdback", held))
            worker = books.world.worker.id
            books.pay(worker, at_us + 20, *items, state=state, attempt=attempt)
    return attempt
