"""What the options of a local side ask of its memory."""

from pathlib import Path

from mobile_worker.arithmetic.candidates import Keeps
from p2pmoe.backbone.budget import MemoryWish
from p2pmoe.backbone.local_options import LocalOptions


def test_the_budget_hears_of_all_that_takes_memory() -> None:
    options = LocalOptions(
        data=Path("data"),
        ram_bytes=1 << 30,
        disk_cache_bytes=1 << 20,
        n_lanes=2,
        n_chunks=3,
        n_sequences=32,
        n_context=7,
        prefetches=True,
    )
    assert options.wish(Keeps.COPIES, 512) == MemoryWish(
        ram_bytes=1 << 30,
        keeps=Keeps.COPIES,
        n_context=512,
        n_lanes=2,
        n_chunks=3,
        n_sequences=32,
        disk_bytes=1 << 20,
        prefetches=True,
    )
