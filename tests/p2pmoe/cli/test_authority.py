"""`--ca FILE`: authorities besides the system's, for every command that joins."""

from pathlib import Path

import pytest
import typer
import typer.main

from p2pmoe.cli.authority import use_authorities
from p2pmoe.cli.main import build_app
from relay.dial import CA_VARIABLE
from relay.errors import CertificateError
from tests.relay.test_dial import authority_files
from tests.support.operator_processes import run_operator_command


def test_option_variable_and_neither(tmp_path) -> None:
    file = authority_files(tmp_path).certificate
    environment: dict[str, str] = {}
    assert use_authorities(None, environment) is None
    assert environment == {}
    assert use_authorities(file, environment) == file
    assert environment == {CA_VARIABLE: str(file)}
    assert use_authorities(None, environment) == file


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\xff" * 100])
def test_a_file_without_authorities_is_one_line(tmp_path: Path, content) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CertificateError, match=r"ca\.pem") as caught:
        use_authorities(file, {})
    assert "PEM" in caught.value.advice
    with pytest.raises(CertificateError):
        use_authorities(None, {CA_VARIABLE: str(file)})


def test_every_command_that_joins_takes_it() -> None:
    root = typer.main.get_command(build_app())
    takes = {
        name
        for name, command in root.commands.items()
        if any("--invite" in parameter.opts for parameter in command.params)
    }
    assert takes >= {"serve", "contribute", "market", "ledgerd"}
    for name in takes:
        options = {o for p in root.commands[name].params for o in p.opts}
        assert "--ca" in options, name


def test_the_command_line_says_it_on_one_line(tmp_path) -> None:
    shown = run_operator_command("market", "--ca", str(tmp_path / "none.pem"))
    assert shown.returncode == 2
    [line] = shown.stderr.splitlines()
    assert "none.pem" in line
    assert "PEM" in line
