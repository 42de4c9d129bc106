"""The systemd unit: what systemd says of it, and what must be in it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from p2pmoe.cli.config_unit import serve_unit


def test_it_holds_no_secret_and_is_its_own_user() -> None:
    unit = serve_unit("/opt/p2pmoe/bin/python")
    assert "ExecStart=/opt/p2pmoe/bin/python -m p2pmoe serve" in unit
    assert "DynamicUser=yes" in unit
    assert "NoNewPrivileges=yes" in unit
    assert "P2PMOE_API_KEY=" not in unit


def test_a_percent_in_a_path_is_no_specifier() -> None:
    assert "ExecStart=/a%%b/python " in serve_unit("/a%b/python")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_accepts_it(tmp_path: Path) -> None:
    path = tmp_path / "p2pmoe-serve.service"
    path.write_text(serve_unit(sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "p2pmoe-serve" not in done.stderr, done.stderr
