"""Memory goes back to the system, where it can be told."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from mobile_worker.contribute import trimming
from mobile_worker.contribute.trimming import (
    give_back_memory,
    let_go_of_library,
    share_one_arena,
)

_CHILD = """
from mobile_worker.contribute.trimming import *
share_one_arena()
import _hashlib
import hashlib
assert let_go_of_library("_hashlib") >= 0
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
"""


def test_it_is_done_or_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert give_back_memory() in {True, False}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert give_back_memory() is False
    assert share_one_arena() is False
    assert let_go_of_library("wasmtime") == 0


def test_code_that_was_let_go_runs_as_before() -> None:
    subprocess.run([sys.executable, "-c", _CHILD], check=True, timeout=60)


def test_only_the_code_of_that_library_is_let_go(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "1000-2000 r-xp 0 00:00 1 /a b/_libwasmtime.so\n"
        "2000-3000 r--p 0 00:00 1 /a b/_libwasmtime.so\n"
        "3000-4000 rw-p 0 00:00 1 /a b/_libwasmtime.so\n"
        "4000-5000 r-xp 0 00:00 1 /wasmtime/other.so\n"
        "5000-6000 r-xp 0 00:00 0\n"
        "rubbish\n"
    )
    assert trimming._code_of("wasmtime", maps) == [(0x1000, 0x2000)]
    assert trimming._code_of("wasmtime", tmp_path / "nowhere") == []
