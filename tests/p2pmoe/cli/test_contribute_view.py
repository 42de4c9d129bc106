"""Lines, JSON and the live table say the same."""

import errno
import io
import json
import sys

import pytest

from mobile_worker.contribute.states import Facts, status_of
from mobile_worker.governor.pause import Cause, Pause
from p2pmoe.cli.contribute_view import facts_line, open_view

FACTS = Facts(
    kernel="wasm/plain",
    joined=True,
    relay_is_up=True,
    n_leased=4,
    n_held=4,
    served=12,
    served_last_minute=3,
    signed_uc=1_250_000,
    waiting_to_file=2,
    rejected=1,
    refused=5,
)


def test_figures_in_one_line() -> None:
    assert facts_line(FACTS) == (
        "12 served, 3 in the last minute, 1.250000 credits earned, "
        "2 vouchers on the way to the ledger, 1 voucher rejected by it, "
        "5 dispatches refused"
    )


def test_piped_a_line_at_each_change_and_once_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = status_of(FACTS, 0.0)
    with open_view(as_json=False) as view:
        view(status_of(Facts(), 0.0), Facts())
        for _ in range(121):
            view(status, FACTS)
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert lines[0] == "starting: reading its key"
    assert lines[1].startswith("ready: holds 4 experts, waiting for work (12 served")
    assert len(lines) == 1 + 3
    assert shown.out == ""


def test_json_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view(as_json=True) as view:
        view(status_of(FACTS, 0.0), FACTS)
    shown = capsys.readouterr()
    event = json.loads(shown.out)
    assert event["kernel"] == "wasm/plain"
    assert (event["state"], event["experts_held"], event["signed_uc"]) == (
        "ready",
        4,
        1_250_000,
    )
    assert shown.err == ""


def test_on_a_terminal_a_live_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with open_view(as_json=False) as view:
        view(status_of(FACTS, 0.0), FACTS)
    shown = capsys.readouterr().err
    for part in (
        "ready: holds 4 experts",
        "connected",
        "4 of 4 experts",
        "3 expert calls in the last minute",
        "1.250000",
        "Ctrl-C finishes running work",
        "p2pmoe status --page",
    ):
        assert part in shown


def test_while_draining_it_says_how_to_end_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    facts = Facts(draining="stopped by its [user]", joined=True)
    with open_view(as_json=False) as view:
        view(status_of(facts, 0.0), facts)
    shown = capsys.readouterr().err
    assert "not connected" in shown
    assert "draining: stopped by its [user]" in shown
    assert "Ctrl-C again ends at once" in shown
    ended = shown[shown.rindex("state") :]
    assert ended.split()[:2] == ["state", "ended"]
    assert "Ctrl-C" not in ended


def test_a_pause_says_how_to_override_it(capsys: pytest.CaptureFixture[str]) -> None:
    pause = Pause(cause=Cause.HOT, reason="91 °C > 85 °C", ends_when="it is cooler")
    facts = Facts(joined=True, relay_is_up=True, pauses=(pause,))
    with open_view(as_json=False) as view:
        view(status_of(facts, 0.0), facts)
    assert capsys.readouterr().err == (
        "paused hot: 91 °C > 85 °C; `p2pmoe resume` overrides it once\n"
    )


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_that_cannot_be_written_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", FullDisk())
    monkeypatch.setattr(sys, "stdout", FullDisk())
    with open_view(as_json=as_json) as view:
        view(status_of(FACTS, 0.0), FACTS)
