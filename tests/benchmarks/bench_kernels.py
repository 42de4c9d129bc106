"""The kernels beside llama.cpp, one thread each, in turn on the same core.

- A MoE of 1.3 GB with random weights in Q4_0 and Q4_K, decoded and prompted by us on
  the native kernel and by llama.cpp, which runs without its flash attention, because
  with it it decodes slower here; those rates are given too.
- wasm: calls of experts that are together larger than the cache, which is what a worker
  does, beside the multiply-adds a second that llama.cpp's decoding of a smaller such
  file takes; and the whole decoding on wasm, which shares its time with the backbone's
  own operations.
- The pocket model, what rows cost in a batch, and every format on every kernel.

Needs 7 GB of memory and 3 GB of disk for a while, and some three minutes.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from tests.benchmarks import llama_baseline
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.kernel_rates import ExpertRotation, open_kernels, product_figures
from tests.benchmarks.llama_baseline import Llama
from tests.benchmarks.model_rates import (
    OurModel,
    Rates,
    Work,
    agreement,
    alternate,
    tokens,
)
from tests.benchmarks.one_core import measured_on_one_core, pin_to_one_core, tell
from tests.benchmarks.rounds import measured_rounds
from tests.benchmarks.synthetic_moe import POCKET, SyntheticMoe, write_moe

ROUNDS = 3
DECODE_SHARE, PROMPT_SHARE = 0.8, 0.5  # of llama.cpp's, by the native kernel
WASM_SHARES = {"wasm/relaxed": 0.35, "wasm/plain": 0.2}  # of its decoding
POCKET_TARGET, EIGHT_ROWS_TARGET = 300.0, 4.0
IN_TABLE = {"native/avx512", "native/avx2", "native/neon", *WASM_SHARES}
SMALL_LAYERS = 4
LARGE_WORK = Work()
POCKET_WORK = Work(n_before=256, n_decoded=48)


def large_figures(block_format: Format, kernel: Kernel) -> list[Figure]:
    """Decode and prompt the file of 1.3 GB."""
    moe = SyntheticMoe(format=block_format)
    with _written(moe) as path, ExitStack() as stack:
        ours = OurModel(path, kernel)
        theirs = _llamas(stack, path, flash=(False, True))
        if theirs:
            _say(
                f"correlation of logits with llama.cpp's: {agreement(ours, theirs[0])}"
            )
        own, *others = alternate([ours, *theirs], ROUNDS, LARGE_WORK)
    plain, *flash = others or [Rates()]
    word = f"{block_format.name} MoE of {moe.n_bytes / 1e9:.1f} GB"
    on = f", {kernel.name}"
    found = [
        _beside(f"{word}, decode{on}", own.decode, plain.decode, DECODE_SHARE),
        _beside(f"{word}, prompt of 128{on}", own.prompt, plain.prompt, PROMPT_SHARE),
    ]
    for other in flash:
        on = ", llama.cpp with flash attention"
        found.append(_beside(f"{word}, decode{on}", other.decode, plain.decode))
        found.append(_beside(f"{word}, prompt of 128{on}", other.prompt, plain.prompt))
    return found


def small_figures(block_format: Format, kernels: Sequence[Kernel]) -> list[Figure]:
    """Call experts, and decode a file of four layers; wasm kernels have targets."""
    moe = SyntheticMoe(format=block_format, n_layer=SMALL_LAYERS)
    experts = [ExpertRotation(kernel, block_format) for kernel in kernels]
    with _written(moe) as path, ExitStack() as stack:
        ours = [OurModel(path, kernel) for kernel in kernels]
        theirs = _llamas(stack, path, flash=(False,))
        calls = [partial(one.rate, 1) for one in experts]
        decode = [partial(one.decode_rate, tokens(16), 16) for one in [*ours, *theirs]]
        rounds = measured_rounds([*calls, *decode], ROUNDS)
    n = len(kernels)
    beside = rounds[2 * n] if theirs else []
    products = [rate * moe.active_weights / 1e9 for rate in beside]
    word = f"{moe.format.name} MoE of {moe.n_bytes / 1e9:.1f} GB"
    found = []
    for kernel, called, decoded in zip(kernels, rounds[:n], rounds[n:], strict=False):
        share = WASM_SHARES.get(kernel.name)
        name = f"{moe.format.name} experts, {kernel.name}"
        found.append(_beside(name, called, products, share, unit="G MAC/s"))
        found.append(_beside(f"{word}, decode, {kernel.name}", decoded, beside))
    return found


def pocket_figures(kernels: Sequence[Kernel]) -> list[Figure]:
    """Decode the pocket model at 256 tokens; the first kernel has the target."""
    with ExitStack() as stack:
        sides = [OurModel(POCKET, kernel) for kernel in kernels]
        theirs = _llamas(stack, POCKET, flash=(False,))
        rates = alternate([*sides, *theirs], ROUNDS, POCKET_WORK)
    beside = rates[-1] if theirs else Rates()
    found = []
    for number, (kernel, own) in enumerate(zip(kernels, rates, strict=False)):
        found.append(
            figure(
                f"pocket decode, all local, at 256 tokens, {kernel.name}",
                "tokens/s",
                own.decode,
                baseline=beside.decode,
                at_least=None if number else POCKET_TARGET,
            )
        )
        name = f"pocket prompt of 128, {kernel.name}"
        found.append(_beside(name, own.prompt, beside.prompt))
    return found


def _beside(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    share: float | None = None,
    *,
    unit: str = "tokens/s",
) -> Figure:
    """Make a figure whose target is a share of the baseline, if there is one."""
    at_least = (
        None if share is None or not theirs else share * statistics.median(theirs)
    )
    return figure(name, unit, ours, baseline=theirs, at_least=at_least)


@contextmanager
def _written(moe: SyntheticMoe) -> Iterator[Path]:
    """Write a file for as long as it is used."""
    _say(f"{moe.format.name} MoE, {moe.n_bytes / 1e9:.1f} GB")
    with tempfile.TemporaryDirectory() as folder:
        yield write_moe(Path(folder) / "moe.gguf", moe)


def _llamas(stack: ExitStack, path: Path, flash: Sequence[bool]) -> list[Llama]:
    """Load a file into llama.cpp once for each setting, where it is installed."""
    if not llama_baseline.is_installed():
        return []
    return [stack.enter_context(Llama(path, flash_attention=one)) for one in flash]


def _say(text: str) -> None:
    print(f"kernels: {text}", file=sys.stderr, flush=True)


def measure() -> list[Figure]:
    pin_to_one_core()
    kernels = open_kernels()
    best = next(iter(kernels.values()))
    wasm = [kernels[name] for name in WASM_SHARES if name in kernels]
    # llama.cpp's wheel is built for AVX2; on a better machine ours shows that too.
    avx2 = [one for name, one in kernels.items() if name == "native/avx2"]
    found = pocket_figures(list(dict.fromkeys([best, *wasm, kernels["numpy"]])))
    for block_format in (Format.Q4_0, Format.Q4_K):
        found += large_figures(block_format, best)
    for block_format in (Format.Q4_0, Format.Q8_0):
        found += small_figures(block_format, [*wasm, *avx2])
    for kernel in [best, *wasm]:
        rotation = ExpertRotation(kernel, Format.Q4_0)
        found.append(rotation.cost_figure(8, EIGHT_ROWS_TARGET))
    _say("every format")
    shown = [one for name, one in kernels.items() if name in IN_TABLE]
    return found + product_figures(shown, 1)


def notes() -> list[str]:
    """Say what stood beside, and how it was built."""
    if not llama_baseline.is_installed():
        return [llama_baseline.HOW_TO_INSTALL]
    with Llama(POCKET) as llama:
        return [f"baseline: llama.cpp of xllamacpp {llama.version}, {llama.build}"]


def run() -> list[Figure]:
    """Measure on one core and return all figures."""
    return measured_on_one_core("tests.benchmarks.bench_kernels")


if __name__ == "__main__":
    tell(measure())
