import gc
import mmap
import threading
from pathlib import Path

import numpy as np
import pytest

from mobile_worker import large_pages
from mobile_worker.large_pages import keep_warm, weight_room

SLOT = (3 << 20) + 5  # bytes; a size that no other test uses
large = pytest.mark.skipif(
    large_pages._HUGE is None, reason="the system has no large pages"
)


@pytest.mark.parametrize("n_bytes", [0, 1, 4096, (1 << 18) - 1, 1 << 18, SLOT])
def test_room_is_zeros_of_that_length_and_writable(n_bytes):
    room = weight_room(n_bytes)
    assert (room.nbytes, room.readonly, room.c_contiguous) == (n_bytes, False, True)
    assert (room.format, room.itemsize) == ("B", 1)
    assert not any(room[:: max(1, n_bytes // 64)])
    room[:1] = b"x"[:n_bytes]
    assert bytes(room[:1]) == b"x"[:n_bytes]


def address(view):
    return np.frombuffer(view, np.uint8).ctypes.data


@large
def test_rooms_of_a_size_share_regions_and_never_bytes():
    rooms = [weight_room(SLOT) for _ in range(40)]
    for i, room in enumerate(rooms):
        room[0] = room[-1] = i
    assert [(room[0], room[-1]) for room in rooms] == [(i, i) for i in range(40)]
    starts = sorted(address(room) for room in rooms)
    steps = np.diff(starts)
    assert steps.min() == -(-SLOT // 4096) * 4096
    assert (steps == steps.min()).sum() >= 36  # 21 to a region


@large
def test_a_slot_is_used_again_as_zeros_once_its_last_view_has_gone():
    size = SLOT + 8192
    room = weight_room(size)
    start = address(room)
    room[100] = 5
    part = room[100:200].toreadonly()
    del room
    gc.collect()
    other = weight_room(size)
    assert address(other) != start
    assert part[0] == 5
    del part
    gc.collect()
    again = weight_room(size)
    assert address(again) == start
    assert again[100] == 0


@large
def test_what_is_given_back_is_memory_of_the_system_again():
    def resident_kib():
        status = Path("/proc/self/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in status if "VmRSS" in line)

    size = (32 << 20) + 3
    before = resident_kib()
    rooms = [weight_room(size) for _ in range(4)]
    for room in rooms:
        np.frombuffer(room, np.uint8)[:] = 1
    assert resident_kib() - before > 120 << 10
    del rooms, room
    gc.collect()
    assert resident_kib() - before < 32 << 10


@large
def test_threads_never_get_the_same_slot():
    size = SLOT + 40960
    rooms, lock = [], threading.Lock()

    def take():
        for _ in range(30):
            room = weight_room(size)
            with lock:
                rooms.append(room)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({address(room) for room in rooms}) == 120


def test_a_system_without_large_pages_gives_plain_memory(monkeypatch):
    monkeypatch.setattr(large_pages, "_HUGE", None)
    assert isinstance(weight_room(4 << 20).obj, bytearray)


@large
def test_a_system_that_refuses_them_gives_plain_memory(monkeypatch):
    class Stubborn(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Stubborn)
    assert isinstance(weight_room((4 << 20) + 12288).obj, bytearray)


@pytest.mark.parametrize("n_bytes", [1 << 60, 1 << 70])
def test_more_than_there_is_is_refused(n_bytes):
    with pytest.raises((MemoryError, OverflowError)):
        weight_room(n_bytes)


@large
def test_a_few_free_slots_keep_their_memory_if_asked():
    size = SLOT + (1 << 20)
    try:
        keep_warm(2 * size)
        rooms = [weight_room(size) for _ in range(4)]
        for room in rooms:
            room[7] = 7
        del room
        rooms.clear()
        gc.collect()
        rooms = [weight_room(size) for _ in range(4)]
        assert sum(room[7] == 7 for room in rooms) == 1  # pages of 4 KiB more each
    finally:
        keep_warm(0)
