"""The SHA-256 of the wasm modules in this repository, written by `build`.

A module of other bytes is refused: it is code that would compute for others.
"""

from typing import Final

__all__ = ["DIGESTS"]

DIGESTS: Final = {
    "plain": "2af07b4f15a5d82975767539d4bce10b2724e889bf9c18543240d8400a1a87a4",
    "relaxed": "e640f6a76b9ece0e9c8066eb20be9a5f6c65da448f163dfd694ad6e2cd82b7cd",
}
