"""The way out by fake routes: wired, wireless, mobile."""

from pathlib import Path

import pytest

from mobile_worker.governor.route import WayOut, read_way_out
from tests.support.machines import FakeMachine


def way_out(root: Path) -> WayOut:
    return read_way_out(root / "proc/net/route", root / "sys/class/net")


@pytest.mark.parametrize(
    ("interface", "wireless", "metered"),
    [
        ("eth0", False, False),
        ("enp3s0", False, False),
        ("wlan0", True, None),
        ("wwan0", False, True),
        ("rmnet_data0", False, True),
        ("ppp0", False, True),
    ],
)
def test_ways(tmp_path: Path, interface: str, *, wireless: bool, metered) -> None:
    FakeMachine(tmp_path).route(interface, wireless=wireless)
    assert way_out(tmp_path) == WayOut(interface, metered)


def test_a_tunnel_does_not_tell(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.route("tun0")
    machine.write("sys/class/net/tun0/type", "65534")
    assert way_out(tmp_path) == WayOut("tun0", None)


def test_of_two_the_lower_metric_is_the_way(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.write(
        "proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
        "wwan0 00000000 00000000 3 0 0 700 00000000\n"
        "eth0 00000000 00000000 3 0 0 100 00000000",
    )
    machine.write("sys/class/net/eth0/type", "1")
    assert way_out(tmp_path).interface == "eth0"


@pytest.mark.parametrize(
    "line",
    ["", "../../etc 00000000 0 0 0 0 1 0", "eth0 00000000 0 0 0 0 x 0", "\xff" * 9],
)
def test_routes_of_rubbish_are_no_way(tmp_path: Path, line: str) -> None:
    FakeMachine(tmp_path).write("proc/net/route", f"Iface\n{line}")
    assert way_out(tmp_path) == WayOut("", None)
    assert read_way_out(tmp_path / "x", tmp_path) == WayOut("", None)
