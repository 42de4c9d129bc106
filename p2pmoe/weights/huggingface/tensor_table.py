"""From stored names to GGUF's: each stored tensor is used once, none is dropped unseen.

A translation takes views by their stored names and adds them under GGUF's. What nobody
took and nobody set aside by name is refused at the end: a scale or a bias that was
overlooked would make a model that answers, and wrongly.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel, listed
from p2pmoe.weights.huggingface.mxfp4 import BLOCK_VALUES, Mxfp4Rows
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.rows import Stored
from p2pmoe.weights.huggingface.safetensors import Dtype
from p2pmoe.weights.huggingface.stored_views import (
    FP8,
    PlacedTensor,
    fp8_view,
    plain_view,
    stored_rows,
)
from p2pmoe.weights.huggingface.views import View

__all__ = ["TensorTable"]

# Where a model with pictures keeps its text part -> the names of a text model.
_TEXT_PARTS = (
    ("language_model.model.", "model."),
    ("model.language_model.", "model."),
    ("language_model.lm_head.", "lm_head."),
)
_SCALE_SUFFIXES = ("_scale_inv", "_scale")
# Computed from the configuration, or scales of activations, which are not coded here.
_NO_WEIGHTS = re.compile(
    r".*\.(rotary_emb\.inv_freq|input_scale|\w*activation_scale|[kv]_scale)\Z"
)


class TensorTable:
    """Stored tensors that wait for their place, and the places given so far."""

    def __init__(
        self, path: Path, stored: Mapping[str, PlacedTensor], quantization: Quantization
    ) -> None:
        """Start with all of `stored` waiting; ModelFileError if two are one."""
        self.path = path
        self.tensors: dict[str, View] = {}
        self.last = ""  # the stored name looked at last, for messages
        self._quantization = quantization
        self._waiting: dict[str, PlacedTensor] = {}
        for name, placed in stored.items():
            plain = _text_name(name)
            if plain in self._waiting:
                raise ModelFileError(path, f"and {plain!r} are one", tensor=name)
            self._waiting[plain] = placed
        self._known = frozenset(self._waiting)

    def has(self, name: str) -> bool:
        """Return whether the folder has such a tensor, used already or not."""
        return name in self._known

    def first_of(self, *names: str) -> str:
        """Return the first name that exists, else the first."""
        return next((name for name in names if self.has(name)), names[0])

    def view(self, name: str, target: str) -> View:
        """Take a stored tensor for `target`, whose name decides what stays F32.

        Raises:
            ModelFileError: there is no such tensor, or its scales do not fit.
            UnsupportedModel: it is of a dtype that is read as no weight.
        """
        placed = self._take(name)
        if placed.tensor.dtype in FP8:
            for suffix in _SCALE_SUFFIXES:
                if self.has(name + suffix):
                    scale = self._take(name + suffix)
                    return fp8_view(placed, scale, target, self._quantization)
            raise ModelFileError(self.path, "has no scale beside it", tensor=name)
        return plain_view(placed, target)

    def mxfp4(self, name: str) -> View:
        """Take `name`_blocks and `name`_scales as one tensor of MXFP4 blocks.

        Raises:
            ModelFileError: one is missing, or their shapes do not fit.
            UnsupportedModel: config.json does not say that weights are MXFP4.
        """
        blocks = self._take(f"{name}_blocks")
        scales = self._take(f"{name}_scales")
        if self._quantization.method is not QuantizationMethod.MXFP4:
            reason = "are blocks that config.json does not explain"
            raise UnsupportedModel(blocks.path, reason, tensor=blocks.tensor.name)
        shape = scales.tensor.shape
        is_bytes = {blocks.tensor.dtype, scales.tensor.dtype} == {Dtype.U8}
        if not is_bytes or len(shape) < 2 or blocks.tensor.shape != (*shape, 16):
            reason = f"of shape {list(blocks.tensor.shape)} are no blocks of 16 bytes"
            raise ModelFileError(blocks.path, reason, tensor=blocks.tensor.name)
        grid = stored_rows(scales)
        codes = Stored(
            blocks.file,
            blocks.tensor.offset,
            grid.n_rows,
            grid.n_items * 16,
            grid.dtype,
        )
        rows = Mxfp4Rows(blocks.path, blocks.tensor.name, codes, grid)
        return View(Format.MXFP4, (*shape[:-1], shape[-1] * BLOCK_VALUES), rows)

    def add(self, target: str, view: View) -> None:
        """Give `view` its place under GGUF's name."""
        self.tensors[target] = view

    def copy(self, target: str, name: str) -> None:
        """Take a stored tensor as it is."""
        self.add(target, self.view(name, target))

    def set_aside(self, pattern: str) -> None:
        """Leave out what waits and whose whole name matches: no part of the model."""
        matcher = re.compile(pattern)
        for name in [name for name in self._waiting if matcher.fullmatch(name)]:
            del self._waiting[name]

    def finish(self, architecture: str) -> None:
        """Raise UnsupportedModel if tensors are left that nobody took."""
        left = [name for name in self._waiting if not _NO_WEIGHTS.match(name)]
        if left:
            reason = f"{len(left)} tensors have no place in {architecture}"
            raise UnsupportedModel(self.path, f"{reason}: {listed(left)}")

    def _take(self, name: str) -> PlacedTensor:
        self.last = name
        if name not in self._waiting:
            reason = "is used twice" if self.has(name) else "is missing"
            raise ModelFileError(self.path, reason, tensor=name)
        return self._waiting.pop(name)


def _text_name(name: str) -> str:
    for nested, plain in _TEXT_PARTS:
        if name.startswith(nested):
            return plain + name[len(nested) :]
    return name
