import shutil
from pathlib import Path

import numpy as np
import pytest
from wasmtime import Config, Engine

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.wasm import instance as instance_module
from mobile_worker.arithmetic.wasm import steps
from mobile_worker.arithmetic.wasm.instance import WasmInstance, load_module

FOLDER = Path(instance_module.__file__).parent


def put(instance: WasmInstance, step: bytes) -> int:
    place = instance.heap_base
    instance.bytes[place : place + len(step)] = np.frombuffer(step, np.uint8)
    return place


def test_a_module_with_one_bit_changed_is_refused_in_one_line(tmp_path: Path) -> None:
    content = bytearray((FOLDER / "kernel-plain.wasm").read_bytes())
    content[-1] ^= 1
    (tmp_path / "kernel-plain.wasm").write_bytes(content)
    with pytest.raises(KernelUnavailable, match="SHA-256 differs") as caught:
        load_module("plain", tmp_path)
    assert "\n" not in str(caught.value)
    assert caught.value.advice == "reinstall p2pmoe"


def test_one_flavour_does_not_pass_for_the_other(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "kernel-plain.wasm", tmp_path / "kernel-relaxed.wasm")
    with pytest.raises(KernelUnavailable, match="SHA-256 differs"):
        load_module("relaxed", tmp_path)


def test_a_module_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelUnavailable, match=r"cannot read kernel-plain\.wasm"):
        load_module("plain", tmp_path)
    with pytest.raises(KernelUnavailable, match="no wasm kernel 'fancy'"):
        load_module("fancy")


def test_a_machine_without_relaxed_simd_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def old_engine() -> Engine:
        config = Config()
        config.wasm_relaxed_simd = False
        return Engine(config)

    monkeypatch.setattr(instance_module, "Engine", old_engine)
    load_module("plain")
    with pytest.raises(KernelUnavailable, match="cannot run kernel-relaxed"):
        load_module("relaxed")


def test_the_memory_grows_within_bounds_and_keeps_what_it_holds() -> None:
    instance = WasmInstance(load_module("plain"))
    at_first = len(instance.bytes)
    instance.bytes[instance.heap_base] = 77
    assert instance.reserve(at_first)
    assert len(instance.bytes) == at_first
    assert instance.reserve(at_first + 1)
    assert len(instance.bytes) == at_first + instance_module.PAGE
    assert instance.bytes[instance.heap_base] == 77
    assert not instance.reserve((1 << 31) + 1)
    assert len(instance.bytes) == at_first + instance_module.PAGE


def test_what_would_leave_the_memory_traps() -> None:
    instance = WasmInstance(load_module("plain"))
    step = put(instance, steps.check(len(instance.bytes) - 4, 2))
    with pytest.raises(KernelUnavailable, match="trapped") as caught:
        instance.run(step, 1)
    assert "\n" not in str(caught.value)
    step = put(instance, steps.check(len(instance.bytes) - 4, 1))
    assert instance.run(step, 1) == 0


def test_instances_do_not_see_each_other() -> None:
    compiled = load_module("plain")
    one, other = WasmInstance(compiled), WasmInstance(compiled)
    one.bytes[one.heap_base] = 1
    assert other.bytes[other.heap_base] == 0
