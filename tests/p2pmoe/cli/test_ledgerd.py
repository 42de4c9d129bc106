from pathlib import Path

from tests.support.operator_processes import OperatorProcess, run_operator_command


def test_it_joins_the_network_that_names_it_and_comes_back_after_a_kill(
    tmp_path: Path,
) -> None:
    folder = str(tmp_path / "net")
    relay = OperatorProcess(
        tmp_path,
        *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
        *("--only", "--data", folder),
    )
    try:
        for _ in range(2):
            ledger = OperatorProcess(
                tmp_path,
                *("ledgerd", "--invite", str(relay.report["invite"])),
                *("--data", folder, "--opening-credit", "5"),
            )
            assert ledger.report["peer_id"] == relay.report["ledger"]
            assert Path(ledger.report["store"]).is_dir()
            ledger.kill()
    finally:
        relay.kill()


def test_an_invite_that_is_none_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "invite.json"
    path.write_text("{}")
    shown = run_operator_command("ledgerd", "--invite", str(path))
    assert shown.returncode == 2
    assert str(path) in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
