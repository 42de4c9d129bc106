"""The surface of a real node."""

import pytest

from mobile_worker.errors import SendQueueFull, UnsendableMessage
from mobile_worker.links import PathKind, open_node
from mobile_worker.messages import Blob, Cancel
from mobile_worker.session.pieces import MAX_QUEUED_BYTES
from tests.support.nodes import LOCAL, next_arrival, settings_of
from tests.support.trio_test import trio_test


@trio_test
async def test_the_newer_record_is_kept_and_forgetting_forgets():
    async with (
        open_node(settings_of(1)) as a,
        open_node(settings_of(2, listen=LOCAL)) as b,
    ):
        old, new = b._presence._sign(b.record), b._presence._sign(b.record)
        if new.sequence <= old.sequence:
            new = b._presence._sign(old)
        a.learn(new)
        a.learn(old)
        assert a.record_of(b.peer_id) == new
        a.learn(a.record)
        assert a.record_of(a.peer_id) is None
        a.send(b.peer_id, Cancel(request=1))
        await next_arrival(b)
        a.forget(b.peer_id)
        assert a.record_of(b.peer_id) is None
        assert a.path(b.peer_id) is None
        a.learn(new)
        a.send(b.peer_id, Cancel(request=2))
        assert (await next_arrival(b)).message == Cancel(request=2)


@trio_test
async def test_what_cannot_be_sent_is_refused_at_once():
    async with open_node(settings_of(1)) as a, open_node(settings_of(2)) as b:
        with pytest.raises(UnsendableMessage):
            a.send(b.peer_id, Cancel(request=-1))
        assert a.path(b.peer_id) is None
        assert a.traffic.up_bytes[PathKind.DIRECT] == 0
        assert a.relay_heard_s is None


@trio_test
async def test_the_queue_of_a_peer_is_bounded():
    async with (
        open_node(settings_of(1)) as a,
        open_node(settings_of(2, listen=LOCAL)) as b,
    ):
        a.learn(b.record)
        body = bytes(30 << 20)
        message = Blob(
            request=1, digest=bytes(32), offset=0, total=1, error=0, body=body
        )
        assert a.waiting_bytes(b.peer_id) == 0
        for _ in range(MAX_QUEUED_BYTES // len(body)):
            a.send(b.peer_id, message)
        assert MAX_QUEUED_BYTES * 0.8 < a.waiting_bytes(b.peer_id) <= MAX_QUEUED_BYTES
        with pytest.raises(SendQueueFull):
            a.send(b.peer_id, message)
