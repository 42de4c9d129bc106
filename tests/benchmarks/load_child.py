"""A process that loads a model file: `python -m tests.benchmarks.load_child WHO FILE`.

WHO is `ours` or `llama` (llama.cpp through the wheel `xllamacpp`, with its defaults:
the file is mapped, nothing is warmed up). Prints one JSON object: `load_s` from open to
loaded, imports apart; `first_s` from then to the first token of a short prompt; and
resident bytes `before` the load, `loaded`, and after the `first` token, files that are
mapped included.
"""

import json
import os
import sys
import time
from pathlib import Path

__all__ = ["resident_bytes"]

PROMPT = [100, 137, 174, 211]
N_CONTEXT = 512


def resident_bytes(pid: int | str = "self") -> int:
    """Return what a process has in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("needs /proc")


def load_ours(path: str) -> dict[str, float]:
    """Load with the best kernel, and run a prompt."""
    from p2pmoe.backbone.local_side import LocalOptions, LocalSide
    from p2pmoe.model.local_experts import LocalExperts
    from p2pmoe.weights.model_file import open_model

    before, start = resident_bytes(), time.perf_counter()
    side = LocalSide(open_model(Path(path)), LocalOptions(data=Path(path).parent))
    side.warm_up([])
    loaded_at, loaded = time.perf_counter(), resident_bytes()
    experts = LocalExperts.load(side.model_file, side.kernel)
    side.model.forward(PROMPT, side.model.new_cache(N_CONTEXT), experts)
    return {
        "load_s": loaded_at - start,
        "first_s": time.perf_counter() - loaded_at,
        "before": before,
        "loaded": loaded,
        "first": resident_bytes(),
    }


def load_llama(path: str) -> dict[str, float]:
    """Load with llama.cpp, and run the same prompt."""
    import xllamacpp

    own = xllamacpp.CommonParams()
    own.model.path = path
    own.n_ctx, own.n_parallel, own.n_gpu_layers = N_CONTEXT, 1, 0
    own.cpuparams.n_threads = own.cpuparams_batch.n_threads = 1
    own.fit_params, own.warmup, own.verbosity = False, False, 0
    before, start = resident_bytes(), time.perf_counter()
    server = xllamacpp.Server(own)
    loaded_at, loaded = time.perf_counter(), resident_bytes()
    server.handle_completions({"prompt": PROMPT, "n_predict": 1, "temperature": 0})
    return {
        "load_s": loaded_at - start,
        "first_s": time.perf_counter() - loaded_at,
        "before": before,
        "loaded": loaded,
        "first": resident_bytes(),
    }


if __name__ == "__main__":
    # llama.cpp writes to both streams as it likes; the answer has a stream of its own.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        load = {"ours": load_ours, "llama": load_llama}[sys.argv[1]]
        print(json.dumps(load(sys.argv[2])), file=answers)
