"""Who is named as a holder: those that can be asked, hubs first, never the asker."""

import dataclasses
from collections import Counter

from mobile_worker.messages.blobs import BlobError, Get, unpack_holders
from mobile_worker.shards.desk import holders_blob, placement_blob
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.servings import Means
from p2pmoe.backbone.who_holds import WhoHolds
from relay.keys import PeerId
from relay.tokens import Role
from tests.p2pmoe.backbone.test_market_client import placement
from tests.support.market_peers import identity_of, make_manifest, record_of

MANIFEST = make_manifest(n_layers=2, n_experts=2)
FIRST = MANIFEST.experts[0]
NAMES = {identity_of(f"w{n}").peer_id: f"w{n}" for n in range(12)}


def fleet_of(*names: str, hubs: int = 0) -> Fleet:
    fleet = Fleet()
    peers = [identity_of(name).peer_id for name in names]
    tiers = [Tier.HUB if n < hubs else Tier.EDGE for n in range(len(peers))]
    placed = {p: (t, [FIRST.expert]) for p, t in zip(peers, tiers, strict=True)}
    fleet.place(placed)
    for peer in peers:
        fleet.greeting(peer, 0.0)
        fleet.greeted(peer)
        fleet.set_means(peer, Means.ROOM)
    return fleet


def named(who: WhoHolds, asker: str, digest: bytes = FIRST.digest) -> list[str]:
    get = Get(request=1, digest=digest, offset=0, length=0)
    blob = who.blob(identity_of(asker).peer_id, get)
    assert (blob.request, blob.error) == (1, BlobError.HOLDERS)
    known = {record(peer).encoded: name for peer, name in NAMES.items()}
    return [known[raw] for raw in unpack_holders(blob.body)]


def nothing(_peer: PeerId) -> None:
    return None


def record(peer: PeerId):
    name = NAMES.get(peer)
    return None if name is None else record_of(identity_of(name), Role.WORKER)


def test_hubs_come_first_and_the_asker_is_left_out() -> None:
    fleet = fleet_of("w0", "w1", "w2", "w3", hubs=2)
    who = WhoHolds(MANIFEST, fleet, record, nothing)
    order = named(who, "w3")
    assert set(order[:2]) == {"w0", "w1"}
    assert order[2:] == ["w2"]
    fleet.lost(identity_of("w0").peer_id, 0.0)
    assert named(who, "w3") == ["w1", "w2"]


def test_what_is_unknown_has_no_holders() -> None:
    who = WhoHolds(
        MANIFEST, fleet_of("w0", "somebody without a record"), record, nothing
    )
    assert named(who, "w1", bytes(32)) == []
    assert named(who, "w1", MANIFEST.experts[1].digest) == []
    assert named(who, "w1") == ["w0"]


def test_those_who_join_together_are_sent_to_different_holders() -> None:
    who = WhoHolds(MANIFEST, fleet_of(*NAMES.values()), record, nothing)
    first = Counter(named(who, f"newcomer {n}")[0] for n in range(120))
    assert len(first) == 12
    assert max(first.values()) < 30


def test_who_joined_without_the_market_is_told_the_whole_picture() -> None:
    name, joiner = manifest_hash(MANIFEST), identity_of("joiner").peer_id
    picture = dataclasses.replace(placement(1), manifest_hash=name)
    who = WhoHolds(
        MANIFEST, Fleet(), record, lambda peer: picture if peer == joiner else None
    )
    get = Get(request=1, digest=name, offset=0, length=0)
    assert who.blob(joiner, get) == placement_blob(get, picture)
    assert who.blob(identity_of("other").peer_id, get) == holders_blob(get, ())
