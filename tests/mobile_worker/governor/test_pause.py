"""Pauses are values: one cause, its words, its end and its override."""

from mobile_worker.governor.pause import OVERRIDE, Cause, Pause


def test_a_pause_names_how_it_is_overridden() -> None:
    pause = Pause(cause=Cause.BATTERY, reason="battery 43 % < 60 %", ends_when="mains")
    assert pause.override == OVERRIDE == "p2pmoe resume"
    assert pause.ends_at is None


def test_what_a_person_asked_for_is_told_first() -> None:
    assert next(iter(Cause)) is Cause.USER
