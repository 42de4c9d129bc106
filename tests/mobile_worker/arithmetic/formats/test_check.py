import struct

import pytest

from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats import check
from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.arithmetic.formats.check import check_matrix
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix
from tests.support.format_oracle import HALF_FIELDS
from tests.support.formats import matrix_of

FIELDS = [
    *[
        (Format[name], at, struct.pack("<H", bits))
        for name, places in (*HALF_FIELDS.items(), ("F16", (0,)))
        for at in places
        for bits in (0x7C00, 0xFC00, 0x7E01)
    ],
    *[(Format.F32, 0, struct.pack("<I", bits)) for bits in (0x7F80_0000, 0xFFC0_0001)],
    *[(Format.BF16, 0, struct.pack("<H", bits)) for bits in (0x7F80, 0xFFC1)],
    (Format.MXFP4, 0, b"\xff"),
]


@pytest.mark.parametrize("block_format", FORMATS)
def test_numbers_are_let_through(block_format: Format) -> None:
    check_matrix(fixed_matrix("m", block_format, 5, 512))


@pytest.mark.parametrize(("block_format", "at", "field"), FIELDS)
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_the_first_bad_row_is_named(
    block_format: Format,
    at: int,
    field: bytes,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check, "_ROWS_BYTES", at_once)
    good = fixed_matrix("m", block_format, 7, 512)
    raw = bytearray(good.raw)
    _, n_bytes = block_size(block_format)
    row = len(raw) // 7
    for bad_row in (6, 4):  # in the last block of the row
        place = (bad_row + 1) * row - n_bytes + at
        raw[place : place + len(field)] = field
    with pytest.raises(MatrixMalformed, match=f"row 4 of a {block_format.name} matrix"):
        check_matrix(matrix_of(block_format, raw, 512))


def test_any_scale_byte_of_nvfp4_is_a_number() -> None:
    for byte in range(256):
        check_matrix(matrix_of(Format.NVFP4, bytes([byte] * 36), 64))


def test_other_formats_are_refused_by_name() -> None:
    with pytest.raises(FormatUnsupported, match="IQ2_XS"):
        check_matrix(matrix_of(Format.IQ2_XS, bytes(74), 256))
