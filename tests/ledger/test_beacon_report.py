"""Records of workers and backbones."""

from ledger.beacon_report import audit_records
from ledger.beacon_words import AuditState
from tests.support.beacons import convicted, decide, draw, new_tab


def test_each_peers_audits_are_added_up(world, store):
    draw(world, store)
    new_tab(world, store).file(store, *range(60))
    drawn = draw(world, store)
    convicted(store, drawn[0])
    decide(store, drawn[1], state=AuditState.UNOPENED)
    with store.reader().session() as connection:
        [of_worker] = audit_records(connection, by_backbone=False)
        [of_backbone] = audit_records(connection, by_backbone=True)
    assert (of_worker.peer, of_backbone.peer) == (world.worker.id, world.backbone.id)
    assert of_worker.counts == of_backbone.counts
    assert of_worker.n_all == len(drawn)
    assert of_worker.of(AuditState.FAILED) == of_worker.of(AuditState.UNOPENED) == 1
    assert of_worker.of(AuditState.PASSED) == 0
