"""What commands that compute take from their surroundings: the kernel, the cores.

The environment is read here and nowhere below: the kernel's name is handed on as a
value.
"""

import os

__all__ = ["KERNEL_VARIABLE", "default_threads", "wanted_kernel"]

KERNEL_VARIABLE = "P2PMOE_KERNEL"
_MAX_DEFAULT_THREADS = 8


def wanted_kernel() -> str | None:
    """Return the kernel or family that P2PMOE_KERNEL names; None leaves the choice.

    Raises:
        KernelUnavailable: there is none of this name.
    """
    from mobile_worker.arithmetic.select import check_kernel_name

    wanted = os.environ.get(KERNEL_VARIABLE) or None
    if wanted is not None:
        check_kernel_name(wanted)
    return wanted


def default_threads() -> int:
    """Return the cores that this process may use, at most 8."""
    from mobile_worker.contribute.machine import usable_cpus

    return min(usable_cpus(), _MAX_DEFAULT_THREADS)
