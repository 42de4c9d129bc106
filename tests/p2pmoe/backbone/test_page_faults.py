"""A thread's own page faults are counted."""

import mmap
import threading

from p2pmoe.backbone.page_faults import thread_faults

PAGES = 64


def touch() -> None:
    """Use memory that nobody has used before."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as fresh:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            fresh.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            fresh[page * mmap.PAGESIZE] = 1


def test_first_touches_of_memory_are_minor_faults_of_the_thread_alone() -> None:
    before, _ = thread_faults()
    other = threading.Thread(target=touch)
    other.start()
    other.join()
    between, _ = thread_faults()
    touch()
    after, _ = thread_faults()
    assert after - between >= PAGES
    assert between - before < after - between
