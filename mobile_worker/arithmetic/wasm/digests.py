"""The SHA-256 of the wasm modules in this repository, written by `build`.

A module of other bytes is refused: it is code that would compute for others.
"""

from typing import Final

__all__ = ["DIGESTS"]

DIGESTS: Final = {
    "plain": "94d9ca4632befcdfbb3284015085c0bc0c5d0836a5373c0d29494ace90f45445",
    "relaxed": "9700481dda9cb27b198da30e330f0e75173d1f98d0aee466478a62855148aaf0",
}
