"""What receipts cost where servings are made: hashed, summed, signed on both ends.

`vouchered` is the rate at which one core does both ends' work for small rows, one call
to a dispatch, every hash over rows as the kernels have them; beside it the plain way,
two signatures for each serving. `_share` sets one end's work, the worker's, beside its
computing of an expert with MiniMax-M3's dimensions and format by the best kernel here;
the backbone's end costs the same. Seconds are those of this process's processor time,
so that other work on the machine hardly counts.
"""

import os
import time
from collections.abc import Callable, Iterator

from ledger.leaf import LEAF_BYTES, LeafPacker
from ledger.tally import Tally
from ledger.voucher import Voucher, sign_voucher, verify_voucher
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.servings.hashes import out_hash, x_hash
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.kernel_rates import ExpertRotation, bench_input, open_kernels
from tests.support.ledger_world import TabSide, paper_tab

__all__ = ["receipt_figures"]

_N_EMBD = 256
_M3_EMBD, _M3_FF, _M3_FORMAT = 6144, 3072, Format.IQ4_XS
_LEAVES = 256  # of one voucher
_N_VOUCHERS = 40
_ROUNDS = 5
_CALLS_S = 1.0


def receipt_figures() -> list[Figure]:
    """Measure; about 30 s."""
    return [_vouchered(), _stored_bytes(), *_shares()]


def _vouchered() -> Figure:
    rows = _coded(1, _N_EMBD)
    result = os.urandom(_N_EMBD + _N_EMBD // 8)
    ours = [1 / _both_ends_s(rows, result) for _ in range(_ROUNDS)]
    plain = [_sign_each() for _ in range(_ROUNDS)]
    return figure(
        f"servings hashed and vouchered, both ends, n_embd {_N_EMBD}",
        "/s",
        ours,
        baseline=plain,
        at_least=100_000,
    )


def _coded(n: int, n_embd: int) -> ExpertInput:
    return ExpertInput(coded=quantize_rows(fixed_rows("receipts", n, n_embd)))


def _both_ends_s(rows: ExpertInput, result: bytes) -> float:
    """Return seconds a serving: hashes, leaves, sums, signatures of both ends."""
    tab = paper_tab()
    worker, backbone = (Tally(tab.terms, tab.world.prices) for _ in range(2))
    previous = None
    start = time.process_time()
    for number in range(_N_VOUCHERS):
        for end in (worker, backbone):
            end.add(b"".join(_leaves(tab, number, rows, result)))
        previous = _signed(tab, worker, backbone, previous)
    return (time.process_time() - start) / (_N_VOUCHERS * _LEAVES)


def _leaves(
    tab: TabSide, number: int, rows: ExpertInput, result: bytes
) -> Iterator[bytes]:
    """Yield the leaves of a voucher as either end makes them, a dispatch a call."""
    epoch = tab.world.prices.epoch
    call = (2, rows.n_rows, tab.world.prices.amount(1, 2, rows.n_rows))
    for serving in range(number * _LEAVES, (number + 1) * _LEAVES):
        packer = LeafPacker(
            tab=tab.tab, request=serving, layer=1, price_epoch=epoch, nonce=bytes(8)
        )
        yield packer.pack(serving, call, x_hash(rows), out_hash(result))


def _signed(
    tab: TabSide, worker: Tally, backbone: Tally, previous: Voucher | None
) -> Voucher:
    """Draft, sign, check, countersign and check a voucher, as the two ends do."""
    draft = worker.draft(previous, grant_hash=bytes(32), issued_us=1)
    raw = draft.pack()
    signature = sign_voucher(raw, tab.worker.sign)
    received = Voucher.parse(raw)
    verify_voucher(raw, signature, tab.worker.id)
    backbone.check(received)
    verify_voucher(raw, sign_voucher(raw, tab.backbone.sign), tab.backbone.id)
    return draft


def _sign_each() -> float:
    """The plain way: two signatures, each made and verified, for every serving."""
    tab = paper_tab()
    rows, result = _coded(1, _N_EMBD), os.urandom(_N_EMBD + _N_EMBD // 8)
    blocks = list(_leaves(tab, 0, rows, result)) * 4
    start = time.process_time()
    for raw in blocks:
        for party in (tab.worker, tab.backbone):
            x_hash(rows)
            out_hash(result)
            verify_voucher(raw, sign_voucher(raw, party.sign), party.id)
    return len(blocks) / (time.process_time() - start)


def _stored_bytes() -> Figure:
    """Bytes that a receipt costs on the wire and disk, at 256 leaves a voucher."""
    signed, block = paper_tab().next(*range(_LEAVES))
    each = (len(block) + len(signed.raw) + 128) / _LEAVES
    plain = LEAF_BYTES + 2 * 64
    return figure("bytes stored for a serving", "B", [each], baseline=[plain])


def _shares() -> list[Figure]:
    kernel = next(iter(open_kernels().values()))
    experts = ExpertRotation(kernel, _M3_FORMAT, _M3_FF, _M3_EMBD)
    return [_share(kernel, experts, n) for n in (1, 32)]


def _share(kernel: Kernel, experts: ExpertRotation, n_rows: int) -> Figure:
    """Return one end's receipt in percent of the expert's computing of `n_rows`."""
    rows = bench_input(kernel, n_rows, _M3_EMBD)
    result = experts.call(rows)
    coded = ExpertInput(coded=rows.coded)
    shares = []
    for _ in range(_ROUNDS):
        compute_s = _seconds(lambda: experts.call(rows))
        shares.append(50 * _both_ends_s(coded, result) / compute_s)
    rows_word = "1 row" if n_rows == 1 else f"{n_rows} rows"
    return figure(
        f"a worker's receipt beside its computing, MiniMax-M3, {rows_word}",
        "%",
        shares,
        at_most=1.0,
    )


def _seconds(call: Callable[[], object]) -> float:
    """Return seconds of one call, over a second of them."""
    n, start = 0, time.process_time()
    while time.process_time() - start < _CALLS_S:
        call()
        n += 1
    return (time.process_time() - start) / n
