import hashlib
from pathlib import Path

from mobile_worker.arithmetic.wasm import digests
from mobile_worker.arithmetic.wasm.build import FLAVOURS
from mobile_worker.arithmetic.wasm.digests import DIGESTS


def test_the_digests_are_those_of_the_modules() -> None:
    folder = Path(digests.__file__).parent
    assert set(DIGESTS) == set(FLAVOURS)
    for flavour, digest in DIGESTS.items():
        content = (folder / f"kernel-{flavour}.wasm").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
