import gc
import mmap

import pytest

from mobile_worker import large_pages
from mobile_worker.large_pages import weight_room


@pytest.mark.parametrize("n_bytes", [0, 1, 4096, (1 << 20) - 1, 1 << 20, (5 << 20) + 3])
def test_room_is_zeros_of_that_length_and_writable(n_bytes):
    room = weight_room(n_bytes)
    assert (room.nbytes, room.readonly, room.c_contiguous) == (n_bytes, False, True)
    assert not any(room[:: max(1, n_bytes // 64)])
    room[:1] = b"x"[:n_bytes]
    assert bytes(room[:1]) == b"x"[:n_bytes]


def test_a_system_without_large_pages_gives_plain_memory(monkeypatch):
    monkeypatch.setattr(large_pages, "_HUGE", None)
    assert isinstance(weight_room(4 << 20).obj, bytearray)


def test_a_system_that_refuses_them_gives_its_usual_ones(monkeypatch):
    class Stubborn(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Stubborn)
    room = weight_room(4 << 20)
    room[-1] = 7
    assert room[-1] == 7


def test_a_view_keeps_the_memory_and_the_last_one_frees_it():
    room = weight_room(4 << 20)
    mapping = room.obj
    room[100] = 5
    part = room[100:200]
    room.release()
    gc.collect()
    assert part[0] == 5
    with pytest.raises(BufferError):
        mapping.close()
    part.release()
    mapping.close()


@pytest.mark.parametrize("n_bytes", [1 << 60, 1 << 70])
def test_more_than_there_is_is_refused(n_bytes):
    with pytest.raises((MemoryError, OverflowError)):
        weight_room(n_bytes)
