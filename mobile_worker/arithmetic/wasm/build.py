"""Build the two wasm modules from source and note their digests.

    python -m mobile_worker.arithmetic.wasm.build

Needs the pinned compiler of the dependency group `kernels`; the same source and the
same compiler give the same bytes on every machine. Both modules must stay below 8,000
bytes, import nothing and keep their memory to themselves. Run it after a change to
`source/` or to the shared headers in `c/`.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["FLAVOURS", "MAX_MODULE_BYTES", "build_module", "main"]

MAX_MODULE_BYTES: Final = 8_000

_HERE: Final = Path(__file__).parent
_SOURCE: Final = _HERE / "source" / "module.c"
_DIGESTS: Final = _HERE / "digests.py"

# Flavour -> what it may use beyond WebAssembly 1.0.
FLAVOURS: Final = {
    "plain": ("-msimd128",),
    "relaxed": ("-msimd128", "-mrelaxed-simd"),
}
_FLAGS: Final = (
    "-target",
    "wasm32-freestanding",
    "-std=c11",
    "-Os",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffp-contract=off",  # each operation rounds
    "-fno-vectorize",  # the loops that matter are written with vectors
    "-fno-slp-vectorize",
    "-fno-unroll-loops",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,--export=__heap_base",
    "-Wl,-z,stack-size=4096",
)


def build_module(flavour: str, target: Path) -> None:
    """Compile the module of a flavour into the file `target`.

    Raises subprocess.CalledProcessError where the compiler fails.
    """
    command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, *FLAVOURS[flavour]]
    # Paths as seen from the source's folder: none of this machine gets into the module.
    subprocess.run(  # noqa: S603 - our own interpreter and flags
        [*command, "-o", str(target.resolve()), _SOURCE.name],
        check=True,
        cwd=_SOURCE.parent,
    )


def main() -> None:
    """Build both modules into the package and write their digests."""
    digests = _DIGESTS.read_text(encoding="utf-8")
    for flavour in FLAVOURS:
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder) / "kernel.wasm"
            build_module(flavour, built)
            content = built.read_bytes()
        if len(content) >= MAX_MODULE_BYTES:
            sys.exit(
                f"kernel-{flavour}.wasm has {len(content)} bytes, "
                f"must stay below {MAX_MODULE_BYTES}"
            )
        (_HERE / f"kernel-{flavour}.wasm").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        digests = re.sub(rf'("{flavour}": )"\w*"', rf'\1"{digest}"', digests)
        sys.stderr.write(f"kernel-{flavour}.wasm: {len(content)} bytes, {digest}\n")
    _DIGESTS.write_text(digests, encoding="utf-8")


if __name__ == "__main__":
    main()
