"""The digest that every machine's self-test must give, apart from its arithmetic.

The market compares a worker's with it, computes nothing and needs no numpy.
"""

from typing import Final

__all__ = ["SELF_TEST_DIGEST"]

SELF_TEST_DIGEST: Final = bytes.fromhex(
    "531243f2c3cb5a74ae73cebf9de965fda60f884560b420018f3f816cefef404c"
)
