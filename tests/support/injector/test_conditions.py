"""The presets have the design's figures."""

import pytest

from tests.support.injector.conditions import OFFICE, PRESETS, Path, distance


def test_the_office_link_is_the_measured_one():
    assert OFFICE.up.delay_s + OFFICE.down.delay_s == pytest.approx(0.0034)
    assert OFFICE.down.bytes_s / OFFICE.up.bytes_s == pytest.approx(1.8, abs=0.05)


def test_presets_go_from_far_to_near():
    assert set(PRESETS) == {"office", "phone", "hub"}
    rates = [PRESETS[name].up.bytes_s for name in ("phone", "office", "hub")]
    delays = [PRESETS[name].up.delay_s for name in ("hub", "office", "phone")]
    assert rates == sorted(rates)
    assert delays == sorted(delays)


def test_a_distance_is_the_same_both_ways():
    assert distance(0.01).up == distance(0.01).down == Path(delay_s=0.01)
