"""Make tests/vectors/models/*.npz: logits of transformers 5 for seeded models.

Run by hand, `python -m tests.vectors.models_from_transformers [NAME ...]`, where torch
and transformers are installed; the suite only reads the files. The weights come from
seeds (tests/support/seeded_weights.py), so a file holds the prompt's rows and their
logits alone: eager attention, f32, one thread, the whole prompt at once.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from tests.support.seeded_models import CASES, Case, prompt_of
from tests.support.seeded_weights import write_folder

ROWS = (0, 15, 16, 40, 63, 64, 100, 150, 199)
PLACE = Path(__file__).with_name("models")


def logits_of(case: Case) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(case, Path(folder))
        model, loading = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[kind]:
            raise SystemExit(f"{case.name}: {kind}: {loading[kind]}")
    with torch.no_grad():
        return model.eval()(torch.tensor([prompt_of(case)])).logits[0].numpy()


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    PLACE.mkdir(exist_ok=True)
    for case in CASES:
        if names and case.name not in names:
            continue
        logits = logits_of(case)
        rows = np.array(ROWS)
        np.savez_compressed(PLACE / f"{case.name}.npz", rows=rows, logits=logits[rows])
        print(f"{case.name}: logits to {np.abs(logits).max():.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
