"""What a probe may be asked, and what of a report is a problem."""

import datetime as dt
from dataclasses import replace

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.probe.report import FrameFigures, ProbePlan, RelayReport
from relay.certificates import CertificateFacts
from relay.dial import Route
from relay.frame_types import NackReason

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def report(days: int = 60, *, pinned: bool = False, **frames: object) -> RelayReport:
    certificate = CertificateFacts(
        subject="relay.example",
        issuer="R11",
        not_before=NOW - dt.timedelta(days=30),
        not_after=NOW + dt.timedelta(days=days),
        key=None,
    )
    figures: dict[str, object] = {"n_sent": 3, "round_trips_s": [0.001, 0.002, 0.003]}
    return RelayReport(
        url="wss://relay.example/relay",
        route=Route(remote="192.0.2.1:443", certificate=certificate),
        welcome=None,
        is_pinned_key=pinned,
        joined_s=0.1,
        frames=FrameFigures(**(figures | frames)),
    )


@pytest.mark.parametrize(
    "numbers",
    [
        {"n_frames": 0},
        {"n_frames": 100_001},
        {"frames_s": 0},
        {"frames_s": float("nan")},
        {"frames_s": 2001},
        {"frame_bytes": 7},
        {"frame_bytes": 65_536},
        {"n_frames": 5000, "frames_s": 1.0},
    ],
)
def test_plans_out_of_range(numbers: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ProbePlan(**numbers)
    assert caught.value.advice


def test_all_is_well() -> None:
    assert report().problems(NOW) == []
    assert report().certificate_left(NOW) == dt.timedelta(days=60)
    assert report().frames.percentile_ms(0.5) == pytest.approx(2)


def test_a_certificate_that_ends_soon() -> None:
    [problem] = report(days=13).problems(NOW)
    assert "13 days" in problem
    assert report(days=13, pinned=True).problems(NOW) == []
    plain = replace(report(), route=Route(remote="127.0.0.1:80"))
    assert plain.certificate_left(NOW) is None
    assert plain.problems(NOW) == []


def test_frames_that_did_not_come_back() -> None:
    dropped = {NackReason.QUEUE_FULL: 2, NackReason.EXPIRED: 1}
    found = report(n_sent=7, dropped=dropped)
    assert (found.frames.n_dropped, found.frames.n_lost) == (3, 1)
    [problem] = found.problems(NOW)
    assert "4 of 7 frames" in problem
    assert "(2 queue full, 1 expired, 1 unanswered)" in problem


def test_no_frame_came_back() -> None:
    assert report(round_trips_s=[]).frames.percentile_ms(0.5) is None
