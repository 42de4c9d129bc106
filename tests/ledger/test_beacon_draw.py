"""Beacons are cast over what was filed before, once, and choose what they must."""

from ledger.audit import verify_ledger
from ledger.beacon_words import AuditState
from ledger.leaf import Leaf
from tests.support.beacons import decide, draw, new_tab, word
from tests.support.ledger_world import on_desk


def cast(world, store):
    world.now_us += 1_000_000
    return store.cast_beacon().result(60)


def test_the_first_beacon_covers_nothing(world, store):
    tab = new_tab(world, store)
    tab.file(store, *range(50))
    assert draw(world, store) == []
    tab.file(store, *range(50, 60))
    assert {each.leaf.serving for each in draw(world, store)} <= set(range(50, 60))
    verify_ledger(store.reader(), world.identity)


def test_a_beacon_is_cast_only_where_something_was_filed(world, store):
    cast(world, store)
    tab = new_tab(world, store)
    tab.file(store, 1)
    first = cast(world, store)
    assert (first.n_audits, first.is_done) == (1, True)
    assert cast(world, store).n_audits == 0
    tab.file(store, 2)
    assert cast(world, store).first_id == 2
    report = verify_ledger(store.reader(), world.identity)
    assert (report.beacons, report.audits) == (3, 2)


def test_what_is_filed_at_the_very_instant_waits_for_the_next(world, store):
    cast(world, store)
    tab = new_tab(world, store)
    tab.file(store, 1)
    assert store.cast_beacon().result(60).n_audits == 0
    assert cast(world, store).n_audits == 1


def test_an_audit_names_a_leaf_of_its_voucher(world, store):
    cast(world, store)
    tab = new_tab(world, store)
    filed = tab.file(store, *range(100))
    found = draw(world, store)
    n_rows = sum(Leaf.parse(raw).rows for raw in tab.leaves.values())
    assert n_rows // 20 <= len(found) + 3  # a leaf may have several of the drawn rows
    for each in found:
        assert each.leaf.pack() == tab.leaves[each.leaf.serving]
        assert each.voucher_hash == filed.voucher_hash
        assert (each.worker, each.backbone) == (world.worker.id, world.backbone.id)
        assert each.state is AuditState.OPEN
    verify_ledger(store.reader(), world.identity)


def test_rates_fall_as_a_worker_passes(world, store, monkeypatch):
    monkeypatch.setattr("ledger.beacon.NEWCOMER_PASSES", 3)
    cast(world, store)
    tab = new_tab(world, store)
    tab.file(store, *range(60))
    for each in draw(world, store)[:3]:
        said = (word("one", each.leaf),)
        decide(store, each, state=AuditState.PASSED, words=said)
    tab.file(store, *range(60, 140))  # 200 rows
    assert len(draw(world, store)) == 2
    verify_ledger(store.reader(), world.identity)


def test_no_filing_has_more_than_so_many(world, store, monkeypatch):
    monkeypatch.setattr("ledger.beacon.MAX_OF_FILING", 3)
    cast(world, store)
    tab = new_tab(world, store)
    tab.file(store, *range(80))  # 200 rows
    assert 2 <= len(draw(world, store)) <= 3
    verify_ledger(store.reader(), world.identity)


def test_beacons_name_the_log_once_it_has_a_head(world, store):
    cast(world, store)
    tab = new_tab(world, store)
    tab.file(store, 1, final=True)
    store.tend()
    cast(world, store)
    sizes = on_desk(
        store,
        lambda desk: list(
            desk.connection.exec_driver_sql(
                "select log_size from beacon order by number"
            ).scalars()
        ),
    )
    assert sizes == [0, 1]


def test_the_head_of_an_empty_log_is_one(world, store):
    store.tend()
    cast(world, store)
    new_tab(world, store).file(store, 1)
    cast(world, store)
    assert verify_ledger(store.reader(), world.identity).beacons == 2


def test_there_may_be_more_than_one_beacon_takes(world, store, monkeypatch):
    cast(world, store)
    monkeypatch.setattr("ledger.beacon_draw._MAX_FILINGS", 2)
    tab = new_tab(world, store)
    for serving in range(5):
        world.now_us += 1
        tab.file(store, serving)
    parts = [cast(world, store) for _ in range(3)]
    assert [part.n_audits for part in parts] == [2, 2, 1]
    assert [part.is_done for part in parts] == [False, False, True]
    verify_ledger(store.reader(), world.identity)
