"""Multiply-adds a second of the numpy kernel, and tokens a second of the demo's model.

On one core: the measuring happens in a child process whose BLAS has one thread.
"Unpacked" keeps the decoded weights (decoded cache large enough), "in place" unpacks
the file's bytes at every product (no cache). The baseline is what the bits cost: plain
f32 BLAS over dequantised weights of the same shapes, whose results depend on the
machine.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.one_core import measured_on_one_core, tell

ROOT = Path(__file__).resolve().parents[2]
POCKET = ROOT / "p2pmoe/models/pocket-q4_0.gguf"
N_ROWS, N_COLS = 3072, 2048  # one matrix of a large model, 25 MB as f32
ROUNDS = 5
KERNEL_TARGET, DECODE_TARGET = 0.2, 50.0
N_PROMPT, N_DECODED = 256, 48


def rates(work: float, call: Callable[[], object]) -> list[float]:
    """Return `work` per second of several rounds of calls, each of at least 0.1 s."""
    call()
    found = []
    for _ in range(ROUNDS):
        n, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < 0.1:
            call()
            n += 1
        found.append(n * work / elapsed)
    return found


def kernel_figures(block_format: Format, n: int) -> list[Figure]:
    matrix = fixed_matrix("bench", block_format, N_ROWS, N_COLS)
    x = fixed_rows("bench x", n, N_COLS)
    rows = ExpertInput(coded=quantize_rows(x))
    plain = dequantize(matrix)
    work = n * N_ROWS * N_COLS / 1e9
    blas = rates(work, lambda: x @ plain.T)
    found = []
    for word, n_bytes in (("unpacked", 1 << 28), ("in place", 0)):
        kernel = NumpyKernel(decoded_cache_bytes=n_bytes)
        ours = rates(work, lambda k=kernel: k.matmul(matrix, rows))
        name = f"{block_format.name}, {n} row{'s' * (n > 1)}, {word}"
        found.append(
            figure(name, "G MAC/s", ours, baseline=blas, at_least=KERNEL_TARGET)
        )
    return found


def pocket_shapes() -> list[np.ndarray]:
    """Return f32 matrices of the shapes that one token of the pocket model meets."""
    attention = [(512, 256), (256, 256)]
    dense = [(1024, 256), (256, 512)]
    experts = [(256, 256), (256, 128)] * 5
    shapes = attention + dense + (attention + experts) * 7 + [(4096, 256)]
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def decode_figures() -> list[Figure]:
    kernel = NumpyKernel()
    with open_model(POCKET) as model_file:
        model = load_model(model_file, kernel)
        experts = LocalExperts.load(model_file, kernel)
    prompt = list(range(100, 100 + N_PROMPT))
    cache = model.new_cache(N_PROMPT + N_DECODED)
    prefill, decode = [], []
    for _ in range(ROUNDS + 1):
        cache.truncate(0)
        start = time.perf_counter()
        logits = model.forward(prompt, cache, experts)
        prefill.append(N_PROMPT / (time.perf_counter() - start))
        start = time.perf_counter()
        for _ in range(N_DECODED):
            logits = model.forward([int(logits[-1].argmax())], cache, experts)
        decode.append(N_DECODED / (time.perf_counter() - start))
    matrices = pocket_shapes()
    vectors = [np.ones(m.shape[1], np.float32) for m in matrices]
    baseline = rates(
        1.0, lambda: [m @ v for m, v in zip(matrices, vectors, strict=True)]
    )
    return [
        figure(
            "pocket decode, all local, at 256 tokens",
            "tokens/s",
            decode[1:],  # the first round fills the decoded cache
            baseline=baseline,
            at_least=DECODE_TARGET,
        ),
        figure("pocket prefill of 256", "tokens/s", prefill[1:]),
    ]


def measure() -> list[Figure]:
    found = [
        one
        for block_format in (Format.Q4_0, Format.Q8_0)
        for n in (1, 16)
        for one in kernel_figures(block_format, n)
    ]
    return found + decode_figures()


def run() -> list[Figure]:
    """Measure on one core and return all figures."""
    return measured_on_one_core("tests.benchmarks.bench_kernels")


if __name__ == "__main__":
    tell(measure())
