from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, decode_result
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.expert_id import ExpertId
from p2pmoe.model.experts import Routing
from p2pmoe.model.local_experts import LocalExperts, read_expert_weights
from p2pmoe.model.products import code_input, kinds_of
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support import arithmetic_oracle as oracle
from tests.support.mini_m3 import mini_tensors, write_mini_m3

KERNEL = NumpyKernel()
HIDDEN = fixed_rows("hidden", 3, 64)
ROUTING = Routing(
    experts=np.array([[0, 2], [1, 2], [0, 1]]),
    weights=np.array([[1.0, 0.5], [0.25, 0.125], [0.75, 2.0]], np.float32),
)


def test_results_are_coded_like_anyone_elses(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        weights = [read_expert_weights(model_file, ExpertId(1, e)) for e in range(4)]
        for profile in Profile:
            local = LocalExperts.load(model_file, KERNEL, profile)
            total = local.begin(1, HIDDEN, ROUTING).finish()
            for i in range(3):
                expected = np.zeros(64, np.float32)
                for e, w in zip(ROUTING.experts[i], ROUTING.weights[i], strict=True):
                    kinds = kinds_of([weights[e].gate])
                    rows = code_input(KERNEL, HIDDEN[i : i + 1], kinds)
                    coded = KERNEL.expert(weights[e], rows, profile)
                    expected += decode_result(coded, profile, 1, 64)[0] * w
                assert np.array_equal(total[i], expected)


def test_a_token_alone_and_in_a_batch(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        local = LocalExperts.load(model_file, KERNEL)
    together = local.begin(1, HIDDEN, ROUTING).finish()
    for i in range(3):
        own = Routing(
            experts=ROUTING.experts[i : i + 1], weights=ROUTING.weights[i : i + 1]
        )
        alone = local.begin(1, HIDDEN[i : i + 1], own).finish()
        assert np.array_equal(alone[0], together[i])


def test_weights_are_the_files_bytes(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        own = read_expert_weights(model_file, ExpertId(1, 3))
        whole = model_file.read("blk.1.ffn_down_exps.weight")
    assert bytes(own.down.raw) == whole[3 * len(whole) // 4 :]
    assert oracle.read_row("Q8_0", bytes(own.gate.raw[:68]))


def test_an_expert_is_read_and_checked_when_it_is_first_called(tmp_path: Path) -> None:
    name = "blk.1.ffn_up_exps.weight"
    raw = bytearray(mini_tensors()[name].content)
    raw[-34:-32] = b"\0\x7c"  # the last expert's
    path = write_mini_m3(tmp_path / "m.gguf", tensors={name: bytes(raw)})
    with open_model(path) as model_file:
        local = LocalExperts.load(model_file, KERNEL)
    local.begin(1, HIDDEN, ROUTING).finish()
    assert local.layer(1, [2])[2] is local.layer(1, [2])[2]
    last = Routing(experts=np.array([[3]] * 3), weights=np.ones((3, 1), np.float32))
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"up of expert 1\.3: row 31"):
            local.begin(1, HIDDEN, last).finish()
