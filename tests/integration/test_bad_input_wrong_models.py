"""A folder of wrong models: each is refused for its own reason, quickly and lightly."""

from pathlib import Path

import pytest

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.errors import WorkerError
from mobile_worker.expert_id import ExpertId
from p2pmoe.errors import P2pmoeError
from p2pmoe.inspect.foreign import in_gguf_terms, is_foreign
from p2pmoe.inspect.inventory import take_inventory
from p2pmoe.model.model import describe_model, load_model
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.weights.experts import expert_ranges
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.command_line import Outcome
from tests.support.forked_commands import Forked, run_forked
from tests.support.wrong_model import WrongModel
from tests.support.wrong_models import write_good, write_wrong_models

MAX_GROWTH_BYTES = 50_000_000
PWN = Path("/", "tmp", "p2pmoe-pwn.safetensors")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> list[WrongModel]:
    folder = tmp_path_factory.mktemp("wrong")
    write_good(folder)
    return write_wrong_models(folder)


def look_at(path: Path) -> None:
    header = read_header(path)
    take_inventory(in_gguf_terms(header) if is_foreign(header) else header)


def load(path: Path, kernel: Kernel) -> None:
    with open_model(path) as model:
        description = describe_model(model)
        for layer in description.moe_layers:
            for index in range(description.n_expert):
                expert_ranges(model, ExpertId(layer, index))
        load_model(model, kernel)
        load_vocabulary(model)


def line_of(each: WrongModel, kernel: Kernel) -> str:
    try:
        look_at(each.path) if each.command == "inspect" else load(each.path, kernel)
    except (P2pmoeError, WorkerError) as error:
        return f"{error}. {error.advice}"
    return "not refused"


def test_the_good_model_that_they_are_bent_from_is_good(tmp_path: Path) -> None:
    path = write_good(tmp_path)
    look_at(path)
    load(path, NumpyKernel())


def test_every_wrong_model_is_refused_for_its_own_reason(
    wrong: list[WrongModel],
) -> None:
    kernel = NumpyKernel()
    lines = {each: line_of(each, kernel) for each in wrong}
    assert len(lines) > 100
    others = {each.name: line for each, line in lines.items() if each.says not in line}
    assert others == {}
    assert not PWN.exists()


def command(each: WrongModel) -> tuple[str, ...]:
    if each.command == "inspect":
        return ("models", "inspect", str(each.path))
    place = each.path.with_suffix(".data")
    return ("serve", str(each.path), "--listen", "127.0.0.1:0", "--data", str(place))


@pytest.fixture(scope="module")
def ended(wrong: list[WrongModel]) -> dict[str, Forked]:
    found = run_forked([command(each) for each in wrong])
    return {each.name: one for each, one in zip(wrong, found, strict=True)}


def fault_of(each: WrongModel, outcome: Outcome) -> str:
    """Return what is wrong with how a command ended, or ""."""
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    if outcome.code != 2 or len(errors) != 1 or "Traceback" in outcome.err:
        return f"exit code {outcome.code}: {outcome.err}"
    if each.says not in errors[0] or outcome.out:
        return f"{each.says!r} is not in: {errors[0]} {outcome.out}"
    return ""


@pytest.mark.slow
def test_the_commands_say_one_line_and_exit_with_2(
    wrong: list[WrongModel], ended: dict[str, Forked]
) -> None:
    faults = {each.name: fault_of(each, ended[each.name].outcome) for each in wrong}
    assert {name: fault for name, fault in faults.items() if fault} == {}
    assert not PWN.exists()


@pytest.mark.slow
def test_no_wrong_model_costs_memory(ended: dict[str, Forked], tmp_path: Path) -> None:
    good = ("models", "inspect", str(write_good(tmp_path)))
    (base,) = run_forked([good])
    assert base.outcome.code == 0, base.outcome.err
    growth = {name: one.growth_bytes - base.growth_bytes for name, one in ended.items()}
    assert {n: b for n, b in growth.items() if b > MAX_GROWTH_BYTES} == {}
