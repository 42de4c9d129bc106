"""Where the files of a model can be had, and the manifest that says so."""

from pathlib import Path

import pytest

from mobile_worker.shards.manifest import parse_manifest
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.public_files import addresses_of, open_public, public_manifest
from tests.support.mini_m3 import write_mini_m3

SET = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]


def test_a_file_has_one_address_of_each_source() -> None:
    sources = ["https://a.example/other.gguf?x=1", "https://b.example/models/"]
    assert addresses_of(["my m.gguf"], sources) == [
        ("https://a.example/other.gguf?x=1", "https://b.example/models/my%20m.gguf")
    ]


def test_a_set_lies_in_a_folder_or_beside_its_first_part() -> None:
    first = "https://b.example/r/N-00001-of-00002.gguf?download=1"
    assert addresses_of(SET, ["https://a.example/m/", first]) == [
        (
            "https://a.example/m/m-00001-of-00002.gguf",
            "https://b.example/r/N-00001-of-00002.gguf?download=1",
        ),
        (
            "https://a.example/m/m-00002-of-00002.gguf",
            "https://b.example/r/N-00002-of-00002.gguf?download=1",
        ),
    ]


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ([], "no --source"),
        (["http://a.example/m.gguf"], "no https address"),
        (["/models/m.gguf"], "no http address"),
        (["https://a.example/m.gguf"], "does not name the first of 2 parts"),
        (["https://a.example/m-00002-of-00002.gguf"], "does not name the first"),
        (["https://a.example/m-00001-of-00003.gguf"], "does not name the first"),
    ],
)
def test_a_source_that_says_too_little_is_refused(sources: list, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        addresses_of(SET, sources)
    assert caught.value.advice


def test_the_manifest_names_files_base_and_experts(tmp_path: Path) -> None:
    path, seen = write_mini_m3(tmp_path / "mini.gguf"), []
    model, files = open_public(path, ["https://a.example/"])
    with model:
        manifest = public_manifest(
            model, files, bytes(32), lambda *told: seen.append(told)
        )
    assert manifest.files[0].urls == ("https://a.example/mini.gguf",)
    assert manifest.files[0].n_bytes == path.stat().st_size
    assert manifest.base
    assert manifest.experts
    assert parse_manifest(manifest.encode()) == manifest
    assert seen[-1] == ("hashing the experts", 1.0)
    assert ("hashing the base", 1.0) in seen


def test_a_safetensors_folder_is_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UnsupportedModel, match="only GGUF") as caught:
        open_public(tmp_path, ["https://a.example/"])
    assert "p2pmoe convert" in str(caught.value.advice)
