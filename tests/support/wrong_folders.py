"""Folders of safetensors that are wrong, each in one way; a part of `wrong_models`."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.support.wrong_model import WrongModel

__all__ = ["folders", "safetensors"]

CONFIG: dict[str, object] = {
    "architectures": ["OlmoeForCausalLM"],
    "num_hidden_layers": 1,
    "hidden_size": 64,
}
_OLMOE = "architectures"


def _safe(header: object, n_bytes: int = 64, length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    n = len(raw) if length is None else length
    return n.to_bytes(8, "little") + raw + bytes(n_bytes)


def _entry(begin: object, end: object, dtype: str = "F32", n: int = 8) -> object:
    return {"dtype": dtype, "shape": [n], "data_offsets": [begin, end]}


def safetensors(folder: Path) -> Iterator[WrongModel]:
    """B04: headers of safetensors files."""
    good = {"a": _entry(0, 32), "b": _entry(32, 64)}
    twice = b'{"a":%s,"a":%s}' % (
        json.dumps(_entry(0, 32)).encode(),
        json.dumps(_entry(32, 64)).encode(),
    )
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    cases: dict[str, tuple[bytes, str]] = {
        "b04-no-bytes": (b"", "needs"),
        "b04-length-0": (_safe(b"", length=0), "header"),
        "b04-length-huge": (_safe(good, length=1 << 63), "header"),
        "b04-length-100mb": (_safe(good, length=100_000_001), "header"),
        "b04-length-past-the-end": (_safe(good, length=10_000), "needs"),
        "b04-backwards": (_safe({"a": _entry(8, 0), "b": _entry(0, 32)}), "tensor 'a'"),
        "b04-aliased": (_safe({"a": _entry(0, 32), "b": _entry(0, 32)}, 32), "tensor"),
        "b04-hole": (
            _safe({"a": _entry(0, 32), "b": _entry(48, 80)}, 80),
            "tensor 'b'",
        ),
        "b04-twice": (_safe(twice), "duplicate"),
        "b04-floats": (_safe({"a": _entry(0.0, 32.0)}, 32), "tensor 'a'"),
        "b04-texts": (_safe({"a": _entry("0", "32")}, 32), "tensor 'a'"),
        "b04-list": (_safe([1, 2]), "object"),
        "b04-dtype": (_safe({"a": _entry(0, 32, "F33")}, 32), "F33"),
        "b04-shape": (_safe({"a": _entry(0, 32, n=1000)}, 32), "tensor 'a'"),
        "b04-negative": (_safe({"a": _entry(0, 32, n=-8)}, 32), "tensor 'a'"),
        "b04-bytes-left-over": (_safe(good, 99), "bytes"),
        "b04-not-json": (_safe(b"{]"), "JSON"),
        "b04-deep": (_safe(deep), "too deeply"),
        "b04-nan": (_safe(b'{"a":NaN}'), "model.safetensors"),
    }
    for name, (content, says) in cases.items():
        place = folder / name
        place.mkdir()
        (place / "config.json").write_text(json.dumps(CONFIG))
        (place / "model.safetensors").write_bytes(content)
        yield WrongModel(name=name, path=place, says=says)


def folders(folder: Path) -> Iterator[WrongModel]:
    """B06 and the rest of a folder of weights: config.json, index, links."""
    whole = _safe({"a": _entry(0, 32)}, 32)
    index = "model.safetensors.index.json"
    outside = folder / "outside.safetensors"
    outside.write_bytes(whole)

    def config(name: str, content: bytes | dict[str, object]) -> Path:
        place = folder / name
        place.mkdir()
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (place / "config.json").write_bytes(raw)
        (place / "model.safetensors").write_bytes(whole)
        return place

    def indexed(name: str, content: object) -> Path:
        place = folder / name
        place.mkdir()
        (place / "config.json").write_text(json.dumps(CONFIG))
        (place / index).write_text(json.dumps(content))
        (place / "x.safetensors").write_bytes(whole)
        return place

    def mapped(name: str, target: str) -> Path:
        return indexed(name, {"weight_map": {"a": target}})

    link = indexed("link", {"weight_map": {"a": "leak.safetensors"}})
    (link / "leak.safetensors").symlink_to(outside)
    loop = indexed("loop", {"weight_map": {"a": "loop.safetensors"}})
    (loop / "loop.safetensors").symlink_to("loop.safetensors")
    absolute = str(Path("/", "tmp", "p2pmoe-pwn.safetensors"))
    fp4 = {**CONFIG, "quantization_config": {"quant_method": "abacus"}}
    cases: dict[str, tuple[Path, str]] = {
        "config-empty": (config("empty", b""), "config.json"),
        "config-not-json": (config("text", b"hello"), "config.json"),
        "config-list": (config("list", b"[]"), "config.json"),
        "config-deep": (config("deep", b'{"a":' * 9999), "config.json"),
        "config-not-utf8": (config("latin", b'{"a":"\xff"}'), "config.json"),
        "config-without-architecture": (config("none", {"a": 1}), _OLMOE),
        "config-two-architectures": (
            config("two", {"architectures": ["A", "B"]}),
            _OLMOE,
        ),
        "config-huge-number": (
            config("huge", {**CONFIG, "num_hidden_layers": 10**400}),
            "num_hidden_layers",
        ),
        "config-negative-layers": (
            config("negative", {**CONFIG, "num_hidden_layers": -1}),
            "num_hidden_layers",
        ),
        "config-nothing-else": (config("bare", CONFIG), "config.json"),
        "unknown-quant-method": (config("fp4", fp4), "abacus"),
        "b06-upwards": (mapped("up", "../../../tmp/p2pmoe-pwn.safetensors"), "plain"),
        "b06-absolute": (mapped("abs", absolute), "plain"),
        "b06-nul": (mapped("nul", "a\0.safetensors"), "plain"),
        "b06-long": (mapped("long", "a" * 300 + ".safetensors"), "plain"),
        "b06-link-leads-out": (link, "leads out"),
        "link-loop": (loop, "loop.safetensors"),
        "index-list": (indexed("index", []), index),
        "index-without-map": (indexed("mapless", {"weight_map": {}}), "weight_map"),
        "index-names-what-is-missing": (
            mapped("gone", "y.safetensors"),
            "y.safetensors",
        ),
        "index-names-another-tensor": (
            indexed("other", {"weight_map": {"z": "x.safetensors"}}),
            "tensor",
        ),
    }
    for name, (path, says) in cases.items():
        yield WrongModel(name=name, path=path, says=says)
