"""Calls of experts (pocket's by default), and the values that they must give."""

import numpy as np

from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskCall, DiskWork
from p2pmoe.weights.expert_file import ExpertFile

__all__ = ["KERNEL", "disk_work", "right_values", "values_of"]

KERNEL = NumpyKernel()


def disk_work(
    file: ExpertFile, layer: int, *indices: int, n_embd: int = 256
) -> DiskWork:
    """Return calls on three rows: all for the last expert, some for the others."""
    hidden = np.random.default_rng(layer).standard_normal((3, n_embd), np.float32)
    rows = [np.array([i % 3, 2])[: 1 + (i % 3 < 2)] for i in indices[:-1]]
    calls = [
        DiskCall(expert=index, rows=chosen)
        for index, chosen in zip(indices, [*rows, None], strict=True)
    ]
    return DiskWork(
        layer=layer,
        calls=calls,
        coded=file.code(layer, hidden, KERNEL),
        profile=Profile.R16,
        kernel=KERNEL,
    )


def right_values(file: ExpertFile, work: DiskWork) -> dict[int, bytes]:
    """Return the bytes that each call's values must have."""
    jobs = [
        KernelCall(weights=file.weights(ExpertId(work.layer, c.expert)), rows=c.rows)
        for c in work.calls
    ]
    found = work.kernel.expert_values(jobs, work.coded, work.profile)
    return {c.expert: y.tobytes() for c, y in zip(work.calls, found, strict=True)}


def values_of(answer: DiskAnswer) -> dict[int, bytes]:
    """Return the bytes of an answer's values."""
    return {expert: values.tobytes() for expert, values in answer.values.items()}
