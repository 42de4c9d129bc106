"""What a filed voucher moves, through the store: filings, double claims, refusals."""

import dataclasses

from ledger import filings as module
from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus
from ledger.filings import earn_key
from ledger.grant import Grant
from ledger.voucher import SignedVoucher, VoucherKey, sign_voucher
from tests.support.ledger_world import HOUR_US, Party, held


def grant(world, store, **order):
    return store.grant(world.order(**order)).result(60)


def check(world, store) -> None:
    verify_ledger(store.reader(), world.identity)


def test_a_voucher_moves_what_it_adds_and_only_once(world, store):
    tab = world.tab(grant(world, store))
    signed, block = tab.next(0, 1, 2)
    assert store.file(signed, block, b"b" * 32).result(60).status is FiledStatus.STORED
    earned = tab.previous.amount_uc
    assert held(store, AccountKind.WORKER_PENDING) == earned
    again = store.file(signed, block, b"w" * 32).result(60)
    assert again.status is FiledStatus.DUPLICATE
    assert tab.file(store, 3, 4).status is FiledStatus.STORED
    assert held(store, AccountKind.WORKER_PENDING) == tab.previous.amount_uc > earned
    assert held(store, AccountKind.CLIENT_RESERVED) == 10**6 - tab.previous.amount_uc
    check(world, store)


def test_late_servings_and_a_jump_in_numbers(world, store):
    tab = world.tab(grant(world, store))
    assert tab.file(store, 5, 6).status is FiledStatus.STORED
    lost, lost_leaves = tab.next(0, 1)
    signed, block = tab.next(2, 9)
    without = store.file(signed, block, tab.backbone.id).result(60)
    assert (without.status, without.reason) == (FiledStatus.RETRY, "leaves")
    everything = b"".join(tab.leaves[n] for n in (9, 5, 2, 0, 1))
    assert store.file(signed, everything, tab.backbone.id).result(60).status == 0
    # The one that was overtaken is covered: nothing more is owed.
    late = store.file(lost, lost_leaves, tab.worker.id).result(60)
    assert (late.status, late.reason) == (FiledStatus.DUPLICATE, "")
    check(world, store)


def test_servings_far_back_are_summed_from_the_files(world, store):
    tab = world.tab(grant(world, store))
    assert tab.file(store, *range(1, 1400)).status is FiledStatus.STORED
    assert tab.file(store, 0).status is FiledStatus.STORED
    assert tab.file(store, 1400).status is FiledStatus.STORED
    check(world, store)


def refused(store, tab, voucher, leaves=b"") -> str:
    filed = store.file(tab.sign(voucher), leaves, tab.backbone.id).result(60)
    assert filed.status is FiledStatus.REJECTED, filed
    return filed.reason


def test_b39_the_matrix_of_double_claims(world, store):
    tab = world.tab(grant(world, store))
    tab.file(store, 0, 1, 2)
    tab.file(store, 3, 4)
    newest = tab.previous
    change = dataclasses.replace
    prior = b"p" * 32
    more = change(newest, number=3, previous=prior)
    # nonce equal, other bytes
    assert refused(store, tab, change(newest, issued_us=newest.issued_us + 1)) == (
        "equivocation"
    )
    # nonce lower, other bytes than the one filed
    lower = change(newest, number=1, previous=bytes(32))
    assert refused(store, tab, lower) == "equivocation"
    # +1 that does not name the one before; +1000 that loses servings or money
    assert refused(store, tab, more) == "chain"
    far = change(more, number=1002)
    fewer = change(far, ranges=((0, 3),), leaves=4)
    assert refused(store, tab, fewer) == "chain"
    assert refused(store, tab, change(far, amount_uc=0)) == "chain"
    # the same leaves on another tab, another backbone, under another grant
    same = b"".join(tab.leaves.values())
    assert refused(store, tab, change(far, tab=b"another!"), same) == "format"
    assert refused(store, tab, change(far, grant_hash=bytes(32))) == "grant"
    assert refused(store, tab, change(far, manifest_hash=bytes(32))) == "grant"
    assert refused(store, tab, change(far, network=Party("x").id)) == "grant"
    assert refused(store, tab, change(far, price_table_hash=bytes(32))) == "grant"
    assert refused(store, tab, change(far, profile=0)) == "chain"
    # more money than the leaves are worth
    assert refused(store, tab, change(far, amount_uc=newest.amount_uc + 1)) == "chain"
    assert refused(store, tab, change(far, rows=newest.rows + 1)) == "chain"
    assert refused(store, tab, change(far, root=bytes(32))) == "chain"
    assert held(store, AccountKind.WORKER_PENDING) == newest.amount_uc
    check(world, store)


def test_b39_another_backbone_or_period_cannot_use_it(world, store):
    tab = world.tab(grant(world, store))
    tab.file(store, 0, 1, 2)
    other = Party("other backbone")
    grant(world, store, backbone=other)
    stolen = dataclasses.replace(tab.previous, backbone=other.id)
    raw = stolen.pack()
    signed = SignedVoucher(
        raw=raw,
        worker_signature=sign_voucher(raw, tab.worker.sign),
        backbone_signature=sign_voucher(raw, other.sign),
    )
    answer = store.file(signed, b"".join(tab.leaves.values()), other.id).result(60)
    assert (answer.status, answer.reason) == (FiledStatus.REJECTED, "grant")
    world.now_us += 40 * 24 * HOUR_US  # another month
    first = tab.sign(tab.previous)
    again = store.file(first, b"", tab.backbone.id).result(60)
    assert again.status is FiledStatus.DUPLICATE
    check(world, store)


def test_b39_a_signature_is_checked_before_any_shortcut(world, store):
    tab = world.tab(grant(world, store))
    signed, block = tab.next(0, 1)
    store.file(signed, block, tab.backbone.id).result(60)
    unsigned = dataclasses.replace(signed, worker_signature=bytes(64))
    answer = store.file(unsigned, b"", tab.backbone.id).result(60)
    assert (answer.status, answer.reason) == (FiledStatus.REJECTED, "signature")


def test_leaves_that_do_not_fit_are_refused(world, store):
    tab = world.tab(grant(world, store))
    signed, _ = tab.next(0, 1)
    for block, reason in (
        (tab.leaf(0) + tab.leaf(1, amount_uc=10**6), "amount"),
        (tab.leaf(0) + tab.leaf(1, tab=b"another!"), "format"),
        (tab.leaf(0) + tab.leaf(0), "format"),
        (tab.leaf(0) + tab.leaf(1, nonce=b"otherone"), "chain"),
        (tab.leaf(0) + tab.leaf(1)[:-1], "format"),
    ):
        answer = store.file(signed, block, tab.backbone.id).result(60)
        assert (answer.status, answer.reason) == (FiledStatus.REJECTED, reason)
    right = tab.leaf(0) + tab.leaf(1)
    answer = store.file(signed, right, tab.backbone.id).result(60)
    assert answer.status is FiledStatus.STORED
    check(world, store)


def test_the_ceiling_holds_and_a_further_grant_lifts_it(world, store):
    prices = dataclasses.replace(world.prices, multipliers={})
    world.prices = prices
    tab = world.tab(grant(world, store, ceiling_uc=100, prices=prices))
    assert tab.file(store, 0, 1, 2).status == 0  # 1 + 2 + 3 rows at 10
    over = tab.file(store, 3, 4)  # 4 + 1 rows more: 110
    assert (over.status, over.reason) == (FiledStatus.REJECTED, "ceiling")
    further = grant(world, store, ceiling_uc=50, prices=prices)
    tab.grant = Grant.parse(further.raw)
    signed = tab.sign(tab.draft())
    block = tab.leaves[3] + tab.leaves[4]
    assert store.file(signed, block, tab.backbone.id).result(60).status == 0
    assert held(store, AccountKind.WORKER_PENDING) == 110
    check(world, store)


def test_a_closed_tab_takes_no_more(world, store):
    tab = world.tab(grant(world, store))
    assert tab.file(store, 0, final=True).status is FiledStatus.STORED
    late = tab.file(store, 1)
    assert (late.status, late.reason) == (FiledStatus.REJECTED, "closed")


def test_business_keys_are_unambiguous():
    key = VoucherKey(b"w" * 32, b"b" * 32, b"t" * 8, 1)
    assert len(earn_key(key, 2)) == 80
    assert earn_key(key, 2) != earn_key(key, 3)


def test_more_leaves_than_one_filing_may_bring_are_refused(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_NEW_LEAVES", 4)
    tab = world.tab(grant(world, store))
    assert tab.file(store, 0, 1, 2, 3).status is FiledStatus.STORED
    assert tab.file(store, 4, 5, 6, 7).status is FiledStatus.STORED
    filed = tab.file(store, *range(8, 13))
    assert (filed.status, filed.reason) == (FiledStatus.REJECTED, "format")
    signed = tab.sign(tab.previous)
    again = store.file(signed, bytes(79) * 5, tab.backbone.id).result(60)
    assert again.status is FiledStatus.REJECTED
    check(world, store)


def test_the_ceiling_is_looked_at_before_the_leaves(world, store):
    tab = world.tab(grant(world, store, ceiling_uc=5))
    signed, _ = tab.next(0, 1, 2)
    filed = store.file(signed, b"", tab.backbone.id).result(60)
    assert (filed.status, filed.reason) == (FiledStatus.REJECTED, "ceiling")


def test_a_closed_tab_is_known_without_its_leaves(world, tmp_path, monkeypatch):
    path = tmp_path / "pruned"
    with world.open(path) as store:
        tab = world.tab(grant(world, store))
        tab.file(store, 0)
        earlier = tab.sign(tab.previous)
        tab.file(store, 1, final=True)

    def refuse(*_):
        raise AssertionError("leaves were read")

    monkeypatch.setattr("ledger.desk.read_leaves", refuse)
    with world.open(path) as store:
        late = tab.file(store, 2)
        assert (late.status, late.reason) == (FiledStatus.REJECTED, "closed")
        again = store.file(earlier, b"", tab.worker.id).result(60)
        assert again.status is FiledStatus.DUPLICATE
