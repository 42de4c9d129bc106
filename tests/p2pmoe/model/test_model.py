from pathlib import Path

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.model import Model, architectures, describe_model, load_model
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.mini_m3 import write_mini_m3


def test_the_files_architecture_is_loaded(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        model: Model = load_model(model_file, NumpyKernel())
        assert model.description == describe_model(model_file)


def test_a_header_is_enough_to_describe_a_model(tmp_path: Path) -> None:
    path = write_mini_m3(tmp_path / "m.gguf")
    with open_model(path) as model_file:
        whole = describe_model(model_file)
    path.write_bytes(path.read_bytes()[:-5000])  # tensor data is missing
    assert describe_model(read_header(path)) == whole


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mamba", "architecture 'mamba' is not one of: .*glm4moe.*, qwen3moe$"),
        ("kimi-k3", "Kimi-K3 is not run here: .* latent experts against$"),
        ("x" * 1000, "architecture 'x{80}' is not"),
    ],
)
def test_another_architecture_is_refused_in_one_line(
    tmp_path: Path, name: str, reason: str
) -> None:
    path = write_mini_m3(tmp_path / "m.gguf", {"general.architecture": name})
    with open_model(path) as model_file:
        for function in (describe_model, lambda f: load_model(f, NumpyKernel())):
            with pytest.raises(ModelRefused, match=reason) as caught:
                function(model_file)
            assert "\n" not in str(caught.value)
            assert ("models inspect" in caught.value.advice) == (name == "kimi-k3")


def test_the_architectures_are_named() -> None:
    names = architectures()
    assert names == tuple(sorted(names))
    assert {"deepseek2", "llama", "minimax-m3"} <= set(names)
    assert "kimi-k3" not in names
