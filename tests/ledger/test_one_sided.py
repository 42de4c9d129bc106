"""A final that only the backbone signed: held, then settled by the worker's half."""

import dataclasses

from sqlalchemy import select

from ledger import one_sided as module
from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus
from ledger.schema_closing import closing, one_sided
from ledger.voucher import sign_voucher
from tests.support.ledger_world import HOUR_US, Party, held


def tab_of(world, store, **order):
    return world.tab(store.grant(world.order(**order)).result(60))


def rows(store, table):
    with store.reader().session() as connection:
        return connection.execute(select(table)).all()


def answer(store, signed, leaves, peer):
    filed = store.file(signed, leaves, peer).result(60)
    return filed.status, filed.reason


def test_it_moves_nothing_until_the_worker_signs(world, ledger_database):
    with world.open(ledger_database) as store:
        tab = tab_of(world, store)
        tab.file(store, 0, 1)
        earned_uc = tab.previous.amount_uc
        final, block = tab.one_sided(2, 3)
        for _ in range(2):  # told again, it is the same
            told = answer(store, final, block, tab.backbone.id)
            assert told == (FiledStatus.STORED, "held")
        assert held(store, AccountKind.WORKER_PENDING) == earned_uc
        (row,) = rows(store, one_sided)
        assert (row.state, row.leaves, row.amount_uc) == (
            "held",
            block,
            tab.previous.amount_uc,
        )
        # The worker needs no leaves: they are here.
        half = tab.worker_half(final)
        assert answer(store, half, b"", tab.worker.id) == (FiledStatus.STORED, "")
        assert held(store, AccountKind.WORKER_PENDING) == tab.previous.amount_uc
        (row,) = rows(store, one_sided)
        assert (row.state, row.leaves) == ("signed", b"")
        assert len(rows(store, closing)) == 1
        again = answer(store, half, b"", tab.worker.id)
        assert again == (FiledStatus.DUPLICATE, "")


def test_both_signatures_settle_it_as_well(world, store):
    tab = tab_of(world, store)
    final, block = tab.one_sided(0)
    answer(store, final, block, tab.backbone.id)
    whole = tab.sign(tab.previous)
    assert answer(store, whole, b"", tab.worker.id)[0] is FiledStatus.RETRY
    assert answer(store, whole, block, tab.worker.id) == (FiledStatus.STORED, "")
    assert [row.state for row in rows(store, one_sided)] == ["signed"]
    verify_ledger(store.reader(), world.identity)


def test_the_workers_half_alone_is_worth_nothing(world, store):
    tab = tab_of(world, store)
    final, block = tab.one_sided(0)
    half = tab.worker_half(final)
    told = answer(store, half, block, tab.worker.id)
    assert told == (FiledStatus.REJECTED, "signature")
    assert held(store, AccountKind.WORKER_PENDING) == 0


def test_only_a_final_one_may_lack_a_signature(world, store):
    tab = tab_of(world, store)
    signed, block = tab.next(0)
    for name in ("worker_signature", "backbone_signature"):
        lacking = dataclasses.replace(signed, **{name: b""})
        told = answer(store, lacking, block, tab.backbone.id)
        assert told == (FiledStatus.REJECTED, "signature")
    nothing = dataclasses.replace(
        tab.one_sided(1)[0], backbone_signature=b"", worker_signature=b""
    )
    told = answer(store, nothing, block, tab.backbone.id)
    assert told == (FiledStatus.REJECTED, "signature")


def test_a_foreign_signature_in_either_half_is_refused(world, store):
    tab = tab_of(world, store)
    final, block = tab.one_sided(0)
    thief = Party("thief")
    forged = dataclasses.replace(
        final, backbone_signature=sign_voucher(final.raw, thief.sign)
    )
    told = answer(store, forged, block, thief.id)
    assert told == (FiledStatus.REJECTED, "signature")
    answer(store, final, block, tab.backbone.id)
    forged = dataclasses.replace(
        tab.worker_half(final), worker_signature=sign_voucher(final.raw, thief.sign)
    )
    told = answer(store, forged, b"", thief.id)
    assert told == (FiledStatus.REJECTED, "signature")
    assert held(store, AccountKind.WORKER_PENDING) == 0


def test_it_is_checked_like_any_other(world, store):
    tab = tab_of(world, store, ceiling_uc=100)
    final, _ = tab.one_sided(0)
    told = answer(store, final, tab.leaf(0, amount_uc=10**6), tab.backbone.id)
    assert told == (FiledStatus.REJECTED, "amount")
    assert answer(store, final, b"", tab.backbone.id)[0] is FiledStatus.RETRY
    dear, dear_block = tab_of(world, store, ceiling_uc=100).one_sided(*range(40))
    told = answer(store, dear, dear_block, tab.backbone.id)
    assert told == (FiledStatus.REJECTED, "ceiling")
    assert rows(store, one_sided) == []


def test_another_final_of_the_same_tab_is_refused(world, store):
    tab = tab_of(world, store)
    final, block = tab.one_sided(0)
    answer(store, final, block, tab.backbone.id)
    tab.previous = None
    other, _ = tab.one_sided(1, n_skipped=2)
    told = answer(store, other, block + tab.leaves[1], tab.backbone.id)
    assert told == (FiledStatus.REJECTED, "chain")


def test_it_expires_with_its_grant(world, store):
    tab = tab_of(world, store)
    tab.file(store, 0)
    final, block = tab.one_sided(1)
    answer(store, final, block, tab.backbone.id)
    world.now_us += 80 * HOUR_US
    assert store.tend().grants_released == 1
    (row,) = rows(store, one_sided)
    assert (row.state, row.leaves) == ("expired", b"")
    told = answer(store, tab.worker_half(final), block, tab.worker.id)
    assert told == (FiledStatus.REJECTED, "closed")
    verify_ledger(store.reader(), world.identity)


def test_a_tab_of_nothing_else_expires_too(world, store):
    tab = tab_of(world, store)
    final, block = tab.one_sided(1)
    answer(store, final, block, tab.backbone.id)
    world.now_us += 80 * HOUR_US
    store.tend()
    told = answer(store, tab.worker_half(final), block, tab.worker.id)
    assert told == (FiledStatus.REJECTED, "grant")
    assert rows(store, closing) == []


def test_another_close_of_the_key_ends_it(world, store):
    tab = tab_of(world, store)
    tab.file(store, 0)
    signed_before = tab.previous
    final, block = tab.one_sided(1)
    answer(store, final, block, tab.backbone.id)
    tab.previous = signed_before
    tab.tally = type(tab.tally)(tab.terms, world.prices)
    tab.tally.add(tab.leaves[0])
    assert tab.file(store, 5, final=True).status is FiledStatus.STORED
    (row,) = rows(store, one_sided)
    assert (row.state, row.leaves) == ("expired", b"")


def test_there_is_room_for_so_many(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_OF_BACKBONE", 1)
    for n, expected in enumerate([(FiledStatus.STORED, "held"), (3, "busy")]):
        tab = world.tab(store.grant(world.order()).result(60), tab=b"tab-%04d" % n)
        final, block = tab.one_sided(0)
        assert answer(store, final, block, tab.backbone.id) == expected
