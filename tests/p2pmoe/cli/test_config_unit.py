"""The systemd units: what systemd says of them, and what must be in them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from p2pmoe.cli.config_unit import SERVICES, unit_of


def test_it_holds_no_secret_and_is_its_own_user() -> None:
    unit = unit_of("serve", "/opt/p2pmoe/bin/python")
    assert "ExecStart=/opt/p2pmoe/bin/python -m p2pmoe serve" in unit
    assert "DynamicUser=yes" in unit
    assert "NoNewPrivileges=yes" in unit
    assert "CapabilityBoundingSet=\n" in unit
    assert "P2PMOE_API_KEY=" not in unit


def test_the_relay_has_its_port_and_is_told_by_a_signal() -> None:
    unit = unit_of("relay", "/opt/p2pmoe/bin/python")
    assert "ExecStart=/opt/p2pmoe/bin/python -m p2pmoe relay --data %S/p2pmoe" in unit
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" in unit
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n" in unit


@pytest.mark.parametrize("service", SERVICES)
def test_a_percent_in_a_path_is_no_specifier(service: str) -> None:
    assert "ExecStart=/a%%b/python " in unit_of(service, "/a%b/python")


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_accepts_it_and_finds_little_exposed(
    service: str, tmp_path: Path
) -> None:
    path = tmp_path / f"p2pmoe-{service}.service"
    path.write_text(unit_of(service, sys.executable))
    done = analyze("verify", str(path))
    assert done.returncode == 0, done.stderr
    assert f"p2pmoe-{service}" not in done.stderr, done.stderr
    # In tenths of its scale of ten; 1.9 with systemd 252.
    rated = analyze("security", "--offline=true", "--threshold=25", str(path))
    assert rated.returncode == 0, rated.stdout + rated.stderr
