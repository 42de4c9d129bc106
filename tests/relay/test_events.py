"""Events are plain values."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from relay import events
from relay.frame_types import FrameClass
from relay.keys import PeerId


def test_the_union_names_every_event() -> None:
    named = {kind.__name__ for kind in get_args(events.Event)}
    assert named == set(events.__all__) - {"Event"}


def test_events_do_not_change() -> None:
    event = events.Received(PeerId(b"a" * 32), b"payload", FrameClass.BULK, 7, 12)
    with pytest.raises(FrozenInstanceError):
        event.flow = 8
    assert event == events.Received(b"a" * 32, b"payload", FrameClass.BULK, 7, 12)
