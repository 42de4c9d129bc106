"""The modules are what their source gives, and as small as promised."""

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest
from wasmtime import Config, Engine, MemoryType, Module, WasmtimeError

from mobile_worker.arithmetic.wasm import build
from mobile_worker.arithmetic.wasm.build import FLAVOURS, MAX_MODULE_BYTES, build_module

ARITHMETIC = Path(build.__file__).parents[1]
# f32x4.relaxed_madd, f32x4.relaxed_nmadd and their kin of f64: they would fuse.
FUSED = re.compile(rb"\xfd[\x85-\x88]\x02")


def module_path(flavour: str) -> Path:
    return ARITHMETIC / "wasm" / f"kernel-{flavour}.wasm"


def needs_the_compiler() -> None:
    if importlib.util.find_spec("ziglang") is not None:
        return
    reason = "needs ziglang (pip install --group kernels)"
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_source_gives_the_same_bytes_anywhere(
    flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_the_compiler()
    for folder in ("c", "wasm/source"):
        shutil.copytree(ARITHMETIC / folder, tmp_path / folder)
    monkeypatch.setattr(build, "_SOURCE", tmp_path / "wasm" / "source" / "module.c")
    target = tmp_path / "built.wasm"
    build_module(flavour, target)
    assert target.read_bytes() == module_path(flavour).read_bytes(), (
        f"kernel-{flavour}.wasm is not what its source gives: make wasm-kernels"
    )


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_modules_are_small_and_fuse_nothing(flavour: str) -> None:
    content = module_path(flavour).read_bytes()
    assert len(content) < MAX_MODULE_BYTES == 8_000
    assert not FUSED.search(content)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_modules_import_nothing_and_keep_their_memory(flavour: str) -> None:
    module = Module(Engine(), module_path(flavour).read_bytes())
    assert module.imports == []
    exports = {export.name: export.type for export in module.exports}
    assert set(exports) == {"memory", "run", "__heap_base"}
    memory = exports["memory"]
    assert isinstance(memory, MemoryType)
    assert not memory.is_shared
    assert not memory.is_64


def test_only_the_relaxed_module_needs_relaxed_simd() -> None:
    config = Config()
    config.wasm_relaxed_simd = False
    engine = Engine(config)
    Module(engine, module_path("plain").read_bytes())
    with pytest.raises(WasmtimeError):
        Module(engine, module_path("relaxed").read_bytes())


@pytest.mark.slow
def test_the_build_writes_modules_and_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_the_compiler()
    digests = (ARITHMETIC / "wasm" / "digests.py").read_text(encoding="utf-8")
    blank = re.sub(r'"\w{64}"', '""', digests)
    assert blank != digests
    (tmp_path / "digests.py").write_text(blank, encoding="utf-8")
    monkeypatch.setattr(build, "_HERE", tmp_path)
    monkeypatch.setattr(build, "_DIGESTS", tmp_path / "digests.py")
    build.main()
    assert (tmp_path / "digests.py").read_text(encoding="utf-8") == digests
    monkeypatch.setattr(build, "MAX_MODULE_BYTES", 5_000)
    with pytest.raises(SystemExit, match="must stay below 5000"):
        build.main()
