"""Children of a local network: readiness, early ends, stopping; real processes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from p2pmoe.local_network import processes
from p2pmoe.local_network.processes import Child, ChildFailed, Stage
from tests.support.trio_test import trio_test

READY = "import json,sys;open(sys.argv[-1],'w').write(json.dumps({'port': 7}))"
SLEEP = "import signal;signal.pause()"


async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Child:
    script = tmp_path / "child.py"
    script.write_text(code, encoding="utf-8")
    monkeypatch.setattr(processes, "PROGRAM", (sys.executable, str(script)))
    return await Stage(tmp_path).start("child", ["serve"])


@trio_test
async def test_ready_returns_what_the_child_wrote(tmp_path, monkeypatch):
    code = f"{READY}\n{SLEEP}"
    child = await start(tmp_path, monkeypatch, code)
    assert await child.ready(20) == {"port": 7}
    assert child.is_running
    assert await child.stop(5) == -signal.SIGTERM


@trio_test
async def test_a_child_that_ends_early_is_named_with_its_last_line(
    tmp_path, monkeypatch
):
    child = await start(tmp_path, monkeypatch, "print('error: port in use')")
    with pytest.raises(ChildFailed, match="child ended early: error: port in use"):
        await child.ready(20)


@trio_test
async def test_a_killed_child_is_named_with_the_signal(tmp_path, monkeypatch):
    child = await start(tmp_path, monkeypatch, SLEEP)
    child.process.kill()
    with pytest.raises(ChildFailed, match="child was ended by signal 9"):
        await child.ready(20)


@trio_test
async def test_a_stopped_child_can_still_be_ended(tmp_path, monkeypatch):
    child = await start(tmp_path, monkeypatch, f"{READY}\n{SLEEP}")
    await child.ready(20)
    child.process.send_signal(signal.SIGSTOP)
    assert await child.stop(5) == -signal.SIGTERM


@trio_test
async def test_stop_all_leaves_none_running(tmp_path, monkeypatch):
    script = tmp_path / "child.py"
    script.write_text(f"{READY}\n{SLEEP}", encoding="utf-8")
    monkeypatch.setattr(processes, "PROGRAM", (sys.executable, str(script)))
    stage = Stage(tmp_path)
    first = await stage.start("first", [])
    second = await stage.start("second", [])
    await first.ready(20)
    await second.ready(20)
    await stage.stop_all(5)
    assert not first.is_running
    assert not second.is_running
    assert json.loads(first.ready_file.read_text()) == {"port": 7}


def test_a_folder_named_like_the_program_is_not_the_program(tmp_path: Path) -> None:
    (tmp_path / "p2pmoe").mkdir()
    shown = subprocess.run(
        [*processes.PROGRAM, "--version"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
