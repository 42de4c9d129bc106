"""Why a model cannot be run by this version, as far as its header tells.

Every obstacle is one line in lower case. None means that the header gives no reason:
weights that are no numbers, say, show only when they are read. An architecture that is
not known here ends the search, since what its tensors should be is not known either.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from mobile_worker.arithmetic.formats.codecs import is_supported
from mobile_worker.errors import WorkerError
from mobile_worker.expert_id import ExpertId
from p2pmoe.errors import P2pmoeError
from p2pmoe.inspect.inventory import Inventory
from p2pmoe.model.description import ModelDescription
from p2pmoe.model.model import describe_model
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.text.template import check_template, template_source
from p2pmoe.text.vocabulary import Vocabulary
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.experts import expert_ranges
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import ExpertMatrix, expert_activation, single_name
from p2pmoe.weights.parts import Part, part_of

__all__ = ["Verdict", "judge"]

_T = TypeVar("_T")
_MAX_NAMED = 3
_NORMS_BEFORE_FFN: Final = ("ffn_norm", "post_attention_norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What stands in the way, and what could be read on the way there."""

    obstacles: tuple[str, ...]
    description: ModelDescription | None = None
    vocabulary: Vocabulary | None = None
    has_template: bool = False
    template_fault: str = ""  # why it cannot be used; the model runs without


def judge(header: ModelHeader, inventory: Inventory) -> Verdict:
    """Look for everything in a header that keeps the model from running here."""
    found: list[str] = []
    description = _attempt(header, found, lambda: describe_model(header))
    rest: list[str] = []
    known = _attempt(header, rest, lambda: expert_activation(header)) is not None
    if description is not None:
        found += _missing(header, inventory)
    if known:
        found += _formats_without_arithmetic(header, inventory)
    if header.needed_bytes > header.n_bytes:
        found.append(f"needs {header.needed_bytes} bytes, has {header.n_bytes}")
    vocabulary = _attempt(
        header, found if known else rest, lambda: load_vocabulary(header)
    )
    if vocabulary is not None and description is not None:
        n_tokens, n_vocab = len(vocabulary.texts), description.n_vocab
        if n_tokens > n_vocab:
            found.append(f"a vocabulary of {n_tokens} tokens for {n_vocab} embeddings")
    source = _attempt(header, found if known else rest, lambda: template_source(header))
    return Verdict(
        obstacles=tuple(found),
        description=description,
        vocabulary=vocabulary,
        has_template=bool(source),
        template_fault=_template_fault(source or ""),
    )


def _template_fault(source: str) -> str:
    """Return why a chat template does not compile, or nothing."""
    try:
        check_template(source)
    except TemplateError as error:
        return str(error)
    return ""


def _attempt(
    header: ModelHeader, found: list[str], read: Callable[[], _T]
) -> _T | None:
    """Return what `read` gives; if it refuses the model, note why."""
    try:
        return read()
    except ModelFileError as error:
        tensor = f"tensor {error.tensor!r}" if error.tensor is not None else ""
        where = ", ".join(part for part in (tensor, error.field) if part)
        found.append(f"{where}: {error.reason}" if where else error.reason)
    except (P2pmoeError, WorkerError) as error:
        found.append(str(error).removeprefix(f"{header.path}: "))
    return None


def _formats_without_arithmetic(
    header: ModelHeader, inventory: Inventory
) -> Iterator[str]:
    counts = Counter(
        tensor.format
        for tensor in header.tensors.values()
        if part_of(tensor.name, inventory.n_layer) is not Part.NEXT
        and not is_supported(tensor.format)
    )
    for block_format, n in counts.items():
        yield f"format {block_format.name} ({n} tensors) has no arithmetic here"


def _missing(header: ModelHeader, inventory: Inventory) -> list[str]:
    """Return what every model of the known architectures has, and this one lacks."""
    names = header.tensors
    lacking = [
        name
        for name in ("token_embd.weight", "output_norm.weight")
        if name not in names
    ]
    for layer in range(inventory.n_layer):
        block = f"blk.{layer}"
        lacking += [
            name
            for name in (f"{block}.attn_norm.weight", f"{block}.attn_output.weight")
            if name not in names
        ]
        if not any(f"{block}.{norm}.weight" in names for norm in _NORMS_BEFORE_FFN):
            lacking.append(f"{block}.{_NORMS_BEFORE_FFN[0]}.weight")
    found = [f"tensor {name!r} is missing" for name in lacking[:_MAX_NAMED]]
    if len(lacking) > _MAX_NAMED:
        found.append(f"{len(lacking) - _MAX_NAMED} more tensors are missing")
    return found + _expert_faults(header, inventory)


def _expert_faults(header: ModelHeader, inventory: Inventory) -> list[str]:
    if inventory.experts is None:
        return ["there are no routed experts: it is no Mixture of Experts"]
    found: list[str] = []
    for layer, n in zip(
        inventory.experts.layers, inventory.experts.n_per_layer, strict=True
    ):
        router = f"blk.{layer}.ffn_gate_inp.weight"
        if router not in header.tensors:
            found.append(f"tensor {router!r} is missing")
        single = single_name(layer, ExpertMatrix.DOWN, 0) in header.tensors
        for index in range(n) if single else (0,):
            ranges = partial(expert_ranges, header, ExpertId(layer, index))
            _attempt(header, found, ranges)
        if len(found) > _MAX_NAMED:
            return [*found[:_MAX_NAMED], "and more of this kind"]
    return found
