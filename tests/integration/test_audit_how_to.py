"""docs/how-to/audit-the-ledger.md works as it is written."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.honest_books import copy_of_honest_books
from tests.support.independent import independent
from tests.support.ledger_commands import run
from tests.support.ledger_world import Party

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit-the-ledger.md"


def test_every_command_of_the_page(tmp_path, monkeypatch, capsys):
    books = tmp_path / "books"
    world = copy_of_honest_books(books)
    monkeypatch.chdir(tmp_path)
    placeholders = {
        "NETWORK": world.network.id.hex(),
        "LEDGER": world.ledger.id.hex(),
        "MARKET": world.market.id.hex(),
        "ID": Party("ada").id.hex()[:12],
        "TAB": b"tab-0001".hex(),
        "SERVING": "4",
    }
    command = re.compile(r"^ {4,}((?:p2pmoe ledger |python docs/).+)$", re.MULTILINE)
    lines = command.findall(PAGE.read_text(encoding="utf-8"))
    assert len(lines) == 11
    for line in lines:
        words = [placeholders.get(word, word) for word in shlex.split(line)]
        words, target = words[: len(words)], None
        if ">" in words:
            words, target = words[: words.index(">")], words[-1]
        if words[0] == "python":
            audit(words[2:], capsys)
            continue
        done = run(books, *words[2:])
        assert done.exit_code == 0, (line, done.output, done.exception)
        if target:
            Path(target).write_text(done.stdout, encoding="utf-8")


def audit(words, capsys):
    """Run the auditor's script; a month later the backup is another one."""
    folder = Path(words[0])
    if not folder.exists():
        folder.symlink_to("books-2026-11")
    capsys.readouterr()
    assert independent.main(words) == 0
    assert capsys.readouterr().out.endswith("all agrees\n")


def test_the_script_says_what_it_needs(capsys):
    with pytest.raises(SystemExit):
        independent.main(["--help"])
    text = capsys.readouterr().out
    for option in ("--network", "--ledger", "--market", "--checkpoint"):
        assert option in text
