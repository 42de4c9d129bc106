"""Five lines, the same figures as JSON, nothing guessed."""

import json

from mobile_worker.contribute.states import Facts, Status, Use, status_of
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.readings import Power, Readings
from p2pmoe.contributor.report import WorkerReport, report_of

NAMES = ["state", "relay", "served", "earned", "uses"]


def working() -> Facts:
    return Facts(
        joined=True,
        relay_is_up=True,
        relay_detail="da24f220",
        relay_heard_s=2.04,
        kernel="wasm/plain",
        n_leased=12,
        n_held=12,
        served=900,
        served_last_minute=41,
        served_today=2_000,
        accepted=900,
        signed=880,
        signed_uc=1_250_000,
        earned_today_uc=2_500_000,
        waiting_to_file=2,
        rejected=3,
        rejected_by_reason={"grant": 2, "closed": 1},
        refused=5,
        use=Use(
            cpus=0.71,
            max_cpus=1,
            memory_bytes=96 << 20,
            max_memory_bytes=512 << 20,
            disk_bytes=120 << 20,
            max_disk_bytes=2048 << 20,
            up_bytes_s=125_000.0,
            max_up_bytes_s=625_000.0,
            day_bytes=40 << 20,
            max_day_bytes=1000 << 20,
        ),
        readings=Readings(power=Power.MAINS, battery_percent=98, temperature_c=51.6),
    )


def of(facts: Facts, now: float = 100.0, since: float = 0.0) -> WorkerReport:
    status = status_of(facts, since)
    return report_of(status, facts, now)


def text(report: WorkerReport, name: str) -> str:
    return next(line.text for line in report.lines if line.name == name)


def test_five_lines_with_every_figure() -> None:
    report = of(working())
    assert [line.name for line in report.lines] == NAMES
    assert text(report, "state") == (
        "ready: holds 12 experts, waiting for work "
        "(for 1 min 40 s; ends when a backbone sends work)"
    )
    assert text(report, "relay") == "connected to da24f220, heard 2 s ago"
    assert text(report, "served") == (
        "41 expert calls in the last minute, 2000 today, 900 since its start, "
        "5 dispatches refused"
    )
    assert text(report, "earned") == (
        "2.500000 credits today, 1.250000 since its start, 20 calls not signed yet, "
        "2 vouchers on the way to the ledger, "
        "3 vouchers rejected by it (1 closed, 2 grant)"
    )
    assert text(report, "uses") == (
        "12 of 12 experts, memory 96 MB of 512 MB, disk 120 MB of 2048 MB, "
        "cpu 0.7 of 1, up 1.0 Mbit/s of 5.0 Mbit/s, today 40 MB of 1000 MB, "
        "wasm/plain, on mains, battery 98 %, 52 °C"
    )


def test_a_pause_says_why_what_ends_it_and_how_to_override_it() -> None:
    facts = working()
    pause = Pause(
        cause=Cause.BATTERY, reason="battery 43 % < 60 %", ends_when="it is charged"
    )
    facts.pauses = (pause,)
    report = of(facts)
    assert text(report, "state") == (
        "paused battery: battery 43 % < 60 % (for 1 min 40 s; ends when it is charged; "
        "`p2pmoe resume` overrides it once)"
    )
    assert report.fields["pauses"] == ["battery"]
    assert report.fields["override"] == "p2pmoe resume"


def test_what_ends_it_is_a_sentence() -> None:
    facts = working()
    for when, said in (
        ("at 22:00, or when it is resumed", "; ends at 22:00, or when it is resumed;"),
        ("others need less", "; ends when others need less;"),
        ("never", "; does not end;"),
        ("", "(for 1 min 40 s; `p2pmoe resume` ends it)"),
    ):
        pause = Pause(cause=Cause.USER, reason="by its user", ends_when=when)
        facts.pauses = (pause,)
        assert said in text(of(facts), "state")


def test_what_is_not_known_is_left_out() -> None:
    report = of(Facts(), now=0.0)
    assert text(report, "state") == "starting: reading its key"
    assert text(report, "relay") == "not joined yet"
    assert text(report, "uses") == (
        "0 of 0 experts, memory 0 MB, disk 0 MB, cpu 0.0, up 0.0 Mbit/s, today 0 MB"
    )
    lost = Facts(joined=True, relay_detail="timed out")
    assert text(of(lost), "relay") == "not connected: timed out"


def test_it_is_json_and_never_older_than_nothing() -> None:
    status = Status(state=status_of(Facts(), 0.0).state, reason="", since=50.0)
    document = report_of(status, working(), 10.0).as_json()
    assert document["for_s"] == 0.0
    back = json.loads(json.dumps(document))
    assert [name for name, _ in back["lines"]] == NAMES
    assert back["use"]["cpus"] == 0.71
    assert back["readings"]["power"] == "mains"
