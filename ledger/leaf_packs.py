"""A full leaf file, compressed: to 55 % or so, and still read by position.

Contract: layout, big-endian:

    magic "PMLP" | version u8 = 1 | n_bytes u64 | n_blocks u32
    | n_blocks times: length u32 of a compressed block | the blocks, one after the other

A block has 1,024 leaves of 79 bytes, the last one what is left; `n_bytes` is the length
of the plain file. A block's leaves are written byte by column (first all first bytes,
then all second ones), as most columns hardly change from leaf to leaf, and compressed
by zlib (RFC 1950), whose checksum is verified. Nothing is read beyond what the lengths
allow, whatever the file says. Packing reads its own file back before it is trusted.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from ledger.errors import DifferenceFound
from ledger.folders import sync_folder
from ledger.leaf import LEAF_BYTES

__all__ = ["BLOCK_BYTES", "pack_leaf_file", "packed_length", "read_packed"]

_HEADER = struct.Struct(">4sBQI")
_MAGIC, _VERSION = b"PMLP", 1
_BLOCK_LEAVES = 1024
BLOCK_BYTES = _BLOCK_LEAVES * LEAF_BYTES
_MAX_BYTES = 1 << 32  # of a plain file; they are closed at 64 MiB
_LEVEL = 6


def pack_leaf_file(plain: Path, packed: Path, n_bytes: int) -> bytes:
    """Write a packed copy of a leaf file's first bytes; the plain file stays.

    Args:
        plain: the leaf file, which nobody extends any more.
        packed: where to write.
        n_bytes: its committed length; a whole number of leaves.

    Returns:
        SHA-256 of the plain bytes [32], after the copy was read back and agreed.

    Raises:
        DifferenceFound: the file is shorter, or the copy does not read back.
        OSError: the disk refused; what was there before is still there.
    """
    partial = packed.with_name(f"{packed.name}.tmp")
    digest = sha256()
    blocks = []
    with plain.open("rb") as file:
        for length in _block_lengths(n_bytes):
            block = file.read(length)
            if len(block) != length or length % LEAF_BYTES:
                raise DifferenceFound(f"{plain} has fewer leaves than {n_bytes} bytes")
            digest.update(block)
            blocks.append(zlib.compress(_columns(block), _LEVEL))
    with partial.open("wb") as file:
        file.write(_HEADER.pack(_MAGIC, _VERSION, n_bytes, len(blocks)))
        file.write(b"".join(len(block).to_bytes(4, "big") for block in blocks))
        file.writelines(blocks)
        file.flush()
        os.fsync(file.fileno())
    back = sha256()
    for at in range(0, n_bytes, BLOCK_BYTES):
        back.update(read_packed(partial, at, min(BLOCK_BYTES, n_bytes - at)))
    if back.digest() != digest.digest():
        raise DifferenceFound(f"{partial} does not read back as {plain}")
    partial.replace(packed)
    sync_folder(packed.parent)
    return digest.digest()


def packed_length(path: Path) -> int:
    """Return the plain length of a packed file, whose size must fit what it says.

    Raises:
        DifferenceFound: no packed leaf file, or cut off.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        n_bytes, lengths = _index(file, path)
        size = os.fstat(file.fileno()).st_size
    needed = _HEADER.size + 4 * len(lengths) + sum(lengths)
    if size != needed:
        raise DifferenceFound(f"{path} has {size} bytes, needs {needed}")
    return n_bytes


def read_packed(path: Path, offset: int, n_bytes: int) -> bytes:
    """Return plain bytes at a position of the plain file.

    Raises:
        DifferenceFound: the file is damaged, or ends before.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        total, lengths = _index(file, path)
        if offset + n_bytes > total:
            raise DifferenceFound(f"{path} has {total} bytes, needs {offset + n_bytes}")
        first, last = offset // BLOCK_BYTES, (offset + n_bytes - 1) // BLOCK_BYTES
        file.seek(sum(lengths[:first]), os.SEEK_CUR)
        block = b"".join(
            _unpacked(
                file.read(lengths[number]),
                min(BLOCK_BYTES, total - number * BLOCK_BYTES),
                f"{path}: block {number}",
            )
            for number in range(first, last + 1)
        )
    start = offset - first * BLOCK_BYTES
    return block[start : start + n_bytes]


def _index(file: BinaryIO, path: Path) -> tuple[int, list[int]]:
    header = file.read(_HEADER.size)
    if len(header) != _HEADER.size:
        raise DifferenceFound(f"{path} is cut off in its header")
    magic, version, n_bytes, n_blocks = _HEADER.unpack(header)
    if (magic, version) != (_MAGIC, _VERSION):
        raise DifferenceFound(f"{path} is no packed leaf file of version {_VERSION}")
    if n_bytes > _MAX_BYTES or n_blocks != -(-n_bytes // BLOCK_BYTES):
        raise DifferenceFound(f"{path}: {n_blocks} blocks for {n_bytes} bytes")
    raw = file.read(4 * n_blocks)
    if len(raw) != 4 * n_blocks:
        raise DifferenceFound(f"{path} is cut off in its index")
    lengths = list(struct.unpack(f">{n_blocks}I", raw))
    if max(lengths, default=0) > 2 * BLOCK_BYTES:
        raise DifferenceFound(f"{path}: a block of {max(lengths)} bytes")
    return n_bytes, lengths


def _unpacked(raw: bytes, n_bytes: int, name: str) -> bytes:
    stream = zlib.decompressobj()
    try:
        columns = stream.decompress(raw, n_bytes + 1)
    except zlib.error as exc:
        raise DifferenceFound(f"{name} is damaged: {exc}") from exc
    if len(columns) != n_bytes or not stream.eof or stream.unused_data:
        raise DifferenceFound(f"{name} is not {n_bytes} bytes long")
    n_leaves = n_bytes // LEAF_BYTES
    block = bytearray(n_bytes)
    for column in range(LEAF_BYTES):
        start = column * n_leaves
        block[column::LEAF_BYTES] = columns[start : start + n_leaves]
    return bytes(block)


def _columns(block: bytes) -> bytes:
    return b"".join(block[column::LEAF_BYTES] for column in range(LEAF_BYTES))


def _block_lengths(n_bytes: int) -> Iterator[int]:
    for at in range(0, n_bytes, BLOCK_BYTES):
        yield min(BLOCK_BYTES, n_bytes - at)
