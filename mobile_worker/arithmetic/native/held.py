"""Weights held ready for C, and products of plain float rows with them.

What a model computes in every step pays for its checks once: matrices and experts are
handed to the extension, which keeps them checked, and a step brings rows alone. Rows
are coded there if a matrix wants codes. The bytes are those of `NativeKernel`. With
several threads a product that is large enough to be shared out is left to the kernel,
and routed experts are shared out here, each thread taking some of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats, check_floats
from mobile_worker.arithmetic.errors import NonFinite, ShapeMismatch
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.native.arguments import (
    contiguous,
    macs,
    matrix_arguments,
)
from mobile_worker.arithmetic.native.native_kernel import VALUES, NativeKernel
from mobile_worker.arithmetic.profiles import Profile

__all__ = ["NativeProducts"]

_NO_IDS: Final = np.zeros(1, np.int64)

Indices = npt.NDArray[np.int64]


class NativeProducts:
    """Products with held weights, for one native kernel."""

    def __init__(self, kernel: NativeKernel) -> None:
        """Compute as `kernel` does, with its threads."""
        self._kernel = kernel
        self._isa = kernel.isa
        self._extension = kernel.extension

    def linear(
        self, matrices: Sequence[Matrix], bias: Floats | None
    ) -> Callable[[Floats], Floats]:
        """Return x f32 [n, n_cols] -> products side by side, the bias added last.

        The matrices are held from the first product on. It raises NonFinite for a bad
        input to be coded, ShapeMismatch, and what reading a matrix raises.
        """
        held: list[tuple[object, ...]] = []
        width = sum(matrix.n_rows for matrix in matrices)
        work = sum(matrix.n_rows * matrix.n_cols for matrix in matrices)
        kinds = {is_integer(matrix.format) for matrix in matrices}

        def product(x: Floats) -> Floats:
            n = len(x)
            if self._kernel.n_parts(n * work) > 1:
                y = self._kernel.matmul_stacked(matrices, self._input(x, kinds))
                return y if bias is None else y + bias
            if not held:
                held.append(self._hold(matrices, bias))
            check_floats(x)
            out = np.empty((n, width), np.float32)
            try:
                outcome = self._extension.linear(
                    self._isa, held[0], contiguous(x), n, x.shape[1], out
                )
            except ValueError as error:
                raise ShapeMismatch(str(error)) from error
            if outcome:
                raise NonFinite("a row to be coded holds a non-finite value")
            return out

        return product

    def feed_forward(self, weights: ExpertWeights) -> Callable[[Floats], Floats]:
        """Return x f32 [n, n_embd] -> an expert's uncoded results; NonFinite."""
        work = macs(weights)
        kinds = {is_integer(each.format) for each in (weights.gate, weights.up)}

        def product(x: Floats) -> Floats:
            if self._kernel.n_parts(len(x) * work) > 1:
                return self._kernel.feed_forward(weights, self._input(x, kinds))
            out = np.empty((len(x), weights.down.n_rows), np.float32)
            self._run((self._expert(weights),), _NO_IDS, None, x, Profile.R32, out)
            return out

        return product

    def routed(
        self,
        weights: Mapping[int, ExpertWeights],
        chosen: Indices,
        x: Floats,
        profile: Profile,
    ) -> Floats:
        """Return the values of each row's experts, f32 [n, top_k, n_embd].

        `chosen` [n, top_k] names the experts by their keys in `weights`. They are coded
        and decoded by the profile. Raises NonFinite, KeyError for an expert that is not
        there, ShapeMismatch.
        """
        flat = chosen.ravel().tolist()
        ids = sorted(set(flat))
        own = [weights[index] for index in ids]
        held = tuple([each.held or self._expert(each) for each in own])
        out = np.empty((*chosen.shape, x.shape[1]), np.float32)
        chosen = np.ascontiguousarray(chosen)
        n_parts = 1
        if own and self._kernel.n_threads > 1:
            n_parts = self._kernel.n_parts(len(flat) * macs(own[0]))
        if n_parts == 1:
            numbers = np.array(ids, np.int64)
            self._run(held, numbers, chosen, x, profile, out)
            return out
        jobs = []
        for first, end in _split([flat.count(index) for index in ids], n_parts):
            part = np.array(ids[first:end], np.int64)
            jobs.append(
                partial(self._run, held[first:end], part, chosen, x, profile, out)
            )
        self._kernel.share_out(jobs)
        return out

    def _hold(
        self, matrices: Sequence[Matrix], bias: Floats | None
    ) -> tuple[object, ...]:
        held, first = [], 0
        for matrix in matrices:
            end = first + matrix.n_rows
            own = None if bias is None else np.array(bias[first:end], np.float32)
            held.append(self._extension.hold_matrix(matrix_arguments(matrix, own)))
            first = end
        return tuple(held)

    def _expert(self, weights: ExpertWeights) -> object:
        """Return what C holds of an expert; made once, kept with the expert."""
        if weights.held is None:
            activation = weights.activation
            held = self._extension.hold_expert(
                (
                    int(activation.kind),
                    activation.alpha,
                    activation.limit,
                    matrix_arguments(weights.gate, weights.gate_bias),
                    matrix_arguments(weights.up, weights.up_bias),
                    matrix_arguments(weights.down, weights.down_bias),
                )
            )
            object.__setattr__(weights, "held", held)
        return weights.held

    def _input(self, x: Floats, kinds: set[bool]) -> ExpertInput:
        coded = self._kernel.code_rows(x) if True in kinds else None
        return ExpertInput(coded=coded, floats=x if False in kinds else None)

    def _run(
        self,
        held: tuple[object, ...],
        ids: Indices,
        chosen: Indices | None,
        x: Floats,
        profile: Profile,
        out: Floats,
    ) -> None:
        check_floats(x)
        n, n_cols = x.shape
        top_k = 1 if chosen is None else chosen.shape[1]
        try:
            outcome = self._extension.routed(
                self._isa,
                held,
                ids,
                chosen,
                contiguous(x),
                n,
                n_cols,
                top_k,
                VALUES[profile],
                out,
                out.shape[-1],
            )
        except ValueError as error:
            raise ShapeMismatch(str(error)) from error
        if outcome:
            raise NonFinite("an expert's value is not finite")


def _split(loads: Sequence[int], n_parts: int) -> list[tuple[int, int]]:
    """Cut a run of loads into at most `n_parts` of about the same sum, none empty."""
    total, cuts = sum(loads), [0]
    for at, until in enumerate(accumulate(loads), 1):
        if until * n_parts >= total * len(cuts):
            cuts.append(at)
    return list(pairwise(cuts))
