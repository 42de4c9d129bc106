"""Drafts vanish or take their place; those of killed processes are taken away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from p2pmoe.convert.draft import draft_of


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_draft_takes_its_place(tmp_path: Path) -> None:
    place = tmp_path / "m.gguf"
    with draft_of(place) as draft:
        draft.file.write(b"whole")
        assert not place.exists()
        assert draft.path.parent == tmp_path
        draft.finish()
    assert names_in(tmp_path) == ["m.gguf"]
    assert place.read_bytes() == b"whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_unfinished_draft_vanishes(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def write_half() -> None:
        with draft_of(tmp_path / "m.gguf") as draft:
            draft.file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert names_in(tmp_path) == []


def test_what_a_killed_process_left_is_taken_away_by_the_next_draft(
    tmp_path: Path,
) -> None:
    place = tmp_path / "m.gguf"
    program = (
        "import os, sys, signal; from pathlib import Path;"
        "from p2pmoe.convert.draft import draft_of;"
        "draft = draft_of(Path(sys.argv[1])); draft.__enter__();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, place], check=False, timeout=60)
    (left,) = names_in(tmp_path)
    assert left.startswith(".m.gguf.")
    for kept in (".m.gguf.new", ".m.gguf.0123456g.new", ".other.gguf.01234567.new"):
        (tmp_path / kept).touch()
    with draft_of(place):
        assert left not in names_in(tmp_path)
    assert len(names_in(tmp_path)) == 3


def test_a_draft_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "m.gguf"
    with draft_of(place) as first:
        with draft_of(place) as second:
            assert names_in(tmp_path) == sorted([first.path.name, second.path.name])
        first.finish()
    assert names_in(tmp_path) == ["m.gguf"]


def test_a_draft_taken_for_abandoned_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_file = os.open

    def open_and_lose(path: Path, flags: int, mode: int = 0o777) -> int:
        handle = open_file(path, flags, mode)
        opened.append(Path(path).name)
        if len(opened) == 1:
            Path(path).unlink()
        return handle

    monkeypatch.setattr(os, "open", open_and_lose)
    with draft_of(tmp_path / "m.gguf") as draft:
        assert draft.path.name == opened[1]


def test_a_long_name_has_a_draft_too(tmp_path: Path) -> None:
    place = tmp_path / ("\N{EURO SIGN}" * 83 + ".gguf")
    with draft_of(place) as draft:
        draft.finish()
    assert names_in(tmp_path) == [place.name]
