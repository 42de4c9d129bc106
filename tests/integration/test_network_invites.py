"""The operator's commands beside a relay that runs: invite, join, revoke, come back."""

import functools
import signal
from pathlib import Path

import pytest
import trio

from p2pmoe.network.invite import read_invite
from relay.client import connect
from relay.errors import ConnectionLost, TokenRefused
from relay.tokens import Role
from tests.support.command_line import run
from tests.support.operator_processes import OperatorProcess
from tests.support.relays import credentials, going_clock, key

RELAY = ("relay", "--only", "--self-signed", "--listen", "127.0.0.1:0")


def network(*words: str, folder: Path) -> None:
    outcome = run("network", *words, "--data", str(folder))
    assert outcome.code == 0, outcome.err


def member(file: Path, number: int):
    """A connection of this member, by its invite."""
    invite = read_invite(file)
    who = credentials(key(number), role=Role.WORKER, token=invite.token)
    return connect(invite.relay, who, wall_us=going_clock())


def test_who_is_revoked_is_closed_and_stays_out_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    relay = OperatorProcess(tmp_path, *RELAY, "--data", str(folder))
    try:
        for name in ("alice", "bob", "carol"):
            words = ("--name", name, "--role", "worker")
            network("invite", *words, folder=folder)
        trio.run(functools.partial(three_members, relay, folder))
    finally:
        relay.kill()


async def three_members(relay: OperatorProcess, folder: Path) -> None:
    alice, bob, carol = (
        folder / "invites" / f"{name}.json" for name in ("alice", "bob", "carol")
    )
    with trio.fail_after(120):
        async with member(alice, 1) as first, member(bob, 2) as second:
            async with member(carol, 3) as third:
                shut_out = ("alice", "--peer", key(2).peer_id.hex())
                # In a thread: the three answer the relay's pings meanwhile.
                revoke = functools.partial(network, "revoke", *shut_out, folder=folder)
                await trio.to_thread.run_sync(revoke)
                relay.process.send_signal(signal.SIGHUP)
                for revoked in (first, second):
                    with pytest.raises(ConnectionLost):
                        async for _ in revoked.events():
                            pass
                third.send(key(3).peer_id, b"still here", nack=False)
                event = await anext(third.events())
                assert event.payload == b"still here"
        for file, number in ((alice, 1), (alice, 4), (bob, 2)):
            with pytest.raises(TokenRefused):
                async with member(file, number):
                    pass
        async with member(bob, 5):  # bob's invite was not revoked, peer 2 was
            pass


@pytest.mark.slow
def test_a_revoked_members_invite_is_replaced_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    tokens = []
    for _ in range(3):
        relay = OperatorProcess(tmp_path, *RELAY, "--data", str(folder))
        assert relay.stop() == 0
        tokens.append(read_invite(folder / "invite.json").token)
        if len(tokens) == 2:
            network("revoke", str(folder / "invite.json"), folder=folder)
    assert tokens[0] == tokens[1] != tokens[2]
