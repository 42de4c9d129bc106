"""The ledger's speed: servings hashed and vouchered, vouchers stored durably.

Each figure stands beside the plain way of doing it, measured in the same run: one
signature pair for each serving, and one commit for each voucher.
"""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from ledger.leaf import Leaf
from ledger.store import Store
from ledger.tally import Tally
from ledger.voucher import SignedVoucher, sign_voucher, verify_voucher
from tests.benchmarks.figures import Figure, figure
from tests.support.ledger_world import Party, TabSide, World, paper_tab

__all__ = ["run"]

_N_EMBD = 256
_LEAVES = 256  # of one voucher
_N_VOUCHERS = 40
_N_TABS = 32
_FILED_LEAVES = 8
_ROUNDS = 3


def run() -> list[Figure]:
    """Measure; about 20 s."""
    return [_vouchered(), _audited_bytes(), _stored()]


def _vouchered() -> Figure:
    ours = [_serve_and_voucher() for _ in range(_ROUNDS)]
    plain = [_sign_each() for _ in range(_ROUNDS)]
    return figure(
        "servings vouchered, both ends, n_embd 256",
        "/s",
        ours,
        baseline=plain,
        at_least=100_000,
    )


def _serve_and_voucher() -> float:
    """Hash rows, build leaves, sum and sign on both ends; servings a second."""
    tab = paper_tab()
    row = os.urandom(_N_EMBD + _N_EMBD // 8)  # codes and scales
    result = os.urandom(_N_EMBD + _N_EMBD // 8)
    worker, backbone = (Tally(tab.terms, tab.world.prices) for _ in range(2))
    previous = None
    start = time.perf_counter()
    for number in range(_N_VOUCHERS):
        span = range(number * _LEAVES, (number + 1) * _LEAVES)
        for end in (worker, backbone):
            end.add(b"".join(_leaf(tab, serving, row, result) for serving in span))
        draft = worker.draft(previous, grant_hash=bytes(32), issued_us=number)
        raw = draft.pack()
        signature = sign_voucher(raw, tab.worker.sign)
        backbone.check(draft)
        verify_voucher(raw, signature, tab.worker.id)
        verify_voucher(raw, sign_voucher(raw, tab.backbone.sign), tab.backbone.id)
        previous = draft
    return _N_VOUCHERS * _LEAVES / (time.perf_counter() - start)


def _leaf(tab: TabSide, serving: int, row: bytes, result: bytes) -> bytes:
    return Leaf(
        tab=tab.tab,
        serving=serving,
        request=serving,
        layer=1,
        expert=2,
        rows=1,
        price_epoch=tab.world.prices.epoch,
        x_hash=sha256(row).digest()[:16],
        out_hash=sha256(result).digest()[:16],
        nonce=bytes(8),
        amount_uc=10,
    ).pack()


def _sign_each() -> float:
    """The plain way: two signatures, each made and verified, for every serving."""
    tab = paper_tab()
    row = os.urandom(_N_EMBD)
    n = 1000
    start = time.perf_counter()
    for serving in range(n):
        raw = _leaf(tab, serving, row, row)
        for party in (tab.worker, tab.backbone):
            verify_voucher(raw, sign_voucher(raw, party.sign), party.id)
    return n / (time.perf_counter() - start)


def _audited_bytes() -> Figure:
    """Bytes that a receipt costs on the wire and disk, at 256 leaves a voucher."""
    tab = paper_tab()
    signed, block = tab.next(*range(_LEAVES))
    each = (len(block) + len(signed.raw) + 128) / _LEAVES
    return figure("bytes stored for a serving", "B", [each], baseline=[79 + 2 * 64])


def _stored() -> Figure:
    ours = [_file_all(window_s=0.01, in_turn=False) for _ in range(_ROUNDS)]
    plain = [_file_all(window_s=0.0, in_turn=True) for _ in range(_ROUNDS)]
    return figure(
        f"vouchers of {_FILED_LEAVES} leaves verified and stored",
        "/s",
        ours,
        baseline=plain,
        at_least=2000,
    )


def _file_all(*, window_s: float, in_turn: bool) -> float:
    """File vouchers of many tabs; vouchers a second until the last is durable."""
    world = World()
    n_each = 4 if in_turn else 40
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder)
        with world.open(path, window_s=window_s, credit_uc=10**14) as store:
            made = _made(world, store, n_each)
            start = time.perf_counter()
            if in_turn:
                for jobs in made:
                    for signed, block in jobs:
                        store.file(signed, block, world.backbone.id).result(30)
            else:
                # Two senders; each tab's vouchers stay in order.
                shares = [[job for jobs in made[n::2] for job in jobs] for n in (0, 1)]
                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(lambda jobs: _file(store, world, jobs), shares))
            return n_each * _N_TABS / (time.perf_counter() - start)


def _made(
    world: World, store: Store, n_each: int
) -> list[list[tuple[SignedVoucher, bytes]]]:
    made = []
    for n in range(_N_TABS):
        worker = Party(f"worker {n}")
        issued = store.grant(world.order(worker=worker, ceiling_uc=10**9)).result(30)
        tab = world.tab(issued, worker=worker, tab=b"tab-%04d" % n)
        spans = [
            range(k * _FILED_LEAVES, (k + 1) * _FILED_LEAVES) for k in range(n_each)
        ]
        made.append([tab.next(*span) for span in spans])
    return made


def _file(store: Store, world: World, jobs: list[tuple[SignedVoucher, bytes]]) -> None:
    futures = [store.file(*job, world.backbone.id) for job in jobs]
    for future in futures:
        if future.result(30).status != 0:
            raise RuntimeError(future.result())
