"""Who starts services here, and what is written where."""

from pathlib import Path

import pytest

from p2pmoe.contributor.services import plan as module
from p2pmoe.contributor.services.plan import Manager, Place, manager_of, plan_of
from p2pmoe.errors import ConfigurationError

PLACE = Place(
    home=Path("/home/eve"),
    uid=1000,
    config=Path("/home/eve/.config"),
    prefix=Path("/data/data/com.termux/files/usr"),
)
COMMAND = ("python", "-m", "p2pmoe", "contribute")
DATA = Path("/home/eve/worker")


def test_the_manager_of_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"systemctl", "sv-enable"}
    monkeypatch.setattr(
        module.shutil, "which", lambda name: name if name in there else None
    )
    assert manager_of("linux", {}) is Manager.SYSTEMD
    assert manager_of("darwin", {}) is Manager.LAUNCHD
    assert manager_of("android", {"TERMUX_VERSION": "0.119"}) is Manager.TERMUX
    there.clear()
    with pytest.raises(ConfigurationError, match="neither systemd nor launchd"):
        manager_of("linux", {})
    with pytest.raises(ConfigurationError) as caught:
        manager_of("android", {"TERMUX_VERSION": "0.119"})
    assert caught.value.advice.startswith("pkg install termux-services")


@pytest.mark.parametrize(
    ("manager", "path", "first"),
    [
        (
            Manager.SYSTEMD,
            "/home/eve/.config/systemd/user/p2pmoe-worker.service",
            "systemctl",
        ),
        (
            Manager.LAUNCHD,
            "/home/eve/Library/LaunchAgents/org.p2pmoe.worker.plist",
            "launchctl",
        ),
        (
            Manager.TERMUX,
            "/data/data/com.termux/files/usr/var/service/p2pmoe-worker/run",
            "sv-enable",
        ),
    ],
)
def test_a_plan_for_each(manager: Manager, path: str, first: str) -> None:
    plan = plan_of(manager, PLACE, COMMAND, DATA)
    assert plan.files[0].path == Path(path)
    assert "contribute" in plan.files[0].text
    assert plan.install[0][0] == first
    assert plan.notes
