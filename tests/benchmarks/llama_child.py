"""The process that runs llama.cpp: `... llama_child FILE plain|flash read|mapped N`.

Reads one JSON object a line from stdin and answers each with one on stdout; a first
line tells the build. `{"prompt": [ids], "n": tokens to decode, "n_top": likeliest}`
is answered with llama.cpp's own times, the time by the clock, the share of the core
that it had, and the first token's `n_top` log-probabilities by id. With a `seed` tokens
are drawn from the whole vocabulary, else the likeliest is taken. N threads share the
work; the parent's affinity and environment may make it one.

What is kept from flattering or harming it: prompts are never taken from a cache. With
`read` the weights are read before the first request (no page faults on the way) and
llama.cpp's own repacking of weights stays on, as in its default. With `mapped`, which
is for files larger than memory, there is no repacking, since it would copy them all.
"""

import json
import os
import sys
from typing import TextIO

import xllamacpp

from tests.benchmarks.rounds import Stopwatch

N_CONTEXT = 512
N_BATCH = 128


def parameters(
    path: str, *, flash_attention: bool, mapped: bool, n_threads: int
) -> xllamacpp.CommonParams:
    """Return settings for the CPU."""
    own = xllamacpp.CommonParams()
    own.model.path = path
    own.n_ctx, own.n_batch, own.n_ubatch = N_CONTEXT, N_BATCH, N_BATCH
    own.n_parallel, own.n_gpu_layers = 1, 0
    own.cpuparams.n_threads = own.cpuparams_batch.n_threads = n_threads
    own.cache_prompt, own.cache_ram_mib, own.n_ctx_checkpoints = False, 0, 0
    own.fit_params, own.warmup = False, not mapped
    modes = xllamacpp.llama_load_mode
    own.load_mode = modes(modes.LLAMA_LOAD_MODE_NONE)
    if mapped:
        own.load_mode = modes(modes.LLAMA_LOAD_MODE_MMAP)
        own.no_extra_bufts = True
    own.flash_attn_type = xllamacpp.llama_flash_attn_type(int(flash_attention))
    own.verbosity = 0
    return own


def answer(server: xllamacpp.Server, asked: dict[str, object]) -> dict[str, object]:
    """Run one request."""
    drawn = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
    is_drawn = asked.get("seed") is not None
    watch = Stopwatch()
    found = server.handle_completions(
        {
            "prompt": asked["prompt"],
            "n_predict": asked["n"],
            "n_probs": asked["n_top"],
            **({**drawn, "seed": asked["seed"]} if is_drawn else {"temperature": 0}),
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": False,
        }
    )
    wall_s, share = watch.seconds(), watch.share()
    choice = found["choices"][0]
    top = []
    if choice["logprobs"]:
        top = choice["logprobs"]["content"][0]["top_logprobs"]
    return {
        "times": found["timings"],
        "wall_s": wall_s,
        "share": share,
        "top": {one["id"]: one["logprob"] for one in top},
    }


def main(words: list[str], out: TextIO) -> None:
    """Answer requests until stdin ends."""
    path, flash, load, n_threads = words
    server = xllamacpp.Server(
        parameters(
            path,
            flash_attention=flash == "flash",
            mapped=load == "mapped",
            n_threads=int(n_threads),
        )
    )
    first = {"version": xllamacpp.__version__, "build": xllamacpp.get_system_info()}
    print(json.dumps(first), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(server, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    # llama.cpp writes to both streams as it likes; answers have a stream of their own.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        main(sys.argv[1:], answers)
