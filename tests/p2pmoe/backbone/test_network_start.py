"""A service joins its network through here, and loads none of it without one."""

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.errors import WorkerError
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.network_start import NetworkStart, start_network
from p2pmoe.config import NetworkAccess, ServeConfig
from relay.endpoint import parse_endpoint
from relay.errors import RelayError
from tests.support.backbone_model import POCKET, manifest_of
from tests.support.trio_test import trio_test


@trio_test
async def test_an_unreachable_relay_is_an_error_and_the_spool_is_free_again(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    identity = Identity.generate()
    endpoint = parse_endpoint(f"wss://127.0.0.1:{port}/relay#{identity.peer_id.hex()}")
    start = NetworkStart(
        config=ServeConfig(model=POCKET, data=tmp_path),
        access=NetworkAccess(endpoint=endpoint),
        identity=identity,
        clock=SystemClock(),
        local=SimpleNamespace(),
        manifest=manifest_of(POCKET),
        counters=BackboneCounters(),
        on_coverage=lambda: None,
    )
    for _ in range(2):
        with pytest.RaisesGroup(
            pytest.RaisesExc((RelayError, WorkerError), match="127.0.0.1"),
            allow_unwrapped=True,
            flatten_subgroups=True,
        ):
            with trio.fail_after(20):
                async with start_network(start):
                    pass


def test_a_service_alone_loads_no_network() -> None:
    heavy = "('mobile_worker.links', 'mobile_worker.messages', 'relay.client')"
    program = (
        "import sys, p2pmoe.backbone.service\n"
        f"print([name for name in sys.modules if name.startswith({heavy})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
