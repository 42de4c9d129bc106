"""The routed experts of a model file, each read when it is asked for, from any thread.

A shard is checked the first time it is read: an expert that holds no numbers is refused
with its name, whoever asks. Nothing is kept but the note that it was checked; who
wants an expert again keeps it. The file stays open for as long as this does, even if
its opener closes it.
"""

from mobile_worker.arithmetic.activation_kind import Activation
from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import ExpertLayout
from mobile_worker.shards.shard import check_expert, expert_weights, weights_of_parts
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.experts import (
    ExpertRanges,
    distinct_ranges,
    expert_layers,
    expert_ranges,
    read_expert,
)
from p2pmoe.weights.manifest import expert_layout
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import expert_activation

__all__ = ["ExpertFile"]

Ranges = tuple[tuple[int, int], ...]  # (offset, bytes) of an expert's parts


class ExpertFile:
    """The routed experts of a model file; safe to use from several threads."""

    def __init__(self, model_file: ModelFile) -> None:
        """Read experts of `model_file`.

        Raises:
            UnsupportedModel: its experts have scales of their own, or an activation
                that is not known.
        """
        expert_layers(model_file)
        self._file = model_file.share()
        self._activation = expert_activation(model_file)
        self._kinds: dict[int, frozenset[bool]] = {}
        self._alike: dict[ExpertLayout, ExpertLayout] = {}
        # Ranges and layouts of the experts that were checked.
        self._checked: dict[ExpertId, tuple[Ranges, ExpertLayout]] = {}

    @property
    def activation(self) -> Activation:
        """The activation of all experts."""
        return self._activation

    def ranges(self, expert: ExpertId) -> ExpertRanges:
        """Return where an expert's parts lie; ModelFileError."""
        return expert_ranges(self._file, expert)

    def n_bytes(self, expert: ExpertId) -> int:
        """Return the bytes of an expert's shard; ModelFileError."""
        return expert_ranges(self._file, expert).n_bytes

    def shard(self, expert: ExpertId) -> memoryview:
        """Return an expert's shard; ModelFileError if the file was cut short."""
        return read_expert(self._file, expert_ranges(self._file, expert))

    def weights(self, expert: ExpertId) -> ExpertWeights:
        """Read an expert's matrices and biases.

        Raises:
            ModelFileError: it was cut short, has no whole blocks or holds no numbers.
            FormatUnsupported: naming the expert.
        """
        known = self._checked.get(expert)
        return self._first(expert) if known is None else self._read(*known)

    def _read(self, ranges: Ranges, layout: ExpertLayout) -> ExpertWeights:
        parts = self._file.load_parts(ranges)
        if parts is not None:
            return weights_of_parts(parts, layout)
        return expert_weights(self._file.load_ranges(ranges), layout)

    def _first(self, expert: ExpertId) -> ExpertWeights:
        """Read an expert for the first time, and check it."""
        ranges = expert_ranges(self._file, expert)
        try:
            layout = expert_layout(ranges, self._activation)
            layout = self._alike.setdefault(layout, layout)  # one object for many
            weights = self._read(ranges.parts, layout)
            check_expert(weights, expert)
            self._checked[expert] = (ranges.parts, layout)
        except FormatUnsupported as exc:
            reason = f"{self._file.path}, expert {expert}: {exc}"
            raise FormatUnsupported(reason) from exc
        except MatrixMalformed as exc:
            raise ModelFileError(self._file.path, str(exc)) from exc
        return weights

    def kinds(self, layer: int) -> frozenset[bool]:
        """Return the kinds of input that a layer's experts read: True coded rows.

        Raises:
            FormatUnsupported: an expert cannot be computed with; names the first.
            ModelFileError: their tensors do not fit the model's sizes.
        """
        kinds = self._kinds.get(layer)
        if kinds is None:
            found: set[bool] = set()
            for index, ranges in enumerate(distinct_ranges(self._file, layer)):
                try:
                    is_integer(ranges.down.format)
                    found |= {is_integer(m.format) for m in (ranges.gate, ranges.up)}
                except FormatUnsupported as exc:
                    expert = ExpertId(layer, index)
                    reason = f"{self._file.path}, expert {expert}: {exc}"
                    raise FormatUnsupported(reason) from exc
            kinds = self._kinds[layer] = frozenset(found)
        return kinds

    def code(self, layer: int, hidden: Floats, kernel: Kernel) -> ExpertInput:
        """Return rows f32 [n, n_embd] in the kinds this layer's experts read.

        Raises:
            NonFinite: a value is not finite.
        """
        kinds = self.kinds(layer)
        return ExpertInput(
            coded=kernel.code_rows(hidden) if True in kinds else None,
            floats=hidden if False in kinds else None,
        )
