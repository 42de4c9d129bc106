"""Probing a relay: frames to oneself, each accounted for."""

import pytest
import trio

from p2pmoe.probe.measure import probe_relay, visitor
from p2pmoe.probe.report import ProbePlan
from relay.errors import ConnectionLost, TokenRefused
from relay.frame_types import GoneReason, NackReason
from relay.tokens import Role
from tests.support.relays import (
    NETWORK,
    PLAINTEXT,
    RELAY,
    key,
    plain_config,
    running_relay,
    tls_config,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

FEW = ProbePlan(n_frames=20, frames_s=1000.0, frame_bytes=300)


@trio_test
async def test_every_frame_comes_back() -> None:
    async with running_relay(tls_config()) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        report = await probe_relay(endpoint, visitor(b""), FEW, wall_us=wall_us)
    frames = report.frames
    assert (frames.n_sent, frames.n_back) == (20, 20)
    assert (frames.n_dropped, frames.n_lost) == (0, 0)
    assert all(each > 0 for each in frames.round_trips_s)
    assert report.is_pinned_key
    assert report.welcome.relay_id == RELAY.peer_id
    assert report.joined_s > report.route.tls_s > 0


@trio_test(autojump=True)
async def test_frames_that_the_relay_drops_are_counted_by_cause() -> None:
    """For a while the relay does not know the peer that the frames are for."""
    plan = ProbePlan(n_frames=4, frames_s=1.0)
    who = visitor(b"", seed=bytes([7]) * 32)
    async with running_relay() as relay:
        endpoint = relay.endpoint("127.0.0.1")

        async def shut_out() -> None:
            await trio.sleep(1.5)
            connection = relay.switch.registry.active.pop(who.peer_id)
            await trio.sleep(2)
            relay.switch.registry.active[who.peer_id] = connection

        async with trio.open_nursery() as nursery:
            nursery.start_soon(shut_out)
            report = await probe_relay(
                endpoint, who, plan, wall_us=wall_us, settings=PLAINTEXT
            )
    assert report.frames.n_back == 2
    assert report.frames.n_dropped == 2
    assert set(report.frames.dropped) <= {NackReason.NOT_HERE, NackReason.GONE}
    assert report.frames.n_lost == 0


@trio_test
async def test_a_closed_relay_wants_the_invites_token() -> None:
    config = plain_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        with pytest.raises(TokenRefused):
            await probe_relay(
                endpoint, visitor(b""), FEW, wall_us=wall_us, settings=PLAINTEXT
            )
        token = token_for(key(1), peer_id=None)
        report = await probe_relay(
            endpoint, visitor(token), FEW, wall_us=wall_us, settings=PLAINTEXT
        )
    assert report.frames.n_back == 20


@trio_test(autojump=True)
async def test_a_relay_that_goes_away_meanwhile() -> None:
    plan = ProbePlan(n_frames=100, frames_s=1.0)
    async with running_relay() as relay, trio.open_nursery() as nursery:

        async def end_it() -> None:
            await trio.sleep(3)
            for peer in list(relay.switch.registry.active.values()):
                peer.end(GoneReason.SLOW, 1008, "ended")

        nursery.start_soon(end_it)
        with pytest.raises(ConnectionLost):
            await probe_relay(
                relay.endpoint("127.0.0.1"),
                visitor(b""),
                plan,
                wall_us=wall_us,
                settings=PLAINTEXT,
            )


def test_a_visitor_takes_the_role_that_its_token_allows() -> None:
    assert visitor(b"").role is Role.CLIENT
    assert visitor(b"nonsense").role is Role.CLIENT
    assert visitor(token_for(key(1))).role is Role.CLIENT
    assert visitor(token_for(key(1), role=Role.WORKER)).role is Role.WORKER
    assert visitor(b"").peer_id != visitor(b"").peer_id
