"""What `models inspect` says: lines for people, and one document for machines.

Sizes for people are decimal, as hubs and shops give them: 207.6 GB is 207.6e9 bytes.
The document has whole numbers only, in bytes and parameters; a key that has nothing to
say is null. Its keys are the contract of `--json`.
"""

from typing import Final

from p2pmoe.inspect.inventory import Inventory
from p2pmoe.inspect.obstacles import Verdict
from p2pmoe.inspect.on_disk import OnDisk

__all__ = [
    "as_document",
    "decimal_size",
    "format_rows",
    "part_rows",
    "summary",
]

_MAX_NAME: Final = 120
_UNITS: Final = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_COUNTS: Final = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


def decimal_size(n_bytes: int) -> str:
    """Return bytes for people, such as 207.6 GB."""
    for unit, name in _UNITS:
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} B"


def _count(n: int) -> str:
    for unit, name in _COUNTS:
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return str(n)


def summary(
    inventory: Inventory, verdict: Verdict, on_disk: OnDisk
) -> dict[str, object]:
    """Return names and values of the whole model, in the order to print them."""
    return {
        name: _printable(value)
        for name, value in _lines(inventory, verdict, on_disk).items()
    }


def _printable(value: object) -> object:
    """Return a value that cannot steer a terminal, whatever a file wrote into it."""
    if not isinstance(value, str):
        return value
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value)


def _lines(
    inventory: Inventory, verdict: Verdict, on_disk: OnDisk
) -> dict[str, object]:
    experts = inventory.experts
    lines: dict[str, object] = {"architecture": inventory.architecture}
    if inventory.name:
        lines["name"] = inventory.name[:_MAX_NAME]
    if inventory.n_context is not None:
        lines["context"] = f"{inventory.n_context:,} tokens"
    n_moe = len(experts.layers) if experts else 0
    n_dense = inventory.n_layer - n_moe
    lines["layers"] = f"{inventory.n_layer} ({n_dense} dense, {n_moe} MoE)"
    if inventory.n_next:
        lines["next-token blocks"] = f"{inventory.n_next} (not used)"
    if experts is not None:
        lines["experts"] = f"{experts.n_experts:,} ({_layers_by_experts(inventory)})"
        lines["top-k"] = experts.top_k
        lines["calls a token"] = f"{experts.calls_per_token:,}"
        lines["bytes per expert"] = _from_to(experts.min_bytes, experts.max_bytes)
    lines["parameters"] = _count(inventory.n_parameters)
    lines["active parameters"] = _count(inventory.n_active)
    lines["size"] = decimal_size(inventory.n_bytes)
    lines["at 4 bits a parameter"] = decimal_size(inventory.bytes_at_4_bits)
    lines["files"] = f"{on_disk.n_files} ({decimal_size(on_disk.n_bytes)} on disk)"
    lines["tokenizer"] = _tokenizer(verdict)
    lines["chat template"] = _template(verdict)
    if verdict.description is not None:
        lines["KV cache a token"] = decimal_size(verdict.description.kv_bytes_per_token)
    lines["runs here"] = (
        "no: " + "; ".join(verdict.obstacles) if verdict.obstacles else "yes"
    )
    return lines


def part_rows(inventory: Inventory) -> list[dict[str, object]]:
    """Return the parts that the model has, one row each, and their sum."""
    rows: list[dict[str, object]] = [
        {
            "part": part.value,
            "tensors": size.n_tensors,
            "parameters": size.n_parameters,
            "bytes": size.n_bytes,
            "size": decimal_size(size.n_bytes),
        }
        for part, size in inventory.parts.items()
        if size.n_tensors
    ]
    total = {
        "part": "total",
        "tensors": sum(size.n_tensors for size in inventory.parts.values()),
        "parameters": sum(size.n_parameters for size in inventory.parts.values()),
        "bytes": inventory.n_bytes,
        "size": decimal_size(inventory.n_bytes),
    }
    return [*rows, total]


def format_rows(inventory: Inventory) -> list[dict[str, object]]:
    """Return the formats, most bytes first, one row each."""
    return [
        {
            "format": each.name,
            "tensors": each.n_tensors,
            "bytes": each.n_bytes,
            "size": decimal_size(each.n_bytes),
        }
        for each in inventory.formats
    ]


def as_document(
    inventory: Inventory, verdict: Verdict, on_disk: OnDisk
) -> dict[str, object]:
    """Return the object of `--json`."""
    experts, description = inventory.experts, verdict.description
    return {
        "architecture": inventory.architecture,
        "name": inventory.name,
        "n_context": inventory.n_context,
        "n_layers": inventory.n_layer,
        "n_next_token_blocks": inventory.n_next,
        "experts": experts
        and {
            "layers": list(experts.layers),
            "per_layer": list(experts.n_per_layer),
            "total": experts.n_experts,
            "top_k": experts.top_k,
            "calls_per_token": experts.calls_per_token,
            "min_bytes": experts.min_bytes,
            "max_bytes": experts.max_bytes,
        },
        "parameters": {
            "all": inventory.n_parameters,
            "active": inventory.n_active,
        },
        "bytes": inventory.n_bytes,
        "bytes_at_4_bits": inventory.bytes_at_4_bits,
        "parts": {
            part.name.lower(): {
                "tensors": size.n_tensors,
                "parameters": size.n_parameters,
                "bytes": size.n_bytes,
            }
            for part, size in inventory.parts.items()
        },
        "formats": {
            each.name: {"tensors": each.n_tensors, "bytes": each.n_bytes}
            for each in inventory.formats
        },
        "n_files": on_disk.n_files,
        "bytes_on_disk": on_disk.n_bytes,
        "tokenizer": _tokenizer_document(verdict),
        "has_chat_template": verdict.has_template,
        "chat_template_fault": verdict.template_fault or None,
        "kv_bytes_per_token": description and description.kv_bytes_per_token,
        "runs_here": not verdict.obstacles,
        "obstacles": list(verdict.obstacles),
    }


def _layers_by_experts(inventory: Inventory) -> str:
    if inventory.experts is None:
        return ""
    numbers = inventory.experts.n_per_layer
    if min(numbers) == max(numbers):
        return f"{len(numbers)} layers x {numbers[0]}"
    return f"{len(numbers)} layers x {min(numbers)} to {max(numbers)}"


def _from_to(low: int, high: int) -> str:
    if low == high:
        return f"{low:,} ({decimal_size(low)})"
    return f"{low:,} to {high:,} ({decimal_size(low)} to {decimal_size(high)})"


def _template(verdict: Verdict) -> str:
    if not verdict.has_template:
        return "none: it completes text, and does not chat"
    fault = verdict.template_fault
    return f"refused: {fault}; it completes text, and does not chat" if fault else "yes"


def _tokenizer(verdict: Verdict) -> str:
    vocabulary = verdict.vocabulary
    if vocabulary is None:
        return "none that is known here"
    pre = (
        f", pre-tokenizer {vocabulary.pretokenizer}" if vocabulary.pretokenizer else ""
    )
    return f"{vocabulary.kind.value}{pre}, {len(vocabulary.texts):,} tokens"


def _tokenizer_document(verdict: Verdict) -> dict[str, object] | None:
    vocabulary = verdict.vocabulary
    if vocabulary is None:
        return None
    return {
        "kind": vocabulary.kind.value,
        "pre_tokenizer": vocabulary.pretokenizer or None,
        "n_tokens": len(vocabulary.texts),
    }
