"""There is a prefetch where there are workers and room, and else none."""

from dataclasses import replace
from types import SimpleNamespace

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.path_times import Path, PathTimes
from p2pmoe.backbone.places import Network
from p2pmoe.backbone.prefetch.fetch_work import Fetching
from p2pmoe.backbone.prefetch.opening import open_prefetch
from p2pmoe.config import DiskPolicy
from tests.support.backbone_model import POCKET, local_side, manifest_of

FETCHING = Fetching(
    start=lambda work: None, stop=lambda work: None, manifest=manifest_of(POCKET)
)
NETWORK = Network(
    fleet=SimpleNamespace(holders=lambda layer: {}),
    submit=lambda work: None,
    report=lambda ticket, passed: None,
    fetching=FETCHING,
)


def test_without_workers_or_room_there_is_none() -> None:
    places = local_side(POCKET).places()
    assert places.prefetch is None
    assert open_prefetch(places, 1 << 20) is None
    alone = replace(places, network=replace(NETWORK, fetching=None))
    assert open_prefetch(alone, 1 << 20) is None
    assert open_prefetch(replace(places, network=NETWORK), 0) is None


def test_what_the_disk_has_is_not_fetched_to_be_kept() -> None:
    side = local_side(POCKET, profile=Profile.R8)
    for policy in DiskPolicy:
        places = replace(side.places(), network=NETWORK, policy=policy)
        prefetch = open_prefetch(places, 1 << 20)
        assert prefetch is not None
        parts = prefetch._parts
        assert parts.pays(1.0) is (policy is DiskPolicy.OFF)
        assert parts.weighs_disk is (policy is DiskPolicy.TIER)


def test_what_is_kept_must_pay_by_measured_times() -> None:
    side = local_side(POCKET)
    places = replace(side.places(), network=NETWORK, policy=DiskPolicy.OFF)
    remote = PathTimes()
    prefetch = open_prefetch(places, 1 << 20, lambda: remote)
    assert prefetch is not None
    remote.add(Path.EDGE, 0.1)
    side.cost.times.add(Path.FETCH, 0.5)
    assert not prefetch._parts.pays(1.0)
    assert prefetch._parts.pays(100.0)
