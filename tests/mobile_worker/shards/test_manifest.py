import dataclasses
import hashlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.activation import Activation, ActivationKind
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import (
    MAX_MANIFEST_BYTES,
    ExpertLayout,
    Manifest,
    ManifestError,
    ManifestExpert,
    manifest_hash,
    parse_manifest,
)
from mobile_worker.shards.model_files import BasePiece, ModelFilePart

LAYOUT = ExpertLayout(
    gate_format=2,
    up_format=2,
    down_format=8,
    n_embd=256,
    n_ff=128,
    activation=Activation(kind=ActivationKind.SWIGLU_OAI),
)


def expert(layer: int, index: int, offset: int = 0) -> ManifestExpert:
    return ManifestExpert(
        expert=ExpertId(layer, index),
        layout=0,
        digest=hashlib.sha256(bytes([layer, index])).digest(),
        n_bytes=60,
        ranges=((offset, 10), (offset + 10, 20), (offset + 100, 30)),
    )


FILE = ModelFilePart(n_bytes=4000, urls=("https://models.example/pocket.gguf",))
MANIFEST = Manifest(
    name="pocket",
    architecture="minimax-m3",
    n_layer=8,
    n_expert=32,
    n_embd=256,
    layouts=(LAYOUT,),
    experts=(expert(1, 0), expert(1, 1), expert(7, 31)),
    files=(FILE,),
    base=(
        BasePiece(offset=30, n_bytes=70, digest=bytes(32)),
        BasePiece(offset=130, n_bytes=60, digest=bytes(32)),
    ),
    tokenizer_digest=bytes(32),
)


BIASED = dataclasses.replace(LAYOUT, biased=True)
BIASED_EXPERT = dataclasses.replace(
    expert(1, 0),
    n_bytes=60 + 512 + 512 + 1024,
    ranges=(*expert(1, 0).ranges, (200, 512), (800, 512), (1400, 1024)),
)


def changed(**fields: object) -> Manifest:
    return dataclasses.replace(MANIFEST, **fields)


def packed(**places: object) -> bytes:
    """The manifest's wire form with some of its top-level items replaced."""
    parts = msgpack.unpackb(MANIFEST.encode())
    for place, value in places.items():
        parts[int(place.removeprefix("at"))] = value
    return msgpack.packb(parts)


def test_bytes_come_back_equal() -> None:
    blob = MANIFEST.encode()
    assert parse_manifest(blob) == MANIFEST
    assert manifest_hash(MANIFEST) == hashlib.sha256(blob).digest()


def test_the_wire_form_is_stable() -> None:
    digest = hashlib.sha256(MANIFEST.encode()).hexdigest()
    assert digest == "092fbcdccdcb5ad285ad01479cc427bd378e79575ecd551833e6a0af5e395cea"


def test_the_wire_form_of_biased_experts_is_stable() -> None:
    manifest = changed(layouts=(BIASED,), experts=(BIASED_EXPERT,))
    assert parse_manifest(manifest.encode()) == manifest
    digest = hashlib.sha256(manifest.encode()).hexdigest()
    assert digest == "8f5dc3d99c8d12764f6b4b540544dd165c23064742de9713b318faafacdbb4da"


floats = st.floats(-3.4e38, 3.4e38)
layouts = st.builds(
    ExpertLayout,
    gate_format=st.integers(0, 255),
    up_format=st.integers(0, 255),
    down_format=st.integers(0, 255),
    n_embd=st.just(64),
    n_ff=st.integers(1, 1 << 20),
    activation=st.builds(
        Activation, kind=st.sampled_from(ActivationKind), alpha=floats, limit=floats
    ),
    biased=st.booleans(),
)
lengths = st.integers(1, 1 << 32)
LARGE = ModelFilePart(n_bytes=1 << 60, urls=("https://a.example/b", "http://[::1]/c"))


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    known = draw(st.lists(layouts, min_size=1, max_size=4))
    ids = draw(st.sets(st.integers(0, 3 * 16 - 1), max_size=8))
    experts = []
    for number in sorted(ids):
        layout = draw(st.integers(0, len(known) - 1))
        sizes = [draw(lengths) for _ in range(3)] + list(known[layout].bias_bytes)
        ranges = tuple((draw(st.integers(0, 1 << 59)), size) for size in sizes)
        experts.append(
            ManifestExpert(
                expert=ExpertId(number // 16, number % 16),
                layout=layout,
                digest=draw(st.binary(min_size=32, max_size=32)),
                n_bytes=sum(length for _, length in ranges),
                ranges=ranges,
            )
        )
    return Manifest(
        name=draw(st.text("abc é", min_size=1, max_size=20)),
        architecture="olmoe",
        n_layer=3,
        n_expert=16,
        n_embd=64,
        layouts=tuple(known),
        experts=tuple(experts),
        files=tuple(draw(st.lists(st.just(LARGE), max_size=1))),
        tokenizer_digest=draw(st.sampled_from([b"", bytes(32)])),
    )


@given(manifests())
def test_any_manifest_comes_back_equal(manifest: Manifest) -> None:
    assert parse_manifest(manifest.encode()) == manifest


@given(st.binary(max_size=200))
def test_noise_raises_only_the_domain_error(blob: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(blob)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_never_gives_the_same_manifest(at: int, value: int) -> None:
    blob = bytearray(MANIFEST.encode())
    at %= len(blob)
    if blob[at] == value:
        return
    blob[at] = value
    try:
        other = parse_manifest(bytes(blob))
    except ManifestError:
        return
    assert other.encode() == bytes(blob)
    assert other != MANIFEST


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        packed(at0=1),
        packed(at0=2),
        packed(at1=""),
        packed(at1=7),
        packed(at1="a\nb"),
        packed(at3=0),
        packed(at3=True),
        packed(at3=1 << 40),
        packed(at4=-1),
        packed(at5=128),
        packed(at6=[]),
        packed(at6=[[2, 2, 8, 256, 128, 9, 1.0, 1.0, False]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, float("nan"), 1.0, False]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, 1.702, 1e39, False]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, 1, 1.0, False]]),
        packed(at6=[[2, 2, 256, 256, 128, 1, 1.0, 1.0, False]]),
        packed(at6=[[2, 2, 8, 256, 0, 1, 1.0, 1.0, False]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, 1.0, 1.0]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, 1.0, 1.0, 1]]),
        packed(at6=[[2, 2, 8, 256, 128, 1, 1.0, 1.0, True]]),
        packed(at8=[[4000, ["ftp://x"]]]),
        packed(at8=[[4000, ["https://x"] * 17]]),
        packed(at8=[[4000, []]]),
        packed(at8=[[0, ["https://x"]]]),
        packed(at8=[[1 << 60, ["https://x"]]] * 2),
        packed(at8=[["4000", ["https://x"]]]),
        packed(at8=7),
        packed(at8=[]),  # base without files
        packed(at9=[[30, 71, bytes(32)]]),  # upon an expert
        packed(at9=[[130, 60, bytes(32)], [30, 70, bytes(32)]]),
        packed(at9=[[30, 70, bytes(32)], [90, 10, bytes(32)]]),
        packed(at9=[[3999, 2, bytes(32)]]),
        packed(at9=[[30, 0, bytes(32)]]),
        packed(at9=[[30, 70, bytes(31)]]),
        packed(at9=[[30, (4 << 20) + 1, bytes(32)]]),
        packed(at9=[[-1, 1, bytes(32)]]),
        packed(at9=[[30, 70]]),
        packed(at10=bytes(31)),
        packed(at10="x" * 32),
        MANIFEST.encode() + b"\0",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        bytes(MAX_MANIFEST_BYTES + 1),
    ],
    ids=range(44),
)
def test_bad_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(blob)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (1, "manifest version 1 is not 3: an older release wrote it"),
        (4, "manifest version 4 is not 3: a newer release wrote it"),
        ("9" * 2000, f"manifest version {'9' * 40} is not 3"),
    ],
)
def test_another_version_is_named_and_bounded(version: object, says: str) -> None:
    with pytest.raises(ManifestError, match=says) as caught:
        parse_manifest(packed(at0=version))
    assert len(str(caught.value)) < 200


def test_a_bomb_of_empty_lists_is_not_built() -> None:
    """16 MiB of them took 10 s and 1.2 GB of whoever read the manifest."""
    row = b"\xdc\xff\xff" + b"\x90" * 0xFFFF
    with pytest.raises(ManifestError) as caught:
        parse_manifest(b"\xdd\x00\x00\x01\x00" + row * 20)
    assert str(caught.value.__cause__) == "too many lists"


def test_a_longer_spelling_of_the_same_number_is_refused() -> None:
    blob = MANIFEST.encode()
    assert blob[1] == 3  # the version
    with pytest.raises(ManifestError, match="canonical"):
        parse_manifest(blob[:1] + b"\xcc\x03" + blob[2:])


@pytest.mark.parametrize(
    "wrong",
    [
        {"experts": (expert(1, 1), expert(1, 0))},
        {"experts": (expert(1, 1), expert(1, 1))},
        {"experts": (expert(8, 0),)},
        {"experts": (expert(1, 32),)},
        {"experts": (dataclasses.replace(expert(1, 0), layout=1),)},
        {"experts": (dataclasses.replace(expert(1, 0), layout=-1),)},
        {"experts": (dataclasses.replace(expert(1, 0), n_bytes=61),)},
        {"experts": (dataclasses.replace(expert(1, 0), digest=b"x"),)},
        {"experts": (dataclasses.replace(expert(1, 0), ranges=((0, 60),)),)},
        {"experts": (expert(1, 0, offset=-1),)},
        {"experts": (BIASED_EXPERT,)},
        {"files": (dataclasses.replace(FILE, n_bytes=189),)},
        {"base": (), "files": (dataclasses.replace(FILE, n_bytes=129),)},
        {"layouts": (BIASED,)},
        {
            "layouts": (dataclasses.replace(BIASED, n_ff=64),),
            "experts": (BIASED_EXPERT,),
        },
    ],
    ids=range(15),
)
def test_a_manifest_that_contradicts_itself_cannot_exist(
    wrong: dict[str, object],
) -> None:
    with pytest.raises(ManifestError):
        changed(**wrong)
