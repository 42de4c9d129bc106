"""Memory is measured, not claimed: what serve takes stays inside --ram (fault B15)."""

import threading
import time
from pathlib import Path

import httpx
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.demo.facts import Metrics
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe
from tests.support.command_line import Running

N_CLIENTS, N_REQUESTS, N_TOKENS = 4, 5, 12
WITHIN_S = 600.0


def look(url: str) -> httpx.Response:
    return httpx.get(url, timeout=WITHIN_S, trust_env=False)


def ask(url: str, client: int) -> None:
    for number in range(N_REQUESTS):
        prompt = [(17 * client + 5 * number + 3 * k) % 4000 + 20 for k in range(40)]
        body = {"prompt": prompt, "max_tokens": N_TOKENS, "temperature": 1, "seed": 1}
        answer = httpx.post(
            f"{url}/v1/completions", json=body, timeout=WITHIN_S, trust_env=False
        )
        assert answer.status_code == 200


@pytest.mark.slow
def test_b15_serve_stays_inside_its_memory(tmp_path: Path) -> None:
    """270 MB of experts, room for a fifth of them; each request reads many anew."""
    moe = SyntheticMoe(format=Format.Q4_0, n_layer=4)
    path = write_moe(tmp_path / "moe.gguf", moe)
    words = ("serve", str(path), "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    serve = Running(tmp_path, *words, "--ram", "200M", "--context", "128")
    try:
        url = "http://{}:{}".format(*serve.report["listen"])
        end = time.monotonic() + WITHIN_S
        while look(f"{url}/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        threads = [
            threading.Thread(target=ask, args=(url, client))
            for client in range(N_CLIENTS)
        ]
        for thread in threads:
            thread.start()
        most = 0.0
        while any(thread.is_alive() for thread in threads):
            page = Metrics(look(f"{url}/metrics").text)
            now, before = (
                page.total("p2pmoe_ram_resident_bytes", when=when)
                for when in ("now", "before")
            )
            most = max(most, now - before)
            time.sleep(0.1)
        planned = page.total("p2pmoe_ram_planned_bytes")
        assert page.total("p2pmoe_disk_reads_total") > 200
        assert planned == 200 * 2**20
        assert most < planned
        assert page.total("p2pmoe_hot_bytes") < 0.5 * moe.n_bytes
    finally:
        serve.kill()
