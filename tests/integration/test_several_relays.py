"""A second relay host by the steps of docs/how-to/several-relays.md, as real processes.

The second holds no key of the network. Its peers find the market, which runs with the
first relay, at home on theirs.
"""

import contextlib
import shutil
import signal
from pathlib import Path

import pytest

from mobile_worker.links import open_node
from mobile_worker.messages import Cancel
from p2pmoe.network.invite import read_invite
from relay.endpoint import parse_endpoint
from relay.keys import peer_id_from_hex
from relay.tokens import Role
from tests.support.nodes import settings_of, until
from tests.support.operator_processes import OperatorProcess, run_operator_command
from tests.support.trio_test import trio_test

PUBLIC = ("network.descriptor", "relays.map")
RELAY = ("relay", "--self-signed", "--listen", "127.0.0.1:0")


@pytest.mark.slow
def test_a_relay_without_the_networks_key_serves_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    with contextlib.ExitStack() as running:

        def run(*words: str) -> OperatorProcess:
            process = OperatorProcess(tmp_path, *words)
            running.callback(process.kill)
            return process

        one = run(*RELAY, "--data", str(first))
        shutil.copy(first / PUBLIC[0], second)
        two = run(*RELAY, "--only", "--data", str(second))
        assert not (second / "network.key").exists()
        urls = [str(each.report["relay"]) for each in (one, two)]
        for url in urls:
            added = run_operator_command(
                "network", "relays", "add", url, "--data", str(first)
            )
            assert added.returncode == 0, added.stderr
        shutil.copy(first / PUBLIC[1], second)
        for each in (one, two):
            each.process.send_signal(signal.SIGHUP)
        market = peer_id_from_hex((first / "market.id").read_text().strip())
        find_market(urls, market, read_invite(first / "invite.json").token)


@trio_test
async def find_market(urls: list[str], market: bytes, token: bytes) -> None:
    """Join by the second relay alone; end up at home on both, as the market is."""
    settings = settings_of(
        1, relay=parse_endpoint(urls[1]), role=Role.WORKER, token=token
    )
    async with open_node(settings) as node:
        await until(lambda: set(node.record.relays) == set(urls), within_s=60)
        node.send(market, Cancel(request=1))
        await until(lambda: node.path(market), within_s=60)
        state = node._switchboard.peers[market]

        def is_at_both() -> bool:
            paths = [state.at(relay) for relay in node._switchboard.relays]
            return len(paths) == 2 and all(path.present for path in paths)

        await until(is_at_both, within_s=60)
