"""Everything that may be asked of a worker, and what is refused with its name."""

import re
from pathlib import Path

import pytest

from mobile_worker.contribute.figures import Figures
from mobile_worker.shards.store import ShardStore
from p2pmoe.contributor import desk as desk_module
from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.errors import ControlRefused
from tests.support.worker_controls import worker_controls


def test_the_report_is_that_of_now() -> None:
    controls, _, _ = worker_controls()
    told = Desk(controls=controls).operate("status", {})
    assert (told["state"], told["for_s"]) == ("ready", 60.0)
    assert told["worker"] == bytes(range(32)).hex()
    assert told["lines"]


@pytest.mark.parametrize("for_s", [None, 1, 1800.5])
def test_a_pause_is_told_as_it_holds(for_s: float | None) -> None:
    controls, governor, _ = worker_controls()
    desk = Desk(controls=controls)
    told = desk.operate("pause", {} if for_s is None else {"for_s": for_s})
    assert governor.wishes == [("pause", for_s)]
    assert (told["state"], told["for_s"]) == ("paused_user", 0.0)
    assert desk.operate("resume", {})["state"] == "ready"


def test_a_drain_is_no_pause_and_a_stop_is_at_once() -> None:
    controls, governor, ended = worker_controls()
    desk = Desk(controls=controls)
    desk.operate("pause", {})
    told = desk.operate("drain", {})
    assert (told["state"], told["reason"]) == ("draining", "stopped by its user")
    assert controls.stop.is_set()
    assert governor.facts.pauses
    assert desk.operate("stop", {}) == {}
    assert ended == ["end"]


def test_limits_are_shown_and_changed() -> None:
    controls, governor, _ = worker_controls()
    desk = Desk(controls=controls)
    shown = desk.operate("limits", {})["limits"]
    assert {"limit", "value", "meaning"} == set(shown[0])
    told = desk.operate("set-limits", {"limits": {"cpus": 2, "hours": "22:00-07:00"}})
    values = {row["limit"]: row["value"] for row in told["limits"]}
    assert (values["cpus"], values["hours"]) == ("2", "22:00-07:00")
    assert governor.limits.cpus == 2


def test_a_limit_that_cannot_be_changes_nothing() -> None:
    controls, governor, _ = worker_controls()
    desk, before = Desk(controls=controls), governor.limits
    for wrong in ({"limits": {"cpus": "many"}}, {"limits": {"colour": "red"}}):
        with pytest.raises(ControlRefused) as caught:
            desk.operate("set-limits", wrong)
        assert caught.value.advice
    for wrong in ({}, {"limits": []}, {"limits": {}}):
        with pytest.raises(ControlRefused, match="no object"):
            desk.operate("set-limits", wrong)
    governor.refuses = "the limits cannot be written"
    with pytest.raises(ControlRefused, match="cannot be written"):
        desk.operate("set-limits", {"limits": {"cpus": "2"}})
    assert governor.limits == before


@pytest.mark.parametrize(
    ("operation", "params", "reason"),
    [
        ("explode", {}, "no operation 'explode'"),
        ("status", {"x": 1}, "takes no 'x'"),
        ("pause", {"for_s": "30m"}, "no number"),
        ("pause", {"for_s": True}, "no number"),
        ("pause", {"for_s": 0}, "no number"),
        ("pause", {"for_s": 1e12}, "no number"),
        ("page", {}, "no local page"),
        ("clear-cache", {}, "reads its shards"),
    ],
)
def test_what_cannot_be_is_refused(operation, params, reason) -> None:
    controls, _, _ = worker_controls()
    with pytest.raises(ControlRefused, match=reason):
        Desk(controls=controls).operate(operation, params)


def test_before_the_first_look_there_is_no_report() -> None:
    controls, _, _ = worker_controls()
    controls.figures = Figures(lambda _status, _facts: None)
    with pytest.raises(ControlRefused, match="only just begun"):
        Desk(controls=controls).operate("status", {})


def test_what_is_not_leased_is_removed(tmp_path) -> None:
    controls, _, _ = worker_controls()
    folder = tmp_path / "shards"
    folder.mkdir()
    for digit in "ab":
        (folder / f"{digit * 64}.shard").write_bytes(b"x" * 5)
    controls.store = ShardStore(folder, max_bytes=100)
    controls.store.keep(["a" * 64])
    desk = Desk(controls=controls, page_url="http://127.0.0.1:1/#x")
    assert desk.operate("clear-cache", {}) == {"files": 1, "bytes": 5}
    assert [path.name[0] for path in folder.glob("*.shard")] == ["a"]
    assert desk.operate("page", {}) == {"url": "http://127.0.0.1:1/#x"}


def test_every_figure_and_operation_is_documented() -> None:
    root = Path(__file__).resolve().parents[3]
    page = (root / "docs" / "reference" / "worker.md").read_text(encoding="utf-8")
    controls, _, _ = worker_controls()
    told = Desk(controls=controls).operate("status", {})
    parts = [told["use"], told["readings"]]
    names = {*told, *desk_module._OPERATIONS} | {n for part in parts for n in part}
    named = set(re.findall(r"`([a-z_-]+)`", page))
    unnamed = {name.removeprefix("max_") for name in names} - named
    assert not unnamed, sorted(unnamed)
