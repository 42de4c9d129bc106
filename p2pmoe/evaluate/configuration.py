"""What was measured, and what is served: a configuration and its digest.

Two processes with the same digest give the same answers, as far as anything that an
operator sets or installs goes: the model's weights and formats, where they are placed,
the coding of results, what becomes of missing experts, and the versions. What a
configuration leaves out changes no answer: ports, keys, threads, kernels (all give the
same bytes), limits of queues.

The digest is SHA-256 over the canonical JSON of the fields (sorted keys, no spaces),
so that whoever has the fields can check it, whatever fields their version knows: runs
of older and newer versions can be read and compared.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from p2pmoe import __version__
from p2pmoe.config import ServeConfig
from p2pmoe.evaluate.reading import Misread, Record
from p2pmoe.prometheus import render_metric
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.template import template_source
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import layer_count
from p2pmoe.weights.parts import part_of

__all__ = [
    "Configuration",
    "Difference",
    "StoredConfiguration",
    "configuration_of",
    "configuration_page",
    "differences",
    "read_configuration",
]

Value: TypeAlias = str | int | float | bool | Mapping[str, str] | None

_MAX_TEXT: Final = 200
_MAX_FIELDS: Final = 64
_ABSENT: Final = "-"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_DIGITS: Final = 16  # of digests within the digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A setting of a backbone; see the module.

    `fingerprint` tells headers apart, `weights` the values: a digest of all the model's
    bytes, or "" where they have not been read. `formats` is, by part of the model, how
    many tensors are in which format, as "Q8_0 x 14, F32 x 2". `ram_bytes` None keeps
    every expert in memory; `manifest` says that none is on this machine's disk.
    `tokenizer` is a digest of how text becomes tokens, whatever it is read from and
    however a pre-tokenizer was named, `template` one of the chat template, "" for none.
    """

    architecture: str
    fingerprint: str
    weights: str
    formats: Mapping[str, str]
    network: bool
    manifest: bool
    ram_bytes: int | None
    disk_cache_bytes: int | None
    disk: str
    disk_access: str
    n_context: int
    profile: str
    missing: str
    drop_bound: float
    tokenizer: str
    template: str
    p2pmoe: str
    arithmetic: str
    numpy: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits; see the module."""
        return _digest(asdict(self))

    @property
    def is_known(self) -> bool:
        """Whether the weights have been read, so that a run says something of them."""
        return bool(self.weights)

    def document(self) -> dict[str, Any]:
        """Return the fields and the digest, ready for JSON."""
        return {"digest": self.digest, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfiguration:
    """A configuration as a run or a server tells it: fields of any version."""

    digest: str
    fields: Mapping[str, Value]

    def document(self) -> dict[str, Any]:
        """Return the fields and the digest, ready for JSON."""
        return {"digest": self.digest, **self.fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One variable that differs between two configurations."""

    name: str
    before: str
    after: str


def configuration_of(
    config: ServeConfig, model: ModelHeader, weights: str, tokenizer: bytes
) -> Configuration:
    """Return the configuration that `config` makes of a model.

    `weights` as above; `tokenizer` is the digest of the one that is used.

    Raises:
        ModelFileError: the header does not say its architecture or its layers.
    """
    return Configuration(
        architecture=model.metadata.text("general.architecture"),
        fingerprint=model.fingerprint().hex(),
        weights=weights,
        formats=_formats(model),
        network=config.access is not None,
        manifest=config.manifest is not None,
        ram_bytes=config.ram_bytes,
        disk_cache_bytes=config.disk_cache_bytes,
        disk=config.disk.value,
        disk_access=config.disk_access.value,
        n_context=config.n_context,
        profile=config.profile,
        missing=config.missing.value,
        drop_bound=config.drop_bound,
        tokenizer=tokenizer.hex()[:_DIGITS],
        template=_template(model),
        p2pmoe=__version__,
        arithmetic=SELF_TEST_DIGEST.hex()[:_DIGITS],
        numpy=np.__version__,
    )


def _template(model: ModelHeader) -> str:
    """Return a digest of the chat template; one that cannot be read is none."""
    try:
        source = template_source(model)
    except TemplateError:
        return ""
    raw = source.encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:_DIGITS] if source else ""


def _formats(model: ModelHeader) -> dict[str, str]:
    n_layer = layer_count(model)
    found: dict[str, Counter[str]] = {}
    for tensor in model.tensors.values():
        part = part_of(tensor.name, n_layer).value
        found.setdefault(part, Counter())[tensor.format.name] += 1
    return {
        part: ", ".join(f"{name} x {n}" for name, n in _by_count(counts))
        for part, counts in sorted(found.items())
    }


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def read_configuration(value: object) -> StoredConfiguration:
    """Return the configuration of a document, as `Configuration.document` makes it.

    Raises:
        Misread: it is no object of plain values, or the digest is not theirs.
    """
    if not isinstance(value, Mapping):
        raise Misread("configuration is no object")
    told = dict(value)
    digest = told.pop("digest", None)
    if len(told) > _MAX_FIELDS:
        raise Misread(f"configuration has {len(told)} fields")
    fields = {name: _value(name, each) for name, each in told.items()}
    if digest != _digest(fields):
        raise Misread(f"configuration.digest {str(digest)[:16]!r} is not of its fields")
    return StoredConfiguration(digest=str(digest), fields=fields)


def _value(name: object, value: object) -> Value:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Misread(f"configuration has a field {str(name)[:40]!r}")
    if isinstance(value, Mapping):
        if len(value) > _MAX_FIELDS:
            raise Misread(f"configuration.{name} has {len(value)} parts")
        record = Record(value, f"configuration.{name}")
        return {part: record.text(part, _MAX_TEXT) for part in value}
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and len(value) <= _MAX_TEXT:
        return value
    raise Misread(f"configuration.{name} is no plain value")


def _digest(fields: Mapping[str, object]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differences(
    before: StoredConfiguration, after: StoredConfiguration
) -> list[Difference]:
    """Return the variables that differ, in the order of the fields."""
    one, other = dict(_flat(before)), dict(_flat(after))
    return [
        Difference(
            name=name, before=one.get(name, _ABSENT), after=other.get(name, _ABSENT)
        )
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def _flat(configuration: StoredConfiguration) -> Iterator[tuple[str, str]]:
    for name, value in configuration.fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}: {part}", str(what)) for part, what in value.items())
        else:
            yield name, "all" if value is None else str(value)


def configuration_page(digest: str) -> str:
    """Return the sample that names the configuration, as Prometheus text."""
    return render_metric("p2pmoe_configuration_info", [({"digest": digest}, 1)])
