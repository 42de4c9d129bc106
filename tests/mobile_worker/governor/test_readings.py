"""Readings that say nothing."""

from mobile_worker.governor.readings import NOTHING_KNOWN, Power


def test_nothing_known_claims_nothing() -> None:
    assert NOTHING_KNOWN.power is Power.UNKNOWN
    known = [getattr(NOTHING_KNOWN, name) for name in NOTHING_KNOWN.__slots__]
    assert [value for value in known if value is not None] == [Power.UNKNOWN]
