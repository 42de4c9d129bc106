"""A configuration: what it names, its digest, and reading it from anywhere."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest

from p2pmoe.config import DiskPolicy, MissingPolicy, ServeConfig
from p2pmoe.evaluate.configuration import (
    Configuration,
    configuration_of,
    configuration_page,
    differences,
    read_configuration,
)
from p2pmoe.evaluate.reading import Misread
from p2pmoe.weights.model_file import open_model
from tests.support.evaluations import CONFIGURATION
from tests.support.mini_m3 import write_mini_m3

DOCS = Path(__file__).resolve().parents[3] / "docs/reference"


OTHER = {
    "architecture": "olmoe",
    "fingerprint": "00",
    "weights": "11",
    "formats": {"router": "F16 x 1"},
    "network": True,
    "manifest": True,
    "ram_bytes": 5,
    "disk_cache_bytes": 6,
    "disk": "tier",
    "disk_access": "mmap",
    "n_context": 7,
    "profile": "r8",
    "missing": "drop",
    "drop_bound": 0.5,
    "tokenizer": "22",
    "template": "33",
    "p2pmoe": "9.9.9",
    "arithmetic": "00",
    "numpy": "3.0.0",
}


def stored(configuration: Configuration = CONFIGURATION):
    return read_configuration(configuration.document())


def test_every_field_is_in_the_digest():
    names = [field.name for field in dataclasses.fields(Configuration)]
    assert names == list(OTHER)
    digests = {
        dataclasses.replace(CONFIGURATION, **{name: value}).digest
        for name, value in OTHER.items()
    }
    assert len(digests | {CONFIGURATION.digest}) == len(OTHER) + 1
    assert re.fullmatch("[0-9a-f]{64}", CONFIGURATION.digest)


def test_the_digest_is_the_fields_alone():
    same = dataclasses.replace(
        CONFIGURATION, formats=dict(reversed(CONFIGURATION.formats.items()))
    )
    assert same.digest == CONFIGURATION.digest


@pytest.mark.parametrize("ram", [None, 1 << 30])
def test_a_document_is_read_back(ram):
    own = dataclasses.replace(CONFIGURATION, ram_bytes=ram, drop_bound=0.25)
    document = json.loads(json.dumps(own.document()))
    found = read_configuration(document)
    assert found.digest == own.digest
    assert found.document() == own.document()


def test_fields_of_another_version_are_read_as_they_are():
    fields = {"speculation": True, "k": 8, "share": 0.5, "by_part": {"a": "b"}}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    found = read_configuration({"digest": digest, **fields})
    assert found.fields == fields
    names = {each.name for each in differences(stored(), found)}
    assert {"speculation", "by_part: a", "profile"} <= names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": "0" * 64}, "digest '0000000000000000' is not of its fields"),
        ({"digest": None}, "digest 'None' is not of its fields"),
        ({"profile": "r8"}, "is not of its fields"),
        ({"extra": 1}, "is not of its fields"),
        ({"Extra ": 1}, "has a field 'Extra '"),
        ({"numpy": [2]}, "configuration.numpy is no plain value"),
        ({"formats": {"a": 1}}, "formats.a must be a string"),
        ({"formats": {str(n): "x" for n in range(65)}}, "has 65 parts"),
        ({"numpy": "x" * 1000}, "configuration.numpy is no plain value"),
        ({f"f{n}": 1 for n in range(99)}, "fields"),
    ],
)
def test_a_document_of_another_kind_is_named(change, words):
    with pytest.raises(Misread, match=words):
        read_configuration({**CONFIGURATION.document(), **change})
    with pytest.raises(Misread, match="is no object"):
        read_configuration([change])


def mini_configuration(folder: Path, template: str | None = None, **fields):
    keys: dict[str, object] = {"general.architecture": "minimax-m3"}
    if template is not None:
        keys["tokenizer.chat_template"] = template
    config = ServeConfig(model=folder, data=folder, **fields)
    with open_model(write_mini_m3(folder / "m.gguf", keys)) as model:
        return configuration_of(config, model, "ab", b"\x12" * 32)


def test_a_model_and_its_options_make_one(tmp_path: Path):
    own = mini_configuration(
        tmp_path,
        ram_bytes=1 << 30,
        disk=DiskPolicy.TIER,
        missing=MissingPolicy.DROP,
        drop_bound=0.1,
    )
    assert (own.architecture, own.weights, own.is_known) == ("minimax-m3", "ab", True)
    assert (own.ram_bytes, own.disk, own.missing) == (1 << 30, "tier", "drop")
    assert own.formats["router"].startswith("F32 x ")
    assert (own.tokenizer, own.template) == ("12" * 8, "")
    assert not dataclasses.replace(own, weights="").is_known


def test_another_template_is_another_configuration(tmp_path: Path):
    one, other = (mini_configuration(tmp_path, text) for text in ("{{ a }}", "b"))
    assert len({one.template, other.template, ""}) == 3
    assert one.digest != other.digest


def test_differences_name_the_variable_and_the_part():
    other = dataclasses.replace(
        CONFIGURATION,
        ram_bytes=5,
        formats={"routed experts": "Q2_K x 21", "attention": "F16 x 2"},
    )
    found = {
        each.name: (each.before, each.after)
        for each in differences(stored(), stored(other))
    }
    assert found == {
        "ram_bytes": ("all", "5"),
        "formats: routed experts": ("Q4_0 x 21", "Q2_K x 21"),
        "formats: attention": ("-", "F16 x 2"),
        "formats: router": ("F32 x 14", "-"),
    }
    assert differences(stored(other), stored(other)) == []


def test_the_digest_is_a_label():
    page = configuration_page("ab12")
    assert page == (
        "# TYPE p2pmoe_configuration_info gauge\n"
        'p2pmoe_configuration_info{digest="ab12"} 1\n'
    )


def test_every_field_is_documented():
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    assert not [name for name in OTHER if f"`{name}`" not in page]
