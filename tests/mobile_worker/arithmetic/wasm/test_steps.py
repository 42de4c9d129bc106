"""Steps as bytes, and what the modules say to wrong ones."""

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.errors import (
    ArithmeticRefused,
    CodeRefused,
    FormatUnsupported,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.wasm import steps
from mobile_worker.arithmetic.wasm.build import FLAVOURS
from mobile_worker.arithmetic.wasm.instance import WasmInstance, load_module

SWIGLU = Activation(kind=ActivationKind.SWIGLU)


@pytest.fixture(scope="module", params=FLAVOURS)
def instance(request: pytest.FixtureRequest) -> WasmInstance:
    made = WasmInstance(load_module(request.param))
    assert made.reserve(made.heap_base + (1 << 16))
    return made


def run(instance: WasmInstance, *noted: bytes) -> int:
    content = np.frombuffer(b"".join(noted), np.uint8)
    place = instance.heap_base
    instance.bytes[place : place + len(content)] = content
    return instance.run(place, len(noted))


def put(instance: WasmInstance, content: bytes) -> int:
    place = instance.heap_base + (1 << 12)
    instance.bytes[place : place + len(content)] = np.frombuffer(content, np.uint8)
    return place


def test_every_step_is_forty_bytes() -> None:
    made = [
        steps.prepare(1, 2, 3, 4),
        steps.multiply(Format.Q4_0, (1, 2, 3), (4, 5), (6, 7)),
        steps.add_bias(1, 2, 3, 4, 5),
        steps.activate(SWIGLU, 1, 2, 3, 4),
        steps.code(1, 2, 3, 127, 5),
        steps.check(1, 2),
    ]
    assert {len(step) for step in made} == {steps.STEP_BYTES}
    assert [step[0] for step in made] == [1, 2, 3, 4, 5, 6]


def test_no_steps_are_done_at_once(instance: WasmInstance) -> None:
    assert instance.run(0, 0) == 0


def test_unknown_steps_and_activations(instance: WasmInstance) -> None:
    assert run(instance, bytes(40)) == 1
    assert run(instance, b"\x07" + bytes(39)) == 1
    wrong = bytearray(steps.activate(SWIGLU, 0, 0, 0, 0))
    wrong[4] = 2
    assert run(instance, bytes(wrong)) == 1


def test_formats_and_shapes(instance: WasmInstance) -> None:
    def multiply(number: int, n_cols: int) -> int:
        step = bytearray(steps.multiply(Format.F32, (0, 0, n_cols), (0, 0), (0, 0)))
        step[4:8] = number.to_bytes(4, "little")
        return run(instance, bytes(step))

    for number in (4, 5, 9, 15, 16, 29, 31, 38, 41, 255, 256, 1 << 31):
        assert multiply(number, 256) == 2
    for block_format in (Format.F16, Format.Q4_0, Format.MXFP4):
        assert multiply(block_format, 32) == 0
        assert multiply(block_format, 33) == 3
    for block_format in (Format.Q4_K, Format.Q6_K, Format.IQ4_XS):
        assert multiply(block_format, 256) == 0
        assert multiply(block_format, 32) == 3
    assert multiply(Format.NVFP4, 96) == 3
    assert run(instance, steps.prepare(0, 1, 31, 0)) == 3
    assert run(instance, steps.code(0, 1, 31, 127, 0)) == 3
    assert run(instance, steps.code(0, 1, 32, 126, 0)) == 3


@pytest.mark.parametrize(
    ("scale", "status"),
    [(1.0, 0), (0.0, 0), (-0.0, 0), (-1.0, 4), (np.inf, 4), (np.nan, 4)],
)
def test_codes_and_scales(instance: WasmInstance, scale: float, status: int) -> None:
    codes = np.full(32, -127, np.int8)
    coded = put(instance, codes.tobytes() + np.float32(scale).tobytes())
    ready = coded + 64
    assert run(instance, steps.prepare(coded, 1, 32, ready)) == status
    instance.bytes[coded + 31] = 0x80
    assert run(instance, steps.prepare(coded, 1, 32, ready)) == 4


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_no_numbers(instance: WasmInstance, value: float) -> None:
    x = np.arange(64, dtype=np.float32)
    x[63] = value
    place = put(instance, x.tobytes())
    assert run(instance, steps.check(place, 63)) == 0
    assert run(instance, steps.check(place, 64)) == 5
    for q in (127, 32767):
        assert run(instance, steps.code(place, 1, 32, q, place + 256)) == 0
        assert run(instance, steps.code(place, 2, 32, q, place + 256)) == 5


def test_the_first_failure_ends_the_list(instance: WasmInstance) -> None:
    x = put(instance, np.array([np.nan], np.float32).tobytes())
    bad, unknown = steps.check(x, 1), bytes(40)
    assert run(instance, steps.check(x, 0), bad, unknown) == 5
    assert run(instance, unknown, bad) == 1


def test_each_status_is_an_error_of_the_arithmetic() -> None:
    kinds = {2: FormatUnsupported, 3: ShapeMismatch, 4: CodeRefused, 5: NonFinite}
    for status, kind in kinds.items():
        error = steps.refusal(status)
        assert type(error) is kind
        assert error is not steps.refusal(status)
    assert type(steps.refusal(1)) is ArithmeticRefused
