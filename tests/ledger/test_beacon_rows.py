"""Reading audits back: what is open, of whom, since when."""

import pytest

from ledger.beacon_rows import (
    LATE_US,
    OpeningRecord,
    audit_by_id,
    audits_where,
    failed_of_voucher,
    failed_since,
    last_beacon,
    open_audits,
    opened_rows_of,
    opening_record,
)
from ledger.beacon_words import AuditState
from ledger.errors import NotFound
from tests.support.beacons import (
    convicted,
    decide,
    draw,
    new_tab,
    rows_behind,
    word,
)
from tests.support.ledger_world import Party


def read(store, function, *args, **named):
    with store.reader().session() as connection:
        return function(connection, *args, **named)


@pytest.fixture
def drawn(world, store):
    draw(world, store)
    new_tab(world, store).file(store, *range(60))
    return draw(world, store)


def test_a_ledger_without_beacons(world, store):
    assert read(store, last_beacon) is None
    assert read(store, open_audits) == []
    assert read(store, opening_record, world.backbone.id) == OpeningRecord(0, 0)


def test_open_ones_say_what_is_to_be_computed(world, store, drawn):
    found = read(store, open_audits)
    assert [each.id for each in found] == [each.id for each in drawn]
    one = found[0]
    assert (one.manifest_hash, one.profile) == (world.manifest_hash, 2)
    assert (one.worker, one.backbone) == (world.worker.id, world.backbone.id)
    assert not one.is_late
    assert [each.id for each in read(store, open_audits, from_id=3)] == list(
        range(3, len(drawn) + 1)
    )
    decide(store, drawn[0], state=AuditState.UNASKED)
    assert len(read(store, open_audits)) == len(drawn) - 1


def test_a_voucher_that_came_late_is_known_for_it(world, store):
    draw(world, store)
    tab = new_tab(world, store)
    signed, block = tab.next(*range(30))
    world.now_us += LATE_US + 1
    store.file(signed, block, tab.worker.id).result(60)
    draw(world, store)
    assert all(each.is_late for each in read(store, open_audits))


def test_so_is_one_long_after_the_filing_before_it(world, store):
    """Its leaves may have waited for a ledger that was away."""
    draw(world, store)
    tab = new_tab(world, store)
    for serving, pause_us in ((1, LATE_US + 1), (2, LATE_US), (3, 0)):
        tab.file(store, serving)
        world.now_us += pause_us
    draw(world, store)
    found = {each.leaf.serving: each.is_late for each in read(store, open_audits)}
    assert found == {1: False, 2: True, 3: False}


def test_audits_are_found_by_whom_they_are_about(world, store, drawn):
    convicted(store, drawn[0])
    decide(
        store,
        drawn[1],
        state=AuditState.PASSED,
        words=(word("one", drawn[1].leaf),),
    )
    decide(store, drawn[2], state=AuditState.UNOPENED)
    failed = read(store, audits_where, state=AuditState.FAILED)
    assert [each.id for each in failed] == [1]
    assert len(read(store, audits_where, worker=world.worker.id)) == len(drawn)
    assert read(store, audits_where, worker=Party("nobody").id) == []
    assert len(read(store, audits_where, backbone=world.backbone.id, limit=2)) == 2
    assert read(store, opening_record, world.backbone.id) == OpeningRecord(1, 3)


def test_convictions_are_listed_and_their_rows_kept(world, store, drawn):
    caught = convicted(store, drawn[0])
    assert read(store, failed_since, world.now_us, 5) == [caught]
    assert read(store, failed_since, world.now_us + 1, 5) == []
    assert read(store, failed_of_voucher, caught.voucher_id) == [caught]
    assert read(store, opened_rows_of, 1) == rows_behind(caught.leaf)
    assert read(store, audit_by_id, 1) == caught
    with pytest.raises(NotFound, match="no rows are kept of audit 2"):
        read(store, opened_rows_of, 2)
    with pytest.raises(NotFound, match="no audit 99"):
        read(store, audit_by_id, 99)
