from pathlib import Path

from mobile_worker.arithmetic.activation_kind import ActivationKind
from p2pmoe.model.model import describe_model
from p2pmoe.weights.model_file import open_model
from tests.support.mini_m3 import write_mini_m3


def test_sizes_come_from_the_file(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        own = describe_model(model_file)
    assert (own.n_layer, own.n_embd, own.n_vocab, own.n_context) == (2, 64, 96, 128)
    assert (own.n_expert, own.top_k, own.n_ff_expert) == (4, 2, 32)
    assert own.moe_layers == (1,)
    assert own.activation.kind is ActivationKind.SWIGLU_OAI
    assert own.kv_bytes_per_token == 2 * (2 * 2 * 32 * 4) + 32 * 4
