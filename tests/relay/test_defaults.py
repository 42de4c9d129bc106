"""Numbers that must fit together."""

from relay import defaults
from relay.frames import DATA_HEADER, MAX_PAYLOAD_BYTES


def test_a_whole_frame_fits_into_a_message() -> None:
    assert DATA_HEADER.size + MAX_PAYLOAD_BYTES < defaults.MAX_MESSAGE_BYTES


def test_a_silent_peer_is_dead_within_45_seconds() -> None:
    """Faults B28; phones: 25 + 3 + 20 would be above, so they are not asked more."""
    silence = defaults.PING_INTERVAL_S + defaults.PING_JITTER_S
    assert silence + defaults.PING_TIMEOUT_S <= 45


def test_times_to_live_fit_into_their_field() -> None:
    assert 0 < defaults.DEFAULT_TTL_MS <= defaults.MAX_TTL_MS < 65536


def test_pings_come_before_a_proxy_cuts_an_idle_link() -> None:
    """Faults B26: 55 s and more."""
    assert defaults.PING_INTERVAL_S + defaults.PING_JITTER_S <= 25
