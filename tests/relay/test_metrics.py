"""Counters and their page."""

from relay.frame_types import GoneReason, NackReason
from relay.metrics import Counters, Gauges, render_metrics

GAUGES = Gauges(peers=3, parked=1, connections=5, queued_bytes=700)


def test_settled_frames_are_the_sum_of_all_fates() -> None:
    counters = Counters(accepted=10, delivered=4, lost_at_close=1)
    counters.nacked[NackReason.QUEUE_FULL] = 2
    counters.counted[NackReason.EXPIRED] = 3
    assert counters.n_settled == 10


def test_the_page_follows_the_exposition_format() -> None:
    counters = Counters(accepted=10, delivered=9)
    counters.nacked[NackReason.QUEUE_FULL] = 1
    counters.refused["tls"] = 2
    counters.left[GoneReason.SLOW] = 4
    counters.delays[3] = 5
    page = render_metrics(counters, GAUGES)
    lines = page.splitlines()
    assert "p2pmoe_relay_frames_accepted_total 10" in lines
    assert 'p2pmoe_relay_frames_nacked_total{reason="queue_full"} 1' in lines
    assert 'p2pmoe_relay_refused_total{cause="tls"} 2' in lines
    assert 'p2pmoe_relay_peers_left_total{reason="slow"} 4' in lines
    assert 'p2pmoe_relay_writes_by_delay_total{below_ms="8"} 5' in lines
    assert "# TYPE p2pmoe_relay_queued_bytes gauge" in lines
    assert "p2pmoe_relay_peers 3" in lines
    assert page.endswith("\n")


def test_each_name_has_its_type_once_and_before_its_samples() -> None:
    page = render_metrics(Counters(), GAUGES)
    seen: list[str] = []
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            seen.append(line.split()[2])
        else:
            assert line.split("{")[0].split(" ")[0] == seen[-1]
    assert len(seen) == len(set(seen))
