"""Mapped files: the bytes that positioned reads give, within bounds."""

import os
from dataclasses import replace

import pytest

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.mapped.mapping import MappedFiles
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, model_of


@pytest.fixture
def experts():
    model_file = model_of(POCKET)
    return ExpertFile(model_file), MappedFiles(model_file.descriptors())


@pytest.mark.parametrize("expert", [ExpertId(1, 0), ExpertId(4, 17), ExpertId(7, 31)])
def test_an_expert_is_what_a_read_gives(experts, expert):
    file, mapped = experts
    ranges = file.ranges(expert)
    mapped.will_need(ranges)
    mine, theirs = mapped.weights(ranges, file.activation), file.weights(expert)
    for part in ("gate", "up", "down"):
        assert getattr(mine, part).raw == getattr(theirs, part).raw
        assert getattr(mine, part).format == getattr(theirs, part).format
        assert getattr(mine, part).raw.readonly


def test_what_lies_in_no_file_is_refused(experts):
    file, mapped = experts
    ranges = file.ranges(ExpertId(1, 0))
    size = POCKET.stat().st_size
    for offset in (size, size - ranges.gate.n_bytes + 1, 1 << 60):
        away = replace(ranges, gate=replace(ranges.gate, offset=offset))
        with pytest.raises(MatrixMalformed, match="lie in no file"):
            mapped.weights(away, file.activation)
        with pytest.raises(MatrixMalformed, match="lie in no file"):
            mapped.will_need(away)


def test_files_lie_end_to_end_and_nothing_spans_two(tmp_path):
    fds = []
    for number, size in enumerate((5000, 3000)):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number + 1]) * size)
        fds.append(os.open(path, os.O_RDONLY))
    mapped = MappedFiles(fds)
    for fd in fds:
        os.close(fd)
    assert bytes(mapped._view(4999, 1)) == b"\x01"
    assert bytes(mapped._view(5000, 2)) == b"\x02\x02"
    assert mapped._view(7990, 10).nbytes == 10
    for offset, size in ((4999, 2), (7999, 2), (8000, 1)):
        with pytest.raises(MatrixMalformed):
            mapped._view(offset, size)


def test_an_empty_file_cannot_be_mapped(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(ValueError, match="empty"):
        MappedFiles([fd])
    os.close(fd)
