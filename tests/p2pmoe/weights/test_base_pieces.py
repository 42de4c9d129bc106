"""What is base: everything but the experts, header and all."""

import hashlib
from pathlib import Path

import pytest

from mobile_worker.shards.model_files import MAX_PIECE_BYTES
from p2pmoe.weights.base_pieces import base_spans, hash_base, is_base
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import write_gguf
from tests.support.mini_m3 import write_mini_m3
from tests.support.mini_models import vector


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("token_embd.weight", True),
        ("blk.3.attn_q.weight", True),
        ("blk.3.ffn_gate_inp.weight", True),
        ("blk.3.ffn_gate_shexp.weight", True),
        ("blk.3.ffn_gate_exps.weight", False),
        ("blk.3.ffn_up.7.weight", False),
        ("blk.3.ffn_down_exps.bias", False),
        ("blk.8.attn_q.weight", False),  # of a block that is no layer
    ],
)
def test_base_is_what_no_worker_computes(name: str, base: bool) -> None:
    assert is_base(name, 8) is base


def test_base_and_experts_make_up_the_file(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "mini.gguf")) as model:
        spans = base_spans(model, (0, model.n_bytes))
        assert spans[0][0] == 0
        base = {at for first, n in spans for at in range(first, first + n)}
        experts = [part for e in build_manifest(model).experts for part in e.ranges]
        theirs = {at for first, n in experts for at in range(first, first + n)}
        assert not base & theirs
        for name, tensor in model.tensors.items():
            place = range(tensor.offset, tensor.offset + tensor.n_bytes)
            assert set(place) <= (base if is_base(name, 2) else theirs)


def test_a_file_without_tensors_is_all_header(tmp_path: Path) -> None:
    keys = {"general.architecture": "olmoe", "olmoe.block_count": 1}
    path = write_gguf(tmp_path / "m.gguf", keys, [vector("output_norm.weight", 8)])
    with open_model(path) as model:
        size = model.n_bytes
        assert base_spans(model, (0, size, size + 100)) == [(0, size + 100)]


def test_pieces_are_short_and_hashed(tmp_path: Path) -> None:
    seen = []
    with open_model(write_mini_m3(tmp_path / "mini.gguf")) as model:
        spans = base_spans(model, (0, model.n_bytes))
        pieces = hash_base(model, spans, lambda *told: seen.append(told))
        total = sum(n for _, n in spans)
        assert sum(piece.n_bytes for piece in pieces) == total
        assert seen[-1] == (total, total)
        for piece in pieces:
            assert piece.n_bytes <= MAX_PIECE_BYTES
            body = model.read_range(piece.offset, piece.n_bytes)
            assert hashlib.sha256(body).digest() == piece.digest
