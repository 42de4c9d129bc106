"""Input at terminals by the time they were read."""

import os
from pathlib import Path

from mobile_worker.governor.presence import last_input_s
from tests.support.machines import FakeMachine


def test_the_last_terminal_that_was_read(tmp_path: Path) -> None:
    FakeMachine(tmp_path)
    for name, at in (("tty1", 1000), ("pts/0", 5000), ("pts/ptmx", 9000)):
        (tmp_path / "dev" / name).touch()
        os.utime(tmp_path / "dev" / name, (at, 0))
    assert last_input_s(tmp_path / "dev") == 5000.0


def test_no_terminals(tmp_path: Path) -> None:
    assert last_input_s(tmp_path / "nowhere") is None
