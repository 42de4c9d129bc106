"""Rows kept for the ledger's beacon: shown as they were hashed, and bounded."""

from hashlib import sha256

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.messages.audits import Open
from mobile_worker.servings.hashes import x_hash
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.backbone.served_rows import DEFAULT_BYTES, ServedRows, default_bytes
from p2pmoe.backbone.servings import Served, ServingSlot
from relay.keys import PeerId

TAB = b"tab-0001"
N_EMBD = 32
ROW_BYTES = 4 * N_EMBD


def step(n_rows: int, seed: int = 0) -> ExpertInput:
    values = np.arange(n_rows * N_EMBD, dtype=np.float32).reshape(n_rows, N_EMBD)
    return ExpertInput(floats=values + np.float32(seed))


def served(rows: ExpertInput, first: int, *calls: tuple[int, ...]) -> Served:
    """An answer whose calls named these rows of a step."""
    results = tuple(
        CallResult(
            call=ExpertRows(expert=at, rows=numbers),
            values=np.zeros((len(numbers), N_EMBD), np.float32),
            coded=b"",
        )
        for at, numbers in enumerate(calls)
    )
    slot = ServingSlot(
        peer=PeerId(bytes(32)),
        tab=TAB,
        first=first,
        n=len(calls),
        n_rows=sum(map(len, calls)),
        price_epoch=1,
    )
    return Served(
        slot=slot, request=1, layer=0, nonce=bytes(8), rows=rows, results=results
    )


def question(serving: int, tab: bytes = TAB) -> Open:
    return Open(voucher_hash=b"v" * 32, tab=tab, serving=serving)


def test_rows_are_shown_as_they_were_hashed():
    rows = step(4)
    ring = ServedRows()
    ring.keep(served(rows, 7, (0, 2), (3,)))
    for serving, numbers in ((7, [0, 2]), (8, [3])):
        answer = ring.open(question(serving))
        assert (answer.voucher_hash, answer.serving) == (b"v" * 32, serving)
        assert answer.reason == ""
        wanted = x_hash(rows.take(np.array(numbers, np.int64)))
        assert sha256(answer.rows).digest()[:16] == wanted


def test_what_is_not_there_has_a_reason():
    ring = ServedRows()
    ring.keep(served(step(1), 7, (0,)))
    for asked in (question(8), question(7, b"tab-0002")):
        answer = ring.open(asked)
        assert (answer.rows, answer.reason) == (b"", "not kept any more")


def test_the_oldest_make_room_and_shared_rows_are_counted_once():
    ring = ServedRows(max_bytes=3 * ROW_BYTES)
    shared = step(2)
    ring.keep(served(shared, 0, (0,)))
    ring.keep(served(shared, 1, (1,)))
    ring.keep(served(step(1), 2, (0,)))
    assert (len(ring), ring.n_bytes) == (3, 3 * ROW_BYTES)
    ring.keep(served(step(1, 1), 3, (0,)))
    assert [bool(ring.open(question(n)).rows) for n in range(4)] == [0, 0, 1, 1]
    assert ring.n_bytes == 2 * ROW_BYTES


def test_the_same_serving_is_kept_once():
    ring = ServedRows()
    rows = step(1)
    for _ in range(2):
        ring.keep(served(rows, 1, (0,)))
    assert (len(ring), ring.n_bytes) == (1, ROW_BYTES)


def test_rows_larger_than_the_ring_are_not_kept():
    ring = ServedRows(max_bytes=ROW_BYTES)
    ring.keep(served(step(2), 0, (0,)))
    ring.keep(served(step(1), 1, (0,)))
    assert (len(ring), ring.n_bytes) == (1, ROW_BYTES)


def test_so_many_servings_at_most(monkeypatch):
    monkeypatch.setattr("p2pmoe.backbone.served_rows.MAX_SERVINGS", 3)
    ring = ServedRows()
    for serving in range(5):
        ring.keep(served(step(1), serving, (0,)))
    assert (len(ring), ring.n_bytes) == (3, 3 * ROW_BYTES)


def test_rows_too_many_to_send_are_told_so(monkeypatch):
    monkeypatch.setattr("p2pmoe.backbone.served_rows.MAX_OPENED_BYTES", ROW_BYTES)
    ring = ServedRows()
    ring.keep(served(step(2), 0, (0, 1)))
    answer = ring.open(question(0))
    assert answer.rows == b""
    assert answer.reason == f"{2 * ROW_BYTES} bytes are too many to send"


def test_a_small_memory_keeps_a_small_part():
    assert default_bytes(None) == DEFAULT_BYTES
    assert default_bytes(1 << 30) == 32 << 20
    assert default_bytes(1 << 40) == DEFAULT_BYTES
