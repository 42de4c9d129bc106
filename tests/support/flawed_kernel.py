"""Kernels that cheat or err, around a right one."""

from collections.abc import Sequence

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile

__all__ = ["LyingKernel", "OneBitKernel"]


class OneBitKernel(NumpyKernel):
    """Arithmetic that differs by one bit in every result."""

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        return [_flip(each) for each in super().experts(calls, rows, profile)]


class LyingKernel(NumpyKernel):
    """Passes the self-test, then gives one wrong bit in every `every`-th call."""

    def __init__(self, *, every: int = 1, decoded_cache_bytes: int = 0) -> None:
        super().__init__(decoded_cache_bytes=decoded_cache_bytes)
        self.is_honest = True
        self._every = every
        self._n_calls = 0

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        results = super().experts(calls, rows, profile)
        self._n_calls += 1
        if self.is_honest or self._n_calls % self._every:
            return results
        return [_flip(each) for each in results]


def _flip(results: bytes) -> bytes:
    return bytes([results[0] ^ 1]) + results[1:]
