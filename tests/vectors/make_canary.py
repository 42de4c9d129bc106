"""Write the golden rows of canaries: tests/vectors/canary.json."""

import hashlib
import json
from pathlib import Path

from mobile_worker.expert_id import ExpertId
from mobile_worker.serve.canary_rows import canary_rows
from mobile_worker.servings.hashes import x_hash

CASES = ((0, 0, 1, 32), (1, 5, 1, 64), (61, 255, 3, 96), (0xFFFF, 0xFFFF, 64, 32))


def main() -> None:
    cases = []
    for layer, index, n_rows, n_embd in CASES:
        seed = hashlib.sha256(f"canary {layer}.{index}".encode()).digest()
        rows = canary_rows(seed, ExpertId(layer, index), n_rows, n_embd)
        assert rows.coded is not None
        assert rows.floats is not None
        cases.append(
            {
                "seed": seed.hex(),
                "layer": layer,
                "index": index,
                "n_rows": n_rows,
                "n_embd": n_embd,
                "codes": rows.coded.codes.tobytes()[:32].hex(),
                "scales": rows.coded.scales.astype("<f4").tobytes()[:16].hex(),
                "floats": rows.floats.astype("<f4").tobytes()[:16].hex(),
                "x_hash": x_hash(rows).hex(),
            }
        )
    path = Path(__file__).with_name("canary.json")
    path.write_text(json.dumps(cases, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
