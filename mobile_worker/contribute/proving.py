"""Before a worker offers anything: is its arithmetic right, and how fast is it.

The kernel is chosen on this machine and opened within the worker's memory; then that
very kernel must give the self-test's digest. A machine whose arithmetic differs by one
bit is not started. The rate is a hint for placement: nothing is paid by it.
"""

from dataclasses import dataclass

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.select import choose_kernel
from mobile_worker.arithmetic.self_test import SELF_TEST_DIGEST, self_test
from mobile_worker.contribute.errors import ArithmeticDiffers
from mobile_worker.contribute.settings import ContributeSettings

__all__ = ["ProvenKernel", "prove_arithmetic", "prove_kernel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenKernel:
    """The kernel that a worker serves with, its digest, and multiply-adds a second.

    warnings: lines for its owner, as that the native kernel is not built.
    """

    kernel: Kernel
    self_test: bytes
    rate_macs_s: int
    warnings: tuple[str, ...] = ()


def prove_kernel(settings: ContributeSettings) -> ProvenKernel:
    """Choose this machine's kernel, open it within the settings' memory, and test it.

    Raises:
        KernelUnavailable: the one asked for is not there, or none computes rightly.
        ArithmeticDiffers: the one opened does not compute rightly.
    """
    chosen = choose_kernel(kernel_candidates(settings.n_threads), settings.kernel)
    kernel = chosen.open(settings.decoded_bytes)
    return ProvenKernel(
        kernel=kernel,
        self_test=prove_arithmetic(kernel),
        rate_macs_s=chosen.rate_macs_s,
        warnings=chosen.warnings,
    )


def prove_arithmetic(kernel: Kernel) -> bytes:
    """Return the self-test's digest, 32 bytes.

    Raises:
        ArithmeticDiffers: it is not the specification's.
    """
    digest = self_test(kernel)
    if digest != SELF_TEST_DIGEST:
        raise ArithmeticDiffers(
            f"this machine's arithmetic differs: self-test {digest.hex()[:8]}, "
            f"expected {SELF_TEST_DIGEST.hex()[:8]}",
            advice="reinstall p2pmoe and numpy; do not serve from this machine",
        )
    return digest
