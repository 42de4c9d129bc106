"""The Containerfile, as far as it can be checked where no engine builds it."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
KNOWN = frozenset(
    {
        *("FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE"),
        *("STOPSIGNAL", "ENTRYPOINT", "CMD"),
    }
)


def instructions() -> list[tuple[str, str]]:
    joined = TEXT.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and line[0] != "#"]
    return [(line.split()[0], " ".join(line.split()[1:])) for line in lines]


def values(name: str) -> list[str]:
    return [value for word, value in instructions() if word == name]


def test_it_has_two_stages_of_one_named_base_and_no_other_instruction() -> None:
    assert {word for word, _ in instructions()} <= KNOWN
    bases = [value.split()[0] for value in values("FROM")]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", bases[0])


def test_what_it_copies_is_there_and_is_sent() -> None:
    rules = (ROOT / ".containerignore").read_text(encoding="utf-8").split()
    sent = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        source
        for value in values("COPY")
        if not value.startswith("--from")
        for source in value.split()[:-1]
    }
    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)
    assert not any(fnmatch(".venv", name) for name in sent)
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = packages["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in found} <= copied


def test_it_runs_without_root_and_its_extras_are_real() -> None:
    names = [word for word, _ in instructions()]
    last = len(names) - 1 - names[::-1].index("FROM")
    assert "USER" in names[last:]
    assert values("USER") == ["65532:65532"]
    (installed,) = re.findall(r"'\.\[([a-z,]+)\]'", TEXT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(installed.split(",")) <= set(project["project"]["optional-dependencies"])


def test_no_secret_and_no_port_that_needs_a_privilege_is_in_it() -> None:
    assert int(values("EXPOSE")[0]) >= 1024
    assert not re.search(r"(KEY|TOKEN|PASSWORD|SECRET)=", TEXT)
