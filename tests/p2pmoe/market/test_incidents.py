from p2pmoe.market.incidents import BACKBONE_MARGIN_S, RELAY_MARGIN_S, Incidents
from relay.keys import PeerId

B, C = PeerId(b"b" * 32), PeerId(b"c" * 32)


def test_an_outage_covers_some_seconds_before_and_after() -> None:
    found = Incidents()
    assert not found.covers(100.0)
    window = found.relay_is_away(100.0)
    assert window.covers(100.0 - RELAY_MARGIN_S, None)
    assert found.covers(5000.0)
    found.relay_is_back(200.0)
    assert found.covers(100.0 - RELAY_MARGIN_S)
    assert found.covers(200.0 + RELAY_MARGIN_S)
    assert not found.covers(200.1 + RELAY_MARGIN_S)
    found.relay_is_back(300.0)  # it had not been away
    assert not found.covers(300.0)


def test_an_outage_seen_twice_is_one() -> None:
    found = Incidents()
    found.relay_is_away(100.0)
    assert found.relay_is_away(150.0).start == 100.0 - RELAY_MARGIN_S


def test_a_backbone_that_erred_spoils_its_own_word_alone() -> None:
    found = Incidents()
    window = found.backbone_erred(B, 10_000.0)
    assert found.covers(10_000.0 - BACKBONE_MARGIN_S, B)
    assert not found.covers(10_000.0, C)
    assert not found.covers(10_000.0)
    assert window.covers(10_000.0, B)
    assert not window.covers(10_000.0, C)


def test_a_backbone_that_is_lost_makes_no_window_shorter() -> None:
    found = Incidents()
    found.backbone_erred(B, 10_000.0)
    window = found.backbone_is_away(B, 10_100.0)
    assert (window.start, window.end) == (10_070.0, 10_130.0)
    assert found.covers(10_000.0 + BACKBONE_MARGIN_S, B)
    found.backbone_is_away(C, 10_000.0)
    assert found.covers(9_970.0, C)
    assert not found.covers(9_969.0, C)


def test_many_backbones_that_err_push_no_outage_out() -> None:
    found = Incidents()
    found.most_were_silent(1.0, 2.0)
    for n in range(3000):
        found.backbone_erred(PeerId(n.to_bytes(32, "big")), 50_000.0)
    assert found.covers(1.5)
    assert found.covers(50_000.0, PeerId((2999).to_bytes(32, "big")))
    assert not found.covers(50_000.0, PeerId((0).to_bytes(32, "big")))
