from pathlib import Path

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.model import Model, describe_model, load_model
from p2pmoe.weights.model_file import open_model
from tests.support.mini_m3 import write_mini_m3


def test_the_files_architecture_is_loaded(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        model: Model = load_model(model_file, NumpyKernel())
        assert model.description == describe_model(model_file)


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    path = write_mini_m3(tmp_path / "m.gguf", {"general.architecture": "kimi-k3"})
    with open_model(path) as model_file:
        for function in (describe_model, lambda f: load_model(f, NumpyKernel())):
            with pytest.raises(ModelRefused, match="'kimi-k3' is not one of"):
                function(model_file)
