"""Reading references: good ones whole, and every kind of bad one as one line."""

import contextlib
import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.arithmetic.activation_kind import ActivationKind
from p2pmoe.check import reference
from p2pmoe.check.errors import ReferenceRefused
from p2pmoe.check.reference import check_fits, read_reference
from p2pmoe.model.description import ModelDescription
from tests.support.references import N_VOCAB, reference_arrays, write_reference
from tests.support.shared import shared_path


def npy(values: object) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


def npz(path: Path, entries: dict[str, bytes], **options: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, body in entries.items():
            archive.writestr(name, body)
    return path


def entries(**bodies: bytes) -> dict[str, bytes]:
    """Return the entries of a good file, some of them replaced."""
    good = {name: npy(values) for name, values in reference_arrays().items()}
    return {f"{name}.npy": body for name, body in {**good, **bodies}.items()}


def header(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def refused(path: Path) -> str:
    with pytest.raises(ReferenceRefused) as caught:
        read_reference(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.reason


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_good_file_is_read_whole(tmp_path, save):
    arrays = reference_arrays()
    save(tmp_path / "r.npz", **arrays, note=np.array("left alone"))
    read = read_reference(tmp_path / "r.npz")
    assert read.prompt == tuple(range(5, 15))
    assert read.rows == (0, 4, 9)
    assert read.greedy == (1, 2, 3, 4)
    assert read.logits.tobytes() == arrays["logits"].tobytes()
    assert read.n_vocab == N_VOCAB


@pytest.mark.parametrize("kind", ["i1", "u1", "u2", "<i8", "<u8"])
def test_integers_of_any_kind_and_logits_in_any_order_do(tmp_path, kind):
    logits = np.asfortranarray(reference_arrays()["logits"])
    path = write_reference(
        tmp_path / "r.npz", prompt=np.arange(5, 15).astype(kind), logits=logits
    )
    read = read_reference(path)
    assert read.prompt == tuple(range(5, 15))
    assert read.logits.tobytes() == np.ascontiguousarray(logits).tobytes()


def test_greedy_ids_may_be_none(tmp_path):
    path = write_reference(tmp_path / "r.npz", greedy=np.zeros(0, np.int32))
    assert read_reference(path).greedy == ()


@pytest.mark.parametrize("name", ["reference.npz", "reference_short.npz"])
def test_stored_references_are_read(name):
    read = read_reference(shared_path(f"models/tiny/minimax_m3/{name}"))
    assert read.logits.shape == (len(read.rows), 512)
    assert read.greedy


BAD: dict[str, tuple[dict[str, object], str]] = {
    "no-greedy": ({"greedy": None}, "has 0 arrays named 'greedy'"),
    "empty-prompt": ({"prompt": np.zeros(0, np.int32)}, "rows holds 0"),
    "prompt-2d": ({"prompt": np.ones((2, 5), np.int32)}, "prompt of shape (2, 5)"),
    "prompt-0d": ({"prompt": np.array(5)}, "prompt of shape ()"),
    "prompt-floats": ({"prompt": np.ones(10)}, "of type <f8"),
    "prompt-bools": ({"prompt": np.ones(10, bool)}, "of type |b1"),
    "prompt-text": ({"prompt": np.array(["a"] * 10)}, "no array of plain numbers"),
    "prompt-objects": ({"prompt": np.array([{}] * 10)}, "no array of plain numbers"),
    "big-endian": ({"prompt": np.ones(10, ">i4")}, "no array of plain numbers"),
    "ids-beyond": ({"prompt": np.full(10, N_VOCAB)}, "prompt holds 96, not 0 to 95"),
    "huge-id": ({"greedy": np.array([2**64 - 1], np.uint64)}, "greedy holds 1844"),
    "negative-id": ({"greedy": np.array([1, -1])}, "greedy holds -1"),
    "rows-beyond": ({"rows": np.array([0, 4, 10])}, "rows holds 10, not 0 to 9"),
    "rows-descend": ({"rows": np.array([4, 0, 9])}, "rows do not ascend"),
    "rows-twice": ({"rows": np.array([0, 4, 4])}, "rows do not ascend"),
    "rows-few": ({"rows": np.array([0, 4])}, "2 rows of a prompt of 10 ids for 3"),
    "logits-f64": ({"logits": np.zeros((3, N_VOCAB))}, "of type <f8, not <f4"),
    "logits-1d": ({"logits": np.zeros(9, np.float32)}, "logits of shape (9,)"),
    "logits-none": ({"logits": np.zeros((0, 9), np.float32)}, "logits of shape (0, 9)"),
    "logits-nan": (
        {"logits": np.full((3, N_VOCAB), np.nan, np.float32)},
        "not finite",
    ),
    "logits-infinite": (
        {"logits": np.full((3, N_VOCAB), -np.inf, np.float32)},
        "not finite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_are_no_reference(tmp_path, name):
    changes, words = BAD[name]
    arrays = reference_arrays(**changes)
    np.savez(tmp_path / "r.npz", **arrays)
    assert words in refused(tmp_path / "r.npz")


HEADERS: dict[str, tuple[bytes, str]] = {
    "no-magic": (b"nothing at all, but long enough", "prompt.npy is no array"),
    "empty": (b"", "prompt.npy is no array"),
    "version-3": (b"\x93NUMPY\x03\x00" + bytes(20), "prompt.npy is no array"),
    "long-header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "prompt.npy is no array"),
    "code": (header("__import__('os').getpid()", "(1,)"), "no array of plain"),
    "structure": (header("[('a', '<i4')]", "(1,)"), "no array of plain"),
    "negative": (header("'<i4'", "(-1,)"), "no array of plain"),
    "huge": (header("'<i4'", "(9999999999,)"), "has 39999999996 bytes, more than"),
    "wrapping": (header("'<i4'", "(4294967296, 4294967296)"), "more than"),
    "short": (header("'<i4'", "(10,)") + bytes(39), "needs 40 bytes, has 39"),
    "long": (header("'<i4'", "(10,)") + bytes(41), "needs 40 bytes, has 41"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_lie(tmp_path, name):
    body, words = HEADERS[name]
    assert words in refused(npz(tmp_path / "r.npz", entries(prompt=body)))


FILES: dict[str, bytes] = {
    "empty": b"",
    "text": b"Once upon a time\n" * 100,
    "npy": npy(np.arange(100)),
    "end-alone": b"PK\x05\x06" + bytes(18),
    "zip64": bytes(80) + b"PK\x06\x07" + bytes(16) + b"PK\x05\x06" + bytes(18),
    "directory-beyond": bytes(60)
    + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 4, 4, 9000, 9000, 0),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_npz(tmp_path, name):
    (tmp_path / "r.npz").write_bytes(FILES[name])
    assert ".npz file" in refused(tmp_path / "r.npz")


def test_a_file_that_cannot_be_read(tmp_path):
    assert "no such file" in refused(tmp_path / "none.npz")
    assert "no regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(tmp_path / "pipe")


def test_two_arrays_of_one_name(tmp_path):
    path = tmp_path / "r.npz"
    npz(path, entries())
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(path, "a") as archive,
    ):
        archive.writestr("rows.npy", npy(np.array([0, 1, 2])))
    assert "has 2 arrays named 'rows'" in refused(path)


def test_many_entries_and_other_compressions_are_refused(tmp_path):
    many = {f"{n}.npy": b"" for n in range(70)}
    assert "names 74 arrays" in refused(npz(tmp_path / "m.npz", entries() | many))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive:
        for name, body in entries().items():
            archive.writestr(name, body)
    assert "not stored or deflated" in refused(tmp_path / "x.npz")


def test_a_zip_bomb_costs_no_memory(tmp_path):
    n_bytes = 64 << 20
    bomb = header("'<f4'", f"({n_bytes // 4},)") + bytes(n_bytes)
    path = npz(tmp_path / "r.npz", entries(prompt=bomb), compresslevel=9)
    lying = npz(tmp_path / "l.npz", entries(prompt=npy(np.arange(10)) + bytes(n_bytes)))
    del bomb
    tracemalloc.start()
    try:
        assert "of type <f4" in refused(path)
        assert "needs" in refused(lying)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_large_file_is_refused_unread(tmp_path):
    path = tmp_path / "r.npz"
    with path.open("wb") as file:
        file.truncate(reference.MAX_FILE_BYTES + 1)
    assert "above" in refused(path)


def test_logits_above_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "MAX_LOGITS_BYTES", 1000)
    path = write_reference(tmp_path / "r.npz")
    assert "logits.npy has 1152 bytes, more than 1000" in refused(path)


def described(**changes: object) -> ModelDescription:
    sizes = {
        "architecture": "minimax-m3",
        "n_layer": 2,
        "n_embd": 64,
        "n_vocab": N_VOCAB,
        "n_context": 128,
        "n_expert": 4,
        "top_k": 2,
        "n_ff_expert": 32,
        "moe_layers": (1,),
        "activation": Activation(kind=ActivationKind.SWIGLU),
        "kv_bytes_per_token": 128,
    }
    return ModelDescription(**{**sizes, **changes})


def test_a_reference_of_another_model_is_refused(tmp_path):
    read = read_reference(write_reference(tmp_path / "r.npz"))
    check_fits(read, described())
    with pytest.raises(ReferenceRefused, match=r"has 96 logits a row, .* 97 tokens"):
        check_fits(read, described(n_vocab=97))
    with pytest.raises(ReferenceRefused, match=r"has 14 tokens, .* context 13"):
        check_fits(read, described(n_context=13))


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_bent_byte_is_read_or_refused(tmp_path, data):
    path = tmp_path / "r.npz"
    if not path.exists():
        np.savez(path, **reference_arrays())
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    bent = tmp_path / "bent.npz"
    bent.write_bytes(body[: data.draw(st.integers(len(body) - 60, len(body)))])
    with contextlib.suppress(ReferenceRefused):
        assert np.isfinite(read_reference(bent).logits).all()
