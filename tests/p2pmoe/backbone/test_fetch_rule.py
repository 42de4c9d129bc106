"""An expert is fetched if measured use pays for it, or to find out."""

from p2pmoe.backbone.fetch_rule import FetchRule, fetch_rule
from p2pmoe.backbone.path_times import Path, PathTimes


def test_use_must_pay_for_the_fetch() -> None:
    rule = FetchRule(fetch_s=2.0, saved_s=0.1)
    assert rule.pays(29)  # 29 * ln 2 * 0.1 s = 2.01 s
    assert not rule.pays(28)
    assert not FetchRule(fetch_s=2.0, saved_s=0.0).pays(1e9)


def test_what_was_never_measured_is_tried() -> None:
    assert FetchRule().pays(0)
    here, remote = PathTimes(), PathTimes()
    assert fetch_rule(here, None).pays(0)
    here.add(Path.FETCH, 2.0)
    assert fetch_rule(here, remote).pays(0)


def test_the_quickest_remote_path_is_what_a_fetch_saves() -> None:
    here, remote = PathTimes(), PathTimes()
    here.add(Path.FETCH, 2.0)
    here.add(Path.RAM, 0.01)
    remote.add(Path.EDGE, 0.5)
    remote.add(Path.HUB, 0.11)
    rule = fetch_rule(here, remote)
    assert rule.fetch_s == 2.0
    assert rule.saved_s is not None
    assert abs(rule.saved_s - 0.1) < 1e-9
    remote.add(Path.HUB, 0.0)
    assert (fetch_rule(PathTimes(), remote).saved_s or 0.0) >= 0.0
