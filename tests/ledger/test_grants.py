"""The drawer of grants and prices: what a group decided is what it reads."""

from ledger import grants as module
from ledger.grant import Grant
from tests.support.ledger_world import HOUR_US, on_desk


def test_a_grant_is_found_by_hash_and_serial(world, store):
    issued = store.grant(world.order()).result(60)
    wanted = Grant.parse(issued.raw)

    def find(desk):
        grants = desk.grants
        return (
            grants.find(wanted.content_hash).issued,
            grants.by_serial(wanted.backbone, wanted.serial).issued,
            grants.find(bytes(32)),
            grants.prices(wanted.price_table_hash).content_hash,
        )

    assert on_desk(store, find) == (issued, issued, None, wanted.price_table_hash)


def test_what_falls_out_of_the_cache_is_read_again(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED", 1)
    hashes = [
        Grant.parse(store.grant(world.order()).result(60).raw).content_hash
        for _ in range(3)
    ]
    found = on_desk(store, lambda d: [d.grants.find(one).hash for one in hashes])
    assert found == hashes


def test_some_expired_ones_at_a_time_the_oldest_first(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_EXPIRED", 2)
    for _ in range(3):
        world.now_us += 1
        store.grant(world.order()).result(60)
    later = world.now_us + 25 * HOUR_US

    def expired(desk):
        found = desk.grants.expired(later)
        desk.grants.change(found[0], 0, is_open=False)
        return [state.grant.expiry_us for state in found], len(
            desk.grants.expired(later)
        )

    expiries, n_left = on_desk(store, expired)
    assert expiries == sorted(expiries)
    assert (len(expiries), n_left) == (2, 1)  # the one changed is no longer open
