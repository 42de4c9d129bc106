"""One instance of a wasm module, with a memory of its own.

The module is the package's file and none other: its digest is compared before it is
compiled, which takes some 10 ms. Compiled code is never stored, as what is read back
would be trusted blindly.

An instance is used by one thread at a time. wasmtime is called through ctypes, which
releases the interpreter's lock for as long as a call lasts, so instances in several
threads compute at the same time. A call costs some 25 us before it computes anything;
hence one call does a list of steps.
"""

import hashlib
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from wasmtime import (
    Engine,
    Func,
    Global,
    Instance,
    Memory,
    Module,
    Store,
    Trap,
    WasmtimeError,
)

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.wasm.digests import DIGESTS

__all__ = ["CompiledModule", "WasmInstance", "load_module"]

PAGE: Final = 1 << 16
_MAX_MEMORY_BYTES: Final = 1 << 31  # so that every address is a positive i32
_FOLDER: Final = Path(__file__).parent


class CompiledModule:
    """A module that instances are made of."""

    def __init__(self, engine: Engine, module: Module) -> None:
        """Keep what `load_module` made."""
        self.engine = engine
        self.module = module


def load_module(flavour: str, folder: Path = _FOLDER) -> CompiledModule:
    """Compile the module of a flavour, "plain" or "relaxed".

    Raises KernelUnavailable if there is no such module, if it is not the one that
    this version was made with, or if wasmtime cannot run it on this machine.
    """
    digest = DIGESTS.get(flavour)
    if digest is None:
        raise KernelUnavailable(f"no wasm kernel {flavour[:40]!r}")
    path = folder / f"kernel-{flavour}.wasm"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KernelUnavailable(f"cannot read {path.name}: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise KernelUnavailable(
            f"{path.name} is not the module of this version: its SHA-256 differs",
            advice="reinstall p2pmoe",
        )
    try:
        engine = Engine()
        return CompiledModule(engine, Module(engine, content))
    except WasmtimeError as error:
        raise KernelUnavailable(f"wasmtime cannot run {path.name}: {error}") from error


class WasmInstance:
    """An instance, its memory as an array of bytes, and its one function."""

    def __init__(self, compiled: CompiledModule) -> None:
        """Make an instance; KernelUnavailable if there is no memory for it."""
        self._store = Store(compiled.engine)
        self._store.set_limits(memory_size=_MAX_MEMORY_BYTES)
        try:
            instance = Instance(self._store, compiled.module, [])
        except WasmtimeError as error:
            raise KernelUnavailable(f"no wasm instance: {error}") from error
        exports = instance.exports(self._store)
        memory, run, heap = (exports[n] for n in ("memory", "run", "__heap_base"))
        if not (
            isinstance(memory, Memory)
            and isinstance(run, Func)
            and isinstance(heap, Global)
        ):
            raise KernelUnavailable("the wasm module exports something else")
        self._memory = memory
        self._run = run
        self.heap_base = int(heap.value(self._store))
        self.bytes = self._view()

    def reserve(self, end: int) -> bool:
        """Let the memory reach at least to the address `end`; False if it cannot."""
        missing = end - len(self.bytes)
        if missing <= 0:
            return True
        if end > _MAX_MEMORY_BYTES:
            return False
        try:
            self._memory.grow(self._store, -(-missing // PAGE))
        except WasmtimeError:
            return False
        self.bytes = self._view()  # the memory may have moved
        return True

    def run(self, steps: int, n: int) -> int:
        """Do the n steps that lie at the address `steps`; return their status.

        Raises KernelUnavailable if they trap, which is a fault of this package.
        """
        try:
            status = self._run(self._store, steps, n)
        except (Trap, WasmtimeError) as error:
            reason = str(error).splitlines()[0]
            raise KernelUnavailable(f"the wasm kernel trapped: {reason}") from error
        return int(status)

    def _view(self) -> npt.NDArray[np.uint8]:
        memory = memoryview(self._memory.get_buffer_ptr(self._store))
        return np.frombuffer(memory, np.uint8)
