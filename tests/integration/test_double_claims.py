"""The matrix of double claims (B39): whatever is claimed twice is paid once.

Each case files something after an honest beginning and says what the ledger answers.
Afterwards the worker has earned each serving once, and the books verify.
"""

import dataclasses
import threading

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import Filed, FiledStatus
from ledger.grant import Grant
from ledger.store import Store
from ledger.voucher import SignedVoucher, Voucher
from tests.support.ledger_world import DAY_US, Party, TabSide, World, held


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path / "ledger") as store:
        yield store


def granted(world: World, store: Store, **order) -> Grant:
    return store.grant(world.order(**order)).result(60)


def file(store: Store, tab: TabSide, signed: SignedVoucher, leaves=b"") -> Filed:
    return store.file(signed, leaves, tab.backbone.id).result(60)


def answer_of(filed: Filed) -> str:
    """ "stored", "duplicate", or the reason why not."""
    if filed.status is FiledStatus.REJECTED:
        return filed.reason
    return filed.status.name.lower()


def changed(tab: TabSide, /, **changes: object) -> SignedVoucher:
    return tab.sign(dataclasses.replace(tab.previous, **changes))


def earned(store: Store) -> int:
    kinds = (
        AccountKind.WORKER_PENDING,
        AccountKind.WORKER_HELD,
        AccountKind.WORKER_AVAILABLE,
    )
    return sum(held(store, kind) for kind in kinds)


def check(world: World, store: Store, earned_uc: int) -> None:
    assert earned(store) == earned_uc
    verify_ledger(store.reader(), world.identity)


def everything(tab: TabSide) -> bytes:
    return b"".join(tab.leaves.values())


PRIOR = b"p" * 32

# What follows two honest vouchers (servings 0 to 4) of a tab, and the answer.
AFTER_TWO = {
    "the same voucher": (changed, "duplicate"),
    "the same number, later": (
        lambda tab: changed(tab, issued_us=tab.previous.issued_us + 1),
        "equivocation",
    ),
    "the same number, more money": (
        lambda tab: changed(tab, amount_uc=tab.previous.amount_uc + 1),
        "equivocation",
    ),
    "the same number, final": (lambda tab: changed(tab, final=True), "equivocation"),
    "a number that was filed, other bytes": (
        lambda tab: changed(tab, number=1, previous=bytes(32)),
        "equivocation",
    ),
    "the next number, naming another": (
        lambda tab: changed(tab, number=3, previous=PRIOR),
        "chain",
    ),
    "+1000, one serving fewer": (
        lambda tab: changed(
            tab, number=1002, previous=PRIOR, ranges=((0, 3),), leaves=4
        ),
        "chain",
    ),
    "+1000, one micro-credit more": (
        lambda tab: changed(
            tab, number=1002, previous=PRIOR, amount_uc=tab.previous.amount_uc + 1
        ),
        "chain",
    ),
    "+1000, one row more": (
        lambda tab: changed(
            tab, number=1002, previous=PRIOR, rows=tab.previous.rows + 1
        ),
        "chain",
    ),
    "+1000, 1e9 rows": (
        lambda tab: changed(tab, number=1002, previous=PRIOR, rows=10**9),
        "chain",
    ),
    "+1000, 1e9 credits": (
        lambda tab: changed(tab, number=1002, previous=PRIOR, amount_uc=10**15),
        "ceiling",
    ),
    "+1000, earlier": (
        lambda tab: changed(tab, number=1002, previous=PRIOR, issued_us=0),
        "chain",
    ),
    "another model": (lambda tab: changed(tab, manifest_hash=bytes(32)), "grant"),
    "another network": (lambda tab: changed(tab, network=Party("x").id), "grant"),
    "another price table": (
        lambda tab: changed(tab, price_table_hash=bytes(32)),
        "grant",
    ),
    "a grant that is none": (lambda tab: changed(tab, grant_hash=bytes(32)), "grant"),
    "another profile": (
        lambda tab: changed(tab, number=1002, previous=PRIOR, profile=0),
        "chain",
    ),
    "its leaves in another tab": (
        lambda tab: changed(tab, tab=b"another!", number=1, previous=bytes(32)),
        "format",
    ),
    "its leaves in another price epoch": (
        lambda tab: changed(tab, price_epoch=8, number=1, previous=bytes(32)),
        "chain",
    ),
}


def test_after_two_honest_vouchers(world, ledger_database):
    with world.open(ledger_database) as store:
        tab = world.tab(granted(world, store))
        tab.file(store, 0, 1, 2)
        tab.file(store, 3, 4)
        earned_uc = tab.previous.amount_uc
        answers = {
            case: answer_of(file(store, tab, make(tab), everything(tab)))
            for case, (make, _) in AFTER_TWO.items()
        }
        assert answers == {case: wanted for case, (_, wanted) in AFTER_TWO.items()}
        further = changed(tab, number=1002, previous=PRIOR)  # nothing new: no harm
        assert answer_of(file(store, tab, further)) == "stored"
        check(world, store, earned_uc)


def test_a_hundred_at_once_are_one(world, store):
    tab = world.tab(granted(world, store))
    signed, block = tab.next(0, 1, 2)
    answers: list[Filed] = []

    def claim() -> None:
        answers.append(file(store, tab, signed, block))

    threads = [threading.Thread(target=claim) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [each.status for each in answers]
    assert statuses.count(FiledStatus.STORED) == 1
    assert statuses.count(FiledStatus.DUPLICATE) == 99
    check(world, store, tab.previous.amount_uc)


def test_again_after_a_restart_and_in_another_period(world, ledger_database):
    with world.open(ledger_database) as store:
        tab = world.tab(granted(world, store))
        signed, block = tab.next(0, 1, final=True)
        assert answer_of(file(store, tab, signed, block)) == "stored"
    for days in (0, 1, 40, 400):
        world.now_us += days * DAY_US
        with world.open(ledger_database) as store:
            store.tend()
            assert answer_of(file(store, tab, signed, block)) == "duplicate"
            check(world, store, tab.previous.amount_uc)


def test_after_the_close_nothing_of_the_tab_is_taken(world, store):
    tab = world.tab(granted(world, store))
    tab.file(store, 0, 1)
    closed = tab.file(store, 2, final=True)
    assert closed.status is FiledStatus.STORED
    earned_uc = tab.previous.amount_uc
    later = changed(tab, number=9, previous=PRIOR, final=False)
    assert answer_of(file(store, tab, later)) == "closed"
    extended = tab.next(3, 4)
    assert answer_of(file(store, tab, *extended)) == "closed"
    check(world, store, earned_uc)


def test_two_tabs_cannot_claim_the_same_leaves(world, store):
    """A leaf names its tab; the same numbers in a second tab are other servings."""
    issued = granted(world, store)
    first, second = (world.tab(issued, tab=name) for name in (b"tab-0001", b"tab-0002"))
    first.file(store, 0, 1)
    signed, _ = second.next(0, 1)
    assert answer_of(file(store, second, signed, everything(first))) == "format"
    both = everything(second)
    assert answer_of(file(store, second, signed, both)) == "stored"
    check(world, store, first.previous.amount_uc + second.previous.amount_uc)


def test_overlapping_servings_are_counted_once(world, store):
    tab = world.tab(granted(world, store))
    tab.file(store, 0, 1, 2)
    signed, _ = tab.next(3, 4)
    assert answer_of(file(store, tab, signed, everything(tab))) == "stored"
    twice = tab.leaves[3] * 2
    more, _ = tab.next(5)
    assert answer_of(file(store, tab, more, tab.leaves[5] + twice)) == "stored"
    check(world, store, tab.previous.amount_uc)


def test_vouchers_out_of_their_order(world, store):
    tab = world.tab(granted(world, store))
    filed = [tab.next(serving) for serving in range(5)]
    newest = filed[4][0]
    assert answer_of(file(store, tab, newest, everything(tab))) == "stored"
    for signed, block in (filed[2], filed[0], filed[3], filed[1]):
        assert answer_of(file(store, tab, signed, block)) == "duplicate"
    check(world, store, tab.previous.amount_uc)


def test_another_backbone_and_another_worker_cannot_use_it(world, store):
    tab = world.tab(granted(world, store))
    tab.file(store, 0, 1)
    backbone, worker = Party("other backbone"), Party("other worker")
    granted(world, store, backbone=backbone)
    granted(world, store, worker=worker)
    for changes, parties in (
        ({"backbone": backbone.id}, (tab.worker, backbone)),
        ({"worker": worker.id}, (worker, tab.backbone)),
    ):
        stolen = dataclasses.replace(tab, worker=parties[0], backbone=parties[1])
        voucher = dataclasses.replace(tab.previous, **changes)
        filed = file(store, tab, stolen.sign(voucher), everything(tab))
        assert answer_of(filed) == "grant"
    check(world, store, tab.previous.amount_uc)


def test_the_ceiling_less_one_the_ceiling_and_one_more(world, tmp_path):
    amount_uc = 0
    for spare, wanted in ((-1, "ceiling"), (0, "stored"), (1, "stored")):
        with world.open(tmp_path / str(spare)) as store:
            trial = world.tab(granted(world, store))
            trial.serve(0, 1, 2)
            amount_uc = trial.draft().amount_uc
            tab = world.tab(
                granted(world, store, ceiling_uc=amount_uc + spare), tab=b"tab-000x"
            )
            assert answer_of(tab.file(store, 0, 1, 2)) == wanted
            check(world, store, amount_uc if wanted == "stored" else 0)


def test_a_batch_in_which_nothing_is_valid_leaves_room_for_what_is(world, store):
    tab = world.tab(granted(world, store))
    signed, block = tab.next(0, 1)
    bad = [
        (dataclasses.replace(signed, worker_signature=bytes(64)), block),
        (dataclasses.replace(signed, backbone_signature=bytes(64)), block),
        (dataclasses.replace(signed, raw=signed.raw[:-1]), block),
        (signed, bytes(len(block))),
        (changed(tab, amount_uc=1), block),
    ]
    futures = [store.file(*each, tab.backbone.id) for each in bad * 3]
    assert {future.result(60).status for future in futures} == {FiledStatus.REJECTED}
    assert answer_of(file(store, tab, signed, block)) == "stored"
    check(world, store, tab.previous.amount_uc)


def alone(signed: SignedVoucher, side: str) -> SignedVoucher:
    missing = "backbone_signature" if side == "worker" else "worker_signature"
    return dataclasses.replace(signed, **{missing: b""})


def test_the_counterparty_is_gone_and_comes_back(world, store):
    """A final of the backbone alone is held, then paid once, however often it comes."""
    tab = world.tab(granted(world, store))
    tab.file(store, 0, 1)
    before_uc = tab.previous.amount_uc
    signed, block = tab.next(2, 3, final=True)
    by_backbone, by_worker = alone(signed, "backbone"), alone(signed, "worker")
    early = store.file(by_worker, block, tab.worker.id).result(60)
    assert answer_of(early) == "signature"  # the backbone did not sign it yet
    for _ in range(2):
        held_back = file(store, tab, by_backbone, block)
        assert (held_back.status, held_back.reason) == (FiledStatus.STORED, "held")
    assert earned(store) == before_uc
    assert answer_of(store.file(by_worker, b"", tab.worker.id).result(60)) == "stored"
    for again in (by_worker, by_backbone, signed):
        assert answer_of(file(store, tab, again, block)) == "duplicate"
    check(world, store, tab.previous.amount_uc)


def test_two_finals_of_one_side_are_not_both_held(world, store):
    tab = world.tab(granted(world, store))
    signed, block = tab.next(0, 1, final=True)
    assert file(store, tab, alone(signed, "backbone"), block).reason == "held"
    other = changed(tab, issued_us=tab.previous.issued_us + 1)
    assert answer_of(file(store, tab, alone(other, "backbone"), block)) == "chain"
    check(world, store, 0)


def test_two_epochs_of_one_tab_are_two_accounts(world, store):
    """The same serving number in a newer epoch is another leaf, with its own price."""
    tab = world.tab(granted(world, store))
    tab.file(store, 0, 1)
    old_uc = tab.previous.amount_uc
    world.prices = dataclasses.replace(world.prices, epoch=8, base_uc=20)
    newer = world.tab(granted(world, store, prices=world.prices))
    signed, block = newer.next(0, 1)
    assert Voucher.parse(signed.raw).price_epoch == 8
    assert answer_of(file(store, newer, signed, everything(tab))) == "format"
    assert answer_of(file(store, newer, signed, block)) == "stored"
    check(world, store, old_uc + newer.previous.amount_uc)
