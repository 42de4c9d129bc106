from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.shards.bounds import ManifestError
from mobile_worker.shards.model_files import (
    MAX_PIECE_BYTES,
    BasePiece,
    ModelFilePart,
    check_base,
    check_files,
    file_starts,
)

URL = "https://models.example/m.gguf"
FILES = (
    ModelFilePart(n_bytes=100, urls=(URL,)),
    ModelFilePart(n_bytes=50, urls=(URL, "http://127.0.0.1/m")),
)


def piece(offset: int, n_bytes: int) -> BasePiece:
    return BasePiece(offset=offset, n_bytes=n_bytes, digest=bytes(32))


def test_files_lie_end_to_end() -> None:
    assert file_starts(FILES) == (0, 100, 150)
    assert file_starts(()) == (0,)
    check_files(FILES)
    check_files(())


@pytest.mark.parametrize(
    "file",
    [
        ModelFilePart(n_bytes=0, urls=(URL,)),
        ModelFilePart(n_bytes=1 << 61, urls=(URL,)),
        ModelFilePart(n_bytes=1, urls=()),
        ModelFilePart(n_bytes=1, urls=(URL,) * 17),
        ModelFilePart(n_bytes=1, urls=("http://models.example/m",)),
        ModelFilePart(n_bytes=1, urls=("https://x/" + "m" * 2048,)),
    ],
)
def test_a_file_out_of_bounds_is_refused(file: ModelFilePart) -> None:
    with pytest.raises(ManifestError):
        check_files((*FILES, file))


def test_base_may_touch_experts_but_not_cover_them() -> None:
    base = (piece(0, 10), piece(20, 10), piece(90, 30))
    check_base(base, FILES, [(120, 30), (10, 10)])
    for wrong in ((9, 2), (29, 1), (0, 150), (95, 1)):
        with pytest.raises(ManifestError, match="expert's bytes"):
            check_base(base, FILES, [wrong])


@pytest.mark.parametrize(
    "base",
    [
        (piece(149, 2),),
        (piece(-1, 2),),
        (piece(0, 0),),
        (piece(0, MAX_PIECE_BYTES + 1),),
        (piece(10, 10), piece(0, 10)),
        (piece(0, 10), piece(9, 10)),
        (BasePiece(offset=0, n_bytes=1, digest=b""),),
    ],
)
def test_base_out_of_bounds_or_order_is_refused(base: tuple[BasePiece, ...]) -> None:
    with pytest.raises(ManifestError):
        check_base(base, FILES, [])


spans = st.lists(st.tuples(st.integers(0, 140), st.integers(1, 10)), max_size=8)


@given(spans, spans)
def test_what_passes_has_no_byte_twice(base: list, experts: list) -> None:
    pieces = [piece(*span) for span in base]
    try:
        check_base(pieces, FILES, experts)
    except ManifestError:
        return
    ours = [at for one in pieces for at in range(one.offset, one.end)]
    theirs = {at for offset, n in experts for at in range(offset, offset + n)}
    assert all(before < after for before, after in pairwise(ours))
    assert not theirs & set(ours)
