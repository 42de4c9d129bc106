"""The kernels of this machine, for tests that hold them against each other.

A kernel is opened when it is first asked for and kept; one that cannot be had here (no
compiler at the install, no such instruction set, no wasmtime) is left out.
"""

from functools import cache

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.errors import KernelUnavailable

__all__ = ["all_kernels", "fastest_kernel", "kernel_name", "other_kernels"]

_DECODED_BYTES = 64 << 20


@cache
def all_kernels():
    """Return every kernel that this machine has, best first; numpy is the last."""
    kernels = []
    for candidate in kernel_candidates():
        try:
            kernels.append(candidate.open(_DECODED_BYTES))
        except KernelUnavailable:
            continue
    return tuple(kernels)


def other_kernels():
    """Return all kernels but numpy, the reference."""
    return all_kernels()[:-1]


def fastest_kernel():
    """Return the kernel for tests that compute much."""
    return all_kernels()[0]


def kernel_name(kernel):
    """Return a kernel's name, to be shown as a test's id."""
    return kernel.name
