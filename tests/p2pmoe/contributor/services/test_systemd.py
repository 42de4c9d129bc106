"""The unit: as systemd reads it, quoted, bounded in restarts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from p2pmoe.contributor.services.systemd import UNIT_NAME, unit_text

COMMAND = ("/opt/env/bin/python", "-m", "p2pmoe", "contribute", "--yes")
DATA = Path("/home/eve/.local/share/p2pmoe/worker")


def test_a_unit_may_write_its_folder_alone_and_restarts_without_haste() -> None:
    unit = unit_text(COMMAND, DATA)
    lines = unit.splitlines()
    assert f"ExecStart={' '.join(COMMAND)}" in lines
    assert f"ReadWritePaths={DATA}" in lines
    assert {"ProtectSystem=strict", "ProtectHome=read-only"} <= set(lines)
    seconds = next(x for x in lines if x.startswith("RestartSec=")).partition("=")[2]
    assert int(seconds) >= 30
    assert "RestartPreventExitStatus=2" in lines


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("50%", "50%%"),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("$HOME", "$$HOME"),
        ("", '""'),
        ("a;b", '"a;b"'),
        ("wss://relay.example/relay#ab12", "wss://relay.example/relay#ab12"),
    ],
)
def test_words_are_read_back_as_they_were(word: str, read: str) -> None:
    line = next(x for x in unit_text((word,), DATA).splitlines() if "ExecStart=" in x)
    assert line in (f"ExecStart={read}", f'ExecStart="{read}"')


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_itself_finds_no_fault(tmp_path: Path) -> None:
    program = shutil.which("true")
    assert program is not None
    unit = tmp_path / UNIT_NAME
    odd = (program, "--invite", "/a b/50%.json", "$HOME", "wss://h/relay#1;2")
    unit.write_text(unit_text(odd, tmp_path))
    done = subprocess.run(
        ("systemd-analyze", "--user", "verify", str(unit)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if UNIT_NAME in line]
    assert said == []
