"""What commands that compute take from their surroundings: kernel, compiler, cores.

The environment is read here and nowhere below: the kernel's name is handed on as a
value.
"""

import os

__all__ = [
    "KERNEL_VARIABLE",
    "default_threads",
    "line_without_native",
    "wanted_kernel",
]

KERNEL_VARIABLE = "P2PMOE_KERNEL"
_MAX_DEFAULT_THREADS = 8


def wanted_kernel() -> str | None:
    """Return the kernel or family that P2PMOE_KERNEL names; None leaves the choice.

    Raises:
        KernelUnavailable: there is none of this name, or not on this machine.
    """
    from mobile_worker.arithmetic.candidates import kernel_candidates
    from mobile_worker.arithmetic.select import check_kernel

    wanted = os.environ.get(KERNEL_VARIABLE) or None
    if wanted is not None:
        check_kernel(kernel_candidates(), wanted)
    return wanted


def line_without_native() -> str:
    """Return what a person is told where the native kernel was not built, else ""."""
    from mobile_worker.arithmetic.errors import KernelUnavailable
    from mobile_worker.arithmetic.native.extension import load_extension

    try:
        load_extension()
    except KernelUnavailable as error:
        return f"{error}: {error.advice}"
    return ""


def default_threads() -> int:
    """Return the cores that this process may use, at most 8."""
    from mobile_worker.contribute.machine import usable_cpus

    return min(usable_cpus(), _MAX_DEFAULT_THREADS)
