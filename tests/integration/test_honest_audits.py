"""Honest workers have no mismatch: 100,000 audits over every kernel of this machine.

An audit is what the market does: a seed that nobody knew, rows from it, the hash of the
results; what each kernel says is compared with the reference. Every supported format of
weights is among the experts, every profile among the results.
"""

import itertools

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.arithmetic.formats.codecs import is_supported
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary
from mobile_worker.serve.canary import CanaryModel, canary_hash
from tests.support.kernels import all_kernels, other_kernels

FORMATS = [f for f in Format if is_supported(f)]
REFERENCE = NumpyKernel(decoded_cache_bytes=64 << 20)


def weights_of(block_format: Format) -> tuple[int, ExpertWeights]:
    """Return an expert in a format, as narrow as its blocks allow; and its width."""
    width = max(32, block_size(block_format)[0])
    parts = {
        name: fixed_matrix(f"audit {name}", block_format, width, width)
        for name in ("gate", "up", "down")
    }
    activation = Activation(kind=ActivationKind.SWIGLU)
    return width, ExpertWeights(activation=activation, **parts)


EXPERTS = {ExpertId(0, at): weights_of(f) for at, f in enumerate(FORMATS)}
NARROW = [e for e, (width, _) in EXPERTS.items() if width == 32]


def audit(n: int, expert: ExpertId) -> bool:
    """Ask every kernel for one expert; tell whether all agree with the reference."""
    width, weights = EXPERTS[expert]
    model = CanaryModel(n_embd=width, weights=lambda _: weights)
    canary = Canary(
        number=n,
        manifest_hash=bytes(32),
        experts=(expert,),
        profile=n % len(Profile),
        n_rows=1,
        within_ms=1000,
        seed=n.to_bytes(32, "big"),
        rows=b"",
    )
    right = canary_hash(canary, expert, model, REFERENCE)
    said = {canary_hash(canary, expert, model, k) for k in other_kernels()}
    return said <= {right}


def mismatches(n_audits: int) -> tuple[int, int]:
    """Audit every format, then the narrow ones on and on; return audits, mismatches."""
    n_kernels = max(1, len(other_kernels()))
    n_wrong = n_done = 0
    experts = itertools.chain(EXPERTS, itertools.cycle(NARROW))
    with np.errstate(all="ignore"):
        for n, expert in enumerate(experts):
            n_wrong += not audit(n, expert)
            n_done += n_kernels
            if n_done >= n_audits and n >= len(EXPERTS):
                return n_done, n_wrong
    raise AssertionError


def test_every_format_and_kernel_agrees_on_canaries() -> None:
    n_done, n_wrong = mismatches(10 * len(FORMATS))
    assert n_wrong == 0
    assert n_done >= len(FORMATS)


@pytest.mark.slow
def test_b34_100_000_audits_of_honest_workers_have_no_mismatch() -> None:
    n_done, n_wrong = mismatches(100_000)
    names = [kernel.name for kernel in all_kernels()]
    print(f"{n_done} audits over {names}, {len(FORMATS)} formats: {n_wrong} mismatches")
    assert n_done >= 100_000
    assert n_wrong == 0
