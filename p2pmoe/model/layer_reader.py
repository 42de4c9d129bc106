"""Reads one layer's tensors, every shape and value checked, and notes what was read.

A part is a tensor's name without its block: `attn_q` is `blk.3.attn_q.weight`. Matrices
stay in the file's own format; norms and biases are F32 vectors; a router's weights are
f32 whatever the file keeps. When an architecture has read a layer, `refuse_unread`
names a tensor that it did not ask for: a file with more tensors than its architecture
computes is another model (a bias, a scale, a second norm), not one with extras. What
can be seen to change nothing is passed over: a bias of zeros, a scale of ones, and
scales of activations (`input_scale`), which are coded here as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from p2pmoe.model.choice import RouterSettings
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.linear import FeedForward, GatedFeedForward, Linear
from p2pmoe.model.qk_norm import HeadNorm, RowNorm
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.settings import HeadSettings
from p2pmoe.model.tensors import read_floats, read_matrix, take_rows
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_kind

__all__ = ["LayerReader"]

# What is read by whoever serves the experts.
_ROUTED: Final = frozenset({"weight", "bias"})
# Tables of rotary frequencies that old converters wrote and nobody reads.
_NEVER_READ: Final = frozenset({"attn_rot_embd.weight", "attn.rotary_emb.inv_freq"})
# What each kind of unread tensor would have to hold to change nothing.
_NEUTRAL: Final = {"bias": 0.0, "scale": 1.0}
_MAX_NEUTRAL_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerReader:
    """One layer of a file; all reads raise ModelRefused, ModelFileError and name it."""

    file: ModelFile
    kernel: Kernel
    operations: RowOperations
    description: ModelDescription
    eps: np.float32
    number: int
    _read: set[str] = field(default_factory=set)

    @property
    def n_embd(self) -> int:
        """The model's width."""
        return self.description.n_embd

    def has(self, part: str, kind: str = "weight") -> bool:
        """Whether the layer has this tensor."""
        return f"blk.{self.number}.{part}.{kind}" in self.file.tensors

    def name(self, part: str, kind: str = "weight") -> str:
        """Return a tensor's whole name, and note that it is read."""
        name = f"blk.{self.number}.{part}.{kind}"
        self._read.add(name)
        return name

    def norm(self, part: str, n: int | None = None) -> Floats:
        """Return a norm's weights, f32 [n], the model's width by default."""
        return self.vector(part, self.n_embd if n is None else n)

    def vector(self, part: str, n: int, kind: str = "weight") -> Floats:
        """Return n finite F32 values."""
        return read_floats(self.file, self.name(part, kind), n)

    def matrix(self, part: str, n_rows: int, n_cols: int) -> Matrix:
        """Return a matrix in the file's own format."""
        return read_matrix(self.file, self.name(part), (n_rows, n_cols))

    def rows(self, part: str, n_rows: int, n_cols: int) -> Floats:
        """Return a matrix as numbers, f32 [n_rows, n_cols]."""
        return take_rows(self.matrix(part, n_rows, n_cols), list(range(n_rows)))

    def linear(
        self, parts: Mapping[str, int], n_cols: int, *, biased: bool = False
    ) -> Linear:
        """Return matrices that share an input, by part and number of rows.

        With `biased` each has a bias, which is added after the product.
        """
        matrices = [self.matrix(part, n, n_cols) for part, n in parts.items()]
        if not biased:
            return Linear(self.kernel, *matrices)
        biases = [self.vector(part, n, "bias") for part, n in parts.items()]
        return Linear(self.kernel, *matrices, bias=np.concatenate(biases))

    def qkv(self, heads: HeadSettings, *, biased: bool = False) -> Linear:
        """Return the projections to queries, keys and values."""
        n_kv = heads.n_kv_heads * heads.head_dim
        parts = {"attn_q": heads.n_query, "attn_k": n_kv, "attn_v": n_kv}
        return self.linear(parts, self.n_embd, biased=biased)

    def attention_output(self, heads: HeadSettings, *, biased: bool = False) -> Linear:
        """Return the projection from all heads back to the model's width."""
        return self.linear({"attn_output": self.n_embd}, heads.n_query, biased=biased)

    def head_norm(self, heads: HeadSettings) -> HeadNorm:
        """Return the norms of queries and keys that take each head by itself."""
        query = self.norm("attn_q_norm", heads.head_dim)
        key = self.norm("attn_k_norm", heads.head_dim)
        weight = np.array([query] * heads.n_heads + [key] * heads.n_kv_heads)
        return HeadNorm(weight=weight, eps=self.eps, operations=self.operations)

    def row_norm(self, heads: HeadSettings) -> RowNorm:
        """Return the norms of queries and keys that take all heads as one row."""
        return RowNorm(
            query=self.norm("attn_q_norm", heads.n_query),
            key=self.norm("attn_k_norm", heads.n_kv_heads * heads.head_dim),
            eps=self.eps,
            operations=self.operations,
        )

    def router(
        self, settings: RouterSettings, *, biased: bool = False
    ) -> Router | None:
        """Return the router, None for a dense layer.

        With `biased` its logits have a bias. A selection bias (`exp_probs_b`) is used
        if the file has them: each layer has one then, or none has.
        """
        if self.number not in self.description.moe_layers:
            return None
        n_expert = self.description.n_expert
        part, selection = "ffn_gate_inp", "exp_probs_b"
        has_selection = any(
            f"blk.{layer}.{selection}.bias" in self.file.tensors
            for layer in self.description.moe_layers
        )
        return Router(
            self.matrix(part, n_expert, self.n_embd),
            self.vector(selection, n_expert, "bias") if has_selection else None,
            settings,
            self.operations,
            logit_bias=self.vector(part, n_expert, "bias") if biased else None,
        )

    def dense(self) -> FeedForward:
        """Return a dense layer's feed-forward."""
        return self._feed_forward("")

    def shared_expert(self) -> FeedForward:
        """Return the shared expert."""
        return self._feed_forward("_shexp")

    def gated_shared_expert(self) -> GatedFeedForward:
        """Return a shared expert whose output a sigmoid gate weighs, row by row."""
        name = self.name("ffn_gate_inp_shexp")
        shape, n = self.file.tensor(name).shape, self.n_embd
        if len(shape) == 1:
            gate = read_floats(self.file, name, n)[None, :]
        else:
            gate = self.rows("ffn_gate_inp_shexp", 1, n)
        return GatedFeedForward(
            self.operations.lane_product(gate), self.shared_expert()
        )

    def refuse_unread(self) -> None:
        """Raise ModelRefused for a tensor of the layer that nobody reads."""
        block = f"blk.{self.number}."
        for name in self.file.tensors:
            if not name.startswith(block) or name in self._read:
                continue
            part = name.removeprefix(block)
            if part in _NEVER_READ:
                continue
            routed = self.number in self.description.moe_layers
            if routed and expert_kind(part) in _ROUTED:
                continue
            if not self._is_neutral(name):
                raise ModelRefused(
                    f"tensor {name} has no place in {self.description.architecture} "
                    f"as it is computed here"
                )

    def _is_neutral(self, name: str) -> bool:
        """Whether a tensor that nobody reads would change nothing if it were."""
        kind = name.rpartition(".")[2]
        if kind == "input_scale":
            return True
        tensor = self.file.tensors[name]
        is_vector = tensor.format is Format.F32 and tensor.n_bytes <= _MAX_NEUTRAL_BYTES
        if kind not in _NEUTRAL or not is_vector:
            return False
        values = np.frombuffer(self.file.read(name), "<f4")
        return bool((values == _NEUTRAL[kind]).all())

    def _feed_forward(self, suffix: str) -> FeedForward:
        gate_name = self.name(f"ffn_gate{suffix}")
        gate = read_matrix(self.file, gate_name)
        if gate.n_cols != self.n_embd:
            raise ModelRefused(f"tensor {gate_name} takes {gate.n_cols} values")
        return FeedForward(
            self.kernel,
            ExpertWeights(
                gate=gate,
                up=self.matrix(f"ffn_up{suffix}", gate.n_rows, self.n_embd),
                down=self.matrix(f"ffn_down{suffix}", self.n_embd, gate.n_rows),
                activation=self.description.activation,
            ),
        )
