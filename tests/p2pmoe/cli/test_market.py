import subprocess
import sys
from pathlib import Path

from tests.support.operator_processes import OperatorProcess, run_operator_command


def test_it_joins_the_network_that_names_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "net")
    relay = OperatorProcess(
        tmp_path,
        *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
        *("--only", "--data", folder),
    )
    try:
        assert "p2pmoe market --invite" in relay.log.read_text()
        invite = str(relay.report["invite"])
        market = OperatorProcess(
            tmp_path, "market", "--invite", invite, "--data", folder
        )
        assert market.report["peer_id"] == relay.report["market"]
        assert market.stop() == 0
        other = run_operator_command(
            "market", "--invite", invite, "--data", str(tmp_path / "other")
        )
        assert other.returncode == 2
        assert "the network's market is" in other.stderr
    finally:
        relay.kill()


def test_without_an_invite_it_says_where_to_name_one() -> None:
    shown = run_operator_command("market")
    assert shown.returncode == 2
    assert "P2PMOE_INVITE" in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


def test_no_service_of_the_operator_ever_loads_numpy_or_wasmtime() -> None:
    modules = (
        "p2pmoe.cli.relay, p2pmoe.cli.market, p2pmoe.cli.ledgerd, "
        "p2pmoe.network.operator, p2pmoe.network.running, p2pmoe.ledgerd.service"
    )
    heavy = "{'numpy', 'wasmtime'} & set(sys.modules)"
    code = f"import sys, {modules}; sys.exit(bool({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
