"""The kernels that this program knows, and how each is opened on this machine.

    native/avx512  native/avx2  native/neon  native/portable
        C, an optional extension: there if a compiler was at hand at the install
    wasm/relaxed  wasm/plain
        modules shipped with the package, run by wasmtime; no compiler needed
    numpy
        the reference, always there

Best first. What a kernel needs is imported when it is opened, so that an unused one
costs neither time nor memory. Nothing is tested here: see `select`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel

__all__ = ["KERNEL_NAMES", "Candidate", "Keeps", "family_of", "kernel_candidates"]

_NATIVE_SETS: Final = ("avx512", "avx2", "neon", "portable")
_WASM_FLAVOURS: Final = ("relaxed", "plain")

KERNEL_NAMES: Final = (
    *(f"native/{name}" for name in _NATIVE_SETS),
    *(f"wasm/{name}" for name in _WASM_FLAVOURS),
    "numpy",
)


class Keeps(Enum):
    """What a kernel would keep beside the weights' own bytes, if it has the memory."""

    NOTHING = auto()
    COPIES = auto()  # of the same size
    UNPACKED = auto()  # codes as floats, several times the size


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel by name.

    `open(decoded_bytes)` returns it with so much memory for what it `keeps`. Raises
    KernelUnavailable with the reason where it cannot be had.
    """

    name: str
    keeps: Keeps
    open: Callable[[int], Kernel]

    @property
    def family(self) -> str:
        """What comes before the slash: native, wasm or numpy."""
        return family_of(self.name)


def family_of(name: str) -> str:
    """Return native, wasm or numpy of a kernel's name."""
    return name.partition("/")[0]


def kernel_candidates(n_threads: int = 1) -> tuple[Candidate, ...]:
    """Return every kernel, best first; the native ones spread a call over threads."""
    native = [
        Candidate(
            name=f"native/{name}", keeps=Keeps.NOTHING, open=_native(name, n_threads)
        )
        for name in _NATIVE_SETS
    ]
    wasm = [
        Candidate(name=f"wasm/{flavour}", keeps=Keeps.COPIES, open=_wasm(flavour))
        for flavour in _WASM_FLAVOURS
    ]
    numpy = Candidate(name="numpy", keeps=Keeps.UNPACKED, open=_numpy)
    return (*native, *wasm, numpy)


def _native(name: str, n_threads: int) -> Callable[[int], Kernel]:
    def open_native(_: int) -> Kernel:
        from mobile_worker.arithmetic.native.native_kernel import NativeKernel

        return NativeKernel(name, n_threads=n_threads)

    return open_native


def _wasm(flavour: str) -> Callable[[int], Kernel]:
    def open_wasm(decoded_bytes: int) -> Kernel:
        try:
            from mobile_worker.arithmetic.wasm.wasm_kernel import WasmKernel
        # wasmtime's own import fails in other ways where its library does not load.
        except (ImportError, OSError, RuntimeError) as error:
            raise KernelUnavailable(f"wasmtime is not there: {error}") from error
        return WasmKernel(flavour, decoded_bytes)

    return open_wasm


def _numpy(decoded_bytes: int) -> Kernel:
    return NumpyKernel(decoded_cache_bytes=decoded_bytes)
