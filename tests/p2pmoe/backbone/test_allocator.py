"""Few arenas where the C library has them, no complaint where it has not."""

import ctypes
import platform
import subprocess
import sys

import pytest

from p2pmoe.backbone.allocator import limit_arenas

PROGRAM = """
import ctypes
import threading
from p2pmoe.backbone.allocator import limit_arenas

def work():
    blocks = [bytearray(100_000) for _ in range(100)]
    done.wait()

assert limit_arenas(1)
done = threading.Event()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
done.set()
"""


def test_threads_share_the_arenas() -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("needs glibc")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("<heap nr=") == 1


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not limit_arenas(2)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not limit_arenas(2)
