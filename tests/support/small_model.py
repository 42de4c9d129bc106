"""A model small enough to compute by hand: its shards, manifest and weights."""

import hashlib
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import CodedTensor, Dispatch, ExpertCall
from mobile_worker.serve.held import HeldExperts, HeldModel
from mobile_worker.shards.manifest import (
    ExpertLayout,
    Manifest,
    ManifestExpert,
    manifest_hash,
)
from mobile_worker.shards.model_files import ModelFilePart

__all__ = ["SmallModel", "small_model"]

N_EMBD, N_FF, N_LAYER, N_EXPERT = 64, 32, 3, 4


@dataclass(frozen=True)
class SmallModel:
    """Layers 1 and 2 have experts 0 to 3; layer 0 is dense."""

    manifest: Manifest
    shards: dict[ExpertId, bytes]

    @property
    def name(self) -> bytes:
        return manifest_hash(self.manifest)

    def digest(self, expert: ExpertId) -> bytes:
        return hashlib.sha256(self.shards[expert]).digest()

    @property
    def by_digest(self) -> dict[bytes, bytes]:
        bodies = [self.manifest.encode(), *self.shards.values()]
        return {hashlib.sha256(body).digest(): body for body in bodies}

    def held(self, *experts: tuple[int, int]) -> tuple[HeldExperts, HeldModel]:
        """Return a memory that holds these experts, all if none is named."""
        held = HeldExperts(1 << 30)
        model = held.learn(self.name, self.manifest)
        for expert in [ExpertId(*e) for e in experts] or list(self.shards):
            held.hold(model, expert, self.shards[expert])
        return held, model

    def rows(self, n: int, seed: str = "rows") -> ExpertInput:
        floats = fixed_rows(seed, n, N_EMBD)
        return ExpertInput(coded=quantize_rows(floats), floats=floats)

    def dispatch(
        self,
        first: int = 0,
        calls: tuple[tuple[int, tuple[int, ...]], ...] = ((0, (0,)),),
        *,
        n_rows: int = 1,
        seed: str = "rows",
        with_floats: bool = False,
        **changes: object,
    ) -> Dispatch:
        rows = self.rows(n_rows, seed)
        assert rows.coded is not None
        assert rows.floats is not None
        values: dict[str, object] = {
            "request": 1000 + first,
            "tab": b"tab-tab-",
            "first_serving": first,
            "layer": 1,
            "deadline_ms": 5000,
            "price_epoch": 1,
            "nonce": b"nonce-00",
            "profile": 1,
            "n_embd": N_EMBD,
            "coded": CodedTensor(
                codes=rows.coded.codes.tobytes(),
                scales=rows.coded.scales.astype("<f4").tobytes(),
            ),
            "floats": rows.floats.astype("<f4").tobytes() if with_floats else None,
            "n_rows": n_rows,
            "calls": tuple(ExpertCall(index=e, rows=r) for e, r in calls),
        }
        return Dispatch(**(values | changes))  # type: ignore[arg-type]


def small_model(
    name: str = "small",
    block_format: Format = Format.Q4_0,
    files: tuple[ModelFilePart, ...] = (),
) -> SmallModel:
    """Return the model; another name gives other weights."""
    shards = {}
    for layer in range(1, N_LAYER):
        for index in range(N_EXPERT):
            label = f"{name} {layer}.{index}"
            parts = [
                fixed_matrix(f"{label} {part}", block_format, n_rows, n_cols).raw
                for part, n_rows, n_cols in (
                    ("gate", N_FF, N_EMBD),
                    ("up", N_FF, N_EMBD),
                    ("down", N_EMBD, N_FF),
                )
            ]
            shards[ExpertId(layer, index)] = b"".join(bytes(part) for part in parts)
    layout = ExpertLayout(
        gate_format=int(block_format),
        up_format=int(block_format),
        down_format=int(block_format),
        n_embd=N_EMBD,
        n_ff=N_FF,
        activation=Activation(kind=ActivationKind.SWIGLU),
    )
    experts = tuple(
        ManifestExpert(
            expert=expert,
            layout=0,
            digest=hashlib.sha256(shard).digest(),
            n_bytes=len(shard),
            ranges=_ranges(len(shard)),
        )
        for expert, shard in sorted(shards.items())
    )
    manifest = Manifest(
        name=name,
        architecture="test",
        n_layer=N_LAYER,
        n_expert=N_EXPERT,
        n_embd=N_EMBD,
        layouts=(layout,),
        experts=experts,
        files=files,
    )
    return SmallModel(manifest=manifest, shards=shards)


def _ranges(n_bytes: int) -> tuple[tuple[int, int], ...]:
    third = n_bytes // 3
    return ((0, third), (third, third), (2 * third, n_bytes - 2 * third))


def coded_zeros(n_rows: int) -> CodedTensor:
    """Return rows of zeros."""
    return CodedTensor(
        codes=bytes(n_rows * N_EMBD),
        scales=np.zeros((n_rows, N_EMBD // 32), "<f4").tobytes(),
    )
