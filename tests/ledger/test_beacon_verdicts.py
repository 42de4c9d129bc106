"""What audits cost: a convicted worker its voucher and holdbacks, others nothing."""

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.beacon_rows import convictions_of, passes_of
from ledger.beacon_verdicts import Finding, refuse_convicted, shrunk_ceiling
from ledger.beacon_words import AuditState
from ledger.claims import FiledStatus
from ledger.errors import DifferenceFound, GrantRefused, NotFound
from tests.support.beacons import (
    AUDIT_TERMS,
    audits,
    convicted,
    decide,
    draw,
    failed,
    new_tab,
    word,
)
from tests.support.dispute_papers import claim_of
from tests.support.disputes import opened
from tests.support.ledger_world import HOUR_US, Party, held, on_desk


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=AUDIT_TERMS) as store:
        draw(world, store)
        yield store
        verify_ledger(store.reader(), world.identity)


def filed(world, store, name="tab-0001", *, final=False, worker=None):
    tab = new_tab(world, store, name, worker)
    tab.file(store, *range(30), final=final)
    return tab, draw(world, store)


def balances_of(store):
    kinds = ("pending", "held", "available")
    return {kind: held(store, AccountKind(f"worker_{kind}")) for kind in kinds}


def test_a_passed_audit_costs_nothing(world, store):
    _, found = filed(world, store)
    before = balances_of(store)
    said = (word("one", found[0].leaf),)
    passed = decide(store, found[0], state=AuditState.PASSED, words=said)
    assert passed.state is AuditState.PASSED
    assert passed.words == said
    assert balances_of(store) == before
    with store.reader().session() as connection:
        assert passes_of(connection, world.worker.id, world.now_us + 1) == 1


def test_a_conviction_closes_the_key_and_takes_everything_of_it(world, store):
    tab, found = filed(world, store)
    deposit = held(store, AccountKind.CLIENT_DEPOSIT)
    reserved = held(store, AccountKind.CLIENT_RESERVED)
    amount_uc = tab.previous.amount_uc
    caught = convicted(store, found[0])
    assert (caught.state, caught.is_reversed) == (AuditState.FAILED, True)
    assert balances_of(store) == {"pending": 0, "held": 0, "available": 0}
    back_uc = amount_uc - amount_uc // 10
    assert held(store, AccountKind.CLIENT_DEPOSIT) == deposit + back_uc
    assert held(store, AccountKind.CLIENT_RESERVED) == reserved
    assert held(store, AccountKind.PENALTY) == amount_uc // 10
    later = tab.file(store, 31)
    assert (later.status, later.reason) == (FiledStatus.REJECTED, "closed")


def test_every_holdback_of_the_worker_goes_and_no_other_one(world, store):
    filed(world, store, "tab-0001", final=True)
    filed(world, store, "tab-0002", final=True, worker=Party("honest"))
    _, found = filed(world, store, "tab-0003")
    kept_uc = held(store, AccountKind.WORKER_HELD) // 2
    assert convicted(store, found[0])
    assert held(store, AccountKind.WORKER_HELD) == kept_uc > 0


def test_what_was_released_stays_paid(world, store):
    _, found = filed(world, store, final=True)
    world.now_us += 49 * HOUR_US
    store.tend()
    available = balances_of(store)["available"]
    caught = convicted(store, found[0])
    assert (caught.state, caught.is_reversed) == (AuditState.FAILED, False)
    assert balances_of(store) == {"pending": 0, "held": 0, "available": available}


def test_a_second_conviction_of_one_voucher_takes_nothing_twice(world, store):
    _, found = filed(world, store)
    first, second = (convicted(store, each) for each in found[:2])
    assert (first.is_reversed, second.is_reversed) == (True, False)
    assert held(store, AccountKind.CLIENT_RESERVED) >= 0
    with store.reader().session() as connection:
        assert convictions_of(connection, world.worker.id) == 1


def test_a_disputed_voucher_is_reversed_and_its_dispute_ends(world, store):
    tab, found = filed(world, store, final=True)
    opened(store, claim_of(tab, found[1].leaf.serving), tab.backbone)
    assert convicted(store, found[0]).is_reversed
    states = on_desk(
        store,
        lambda desk: desk.connection.exec_driver_sql(
            "select state, verdict from dispute"
        ).all(),
    )
    assert states == [("dismissed", "voucher reversed by audit 1")]


def test_a_decided_audit_stays_as_it_is(world, store):
    _, found = filed(world, store)
    decide(store, found[0], state=AuditState.UNOPENED, detail="gone")
    assert convicted(store, found[0]) is None
    assert audits(store)[0].state is AuditState.UNOPENED


@pytest.mark.parametrize("state", ["unopened", "unjudged", "unasked"])
def test_silence_costs_the_worker_nothing(world, store, state):
    _, found = filed(world, store)
    before = balances_of(store)
    decide(store, found[0], state=AuditState(state))
    assert balances_of(store) == before


def test_a_finding_must_follow_from_its_words(world, store):
    _, found = filed(world, store)
    one = found[0]
    wrong = failed(one)
    for change in (
        {"state": AuditState.OPEN},
        {"state": AuditState.PASSED},
        {"state": AuditState.UNJUDGED},
        {"words": wrong["words"][:1]},
        {"words": (wrong["words"][0],) * 2},
        {"words": (wrong["words"][0], word("worker", one.leaf, says=bytes(16)))},
        {"opened": b"other rows"},
    ):
        with pytest.raises(DifferenceFound):
            decide(store, one, **{**wrong, **change})
    with pytest.raises(NotFound):
        store.decide_audit(Finding(audit=99, state=AuditState.UNASKED)).result(60)
    assert audits(store)[0].state is AuditState.OPEN


def test_two_vouchers_and_the_key_gets_no_grant(world, store):
    for name in ("tab-0001", "tab-0002"):
        _, found = filed(world, store, name)
        on_desk(store, lambda desk: refuse_convicted(desk, world.worker.id))
        convicted(store, found[0])
    with pytest.raises(GrantRefused, match="its key is refused"):
        store.grant(world.order()).result(60)
    store.grant(world.order(worker=Party("honest"))).result(60)


def test_passes_begin_anew_after_a_conviction(world, store):
    _, found = filed(world, store)
    said = (word("one", found[0].leaf),)
    decide(store, found[0], state=AuditState.PASSED, words=said)
    world.now_us += 1
    convicted(store, found[1])
    with store.reader().session() as connection:
        assert passes_of(connection, world.worker.id, world.now_us + 1) == 0


def test_who_does_not_open_gets_smaller_grants(world, store):
    tab = new_tab(world, store)
    ceilings = []
    for at in range(5):
        tab.file(store, *range(at * 100, at * 100 + 100))
        for each in draw(world, store)[:10]:
            decide(store, each, state=AuditState.UNOPENED)
        ceilings.append(
            on_desk(store, lambda desk: shrunk_ceiling(desk, world.backbone.id, 1_000))
        )
    assert ceilings == [1_000, 500, 250, 125, 62]
    other = Party("other backbone")
    assert on_desk(store, lambda desk: shrunk_ceiling(desk, other.id, 7)) == 7
