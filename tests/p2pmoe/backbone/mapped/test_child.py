"""The child's loop, run here over a socket pair: values, refusals, its end."""

import signal
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.mapped import child
from p2pmoe.backbone.mapped.child import Computer, serve
from p2pmoe.backbone.mapped.frames import read_frame, send_frame
from p2pmoe.backbone.mapped.mapping import MappedFiles
from p2pmoe.backbone.mapped.messages import (
    Call,
    Kind,
    MessageMalformed,
    Reason,
    Work,
    pack_work,
    parse_beat,
    parse_refused,
    parse_values,
)
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, model_of
from tests.support.mapped import KERNEL, disk_work, right_values

FILE = ExpertFile(model_of(POCKET))


def order(layer: int = 2, *indices: int) -> Work:
    asked = disk_work(FILE, layer, *indices)
    calls = [
        Call(
            expert=ExpertId(layer, one.expert),
            ranges=FILE.ranges(ExpertId(layer, one.expert)),
            activation=FILE.activation,
            rows=one.rows,
        )
        for one in asked.calls
    ]
    return Work(job=5, profile=asked.profile, rows=asked.coded, calls=calls)


@pytest.fixture
def parent():
    ours, theirs = socket.socketpair()
    computer = Computer(MappedFiles(model_of(POCKET).descriptors()), KERNEL)
    ended: list[type[BaseException] | None] = []

    def run() -> None:
        with theirs:
            try:
                serve(theirs, computer)
            except (MessageMalformed, OSError) as error:
                ended.append(type(error))
            else:
                ended.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    with ours:
        yield ours, ended
    thread.join(10)
    assert len(ended) == 1


def said(link: socket.socket):
    """Return the next frame that is no beat."""
    while True:
        frame = read_frame(link)
        if frame is None or frame[0] is not Kind.BEAT:
            return frame


def test_it_tells_what_it_holds_first(parent):
    frame = read_frame(parent[0])
    assert frame is not None
    assert frame[0] is Kind.BEAT
    assert parse_beat(frame[1]).minor_faults > 0


def test_values_are_those_of_the_kernel_in_the_order_of_calls(parent):
    link, _ = parent
    work = order(2, 4, 9, 30)
    send_frame(link, Kind.WORK, pack_work(work))
    right = right_values(FILE, disk_work(FILE, 2, 4, 9, 30))
    for index in (4, 9, 30):
        kind, body = said(link)
        assert kind is Kind.VALUES
        values = parse_values(body)
        assert (values.job, values.expert) == (5, ExpertId(2, index))
        assert values.values.tobytes() == right[index]
        assert values.micros > 0


def test_an_expert_that_is_nowhere_is_refused_and_the_others_are_computed(parent):
    link, _ = parent
    work = order(2, 4, 9)
    away = replace(work.calls[0].ranges.gate, offset=1 << 50)
    ranges = replace(work.calls[0].ranges, gate=away)
    work = replace(work, calls=[replace(work.calls[0], ranges=ranges), work.calls[1]])
    send_frame(link, Kind.WORK, pack_work(work))
    kind, body = said(link)
    assert kind is Kind.REFUSED
    assert parse_refused(body).reason is Reason.UNFIT
    assert said(link)[0] is Kind.VALUES


def test_what_is_not_finite_is_refused_as_such(parent):
    link, _ = parent
    huge = CodedRows(
        codes=np.full((1, 256), 127, np.int8),
        scales=np.full((1, 8), 3e38, np.float32),
    )
    work = replace(order(2, 4), rows=ExpertInput(coded=huge), profile=Profile.R16)
    work = replace(work, calls=[replace(work.calls[0], rows=None)])
    send_frame(link, Kind.WORK, pack_work(work))
    kind, body = said(link)
    assert kind is Kind.REFUSED
    assert parse_refused(body).reason is Reason.NON_FINITE


def test_it_ends_when_the_parent_does(parent):
    link, ended = parent
    link.shutdown(socket.SHUT_WR)
    assert said(link) is None
    assert ended == [None]


def test_what_it_does_not_understand_ends_it(parent):
    link, ended = parent
    send_frame(link, Kind.WORK, b"what?")
    assert said(link) is None
    assert ended == [MessageMalformed]


def test_only_work_is_for_the_child(parent):
    link, ended = parent
    send_frame(link, Kind.BEAT, b"")
    assert said(link) is None
    assert ended == [MessageMalformed]


def test_it_beats_while_it_computes(parent, monkeypatch):
    link, _ = parent
    monkeypatch.setattr(child, "BEAT_S", 0.0)
    send_frame(link, Kind.WORK, pack_work(order(2, 4)))
    kinds = []
    while Kind.VALUES not in kinds:
        kinds.append(read_frame(link)[0])
    assert Kind.BEAT in kinds


def test_signals_for_the_parent_are_left_to_it(monkeypatch):
    ignored = []
    monkeypatch.setattr(
        signal, "signal", lambda number, action: ignored.append((number, action))
    )
    limits = []
    monkeypatch.setattr(
        child.resource, "setrlimit", lambda _, limit: limits.append(limit)
    )
    monkeypatch.setattr(child.sys, "platform", "other")
    child._settle()
    assert ignored == [
        (signal.SIGINT, signal.SIG_IGN),
        (signal.SIGTERM, signal.SIG_IGN),
    ]
    assert limits == [(0, 0)]


def test_what_cannot_be_mapped_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(child, "_settle", lambda: None)
    empty = tmp_path / "empty"
    empty.touch()
    with empty.open("rb") as file:
        assert child.main(["0", "numpy", "1", str(file.fileno())]) == 2
    assert child.main(["0", "abacus", "1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "abacus" in lines[1]
