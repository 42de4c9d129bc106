"""The SHA-256 of the wasm modules in this repository, written by `build`.

A module of other bytes is refused: it is code that would compute for others.
"""

from typing import Final

__all__ = ["DIGESTS"]

DIGESTS: Final = {
    "plain": "214a258a52ce70d3765af903d8b203df4b46b1f8df0350d29c8506f7a4c11873",
    "relaxed": "829d68f099a6a280a1ed723983aa55a374f30d797bb164c1402437ffdde911c2",
}
