"""llama.cpp with its experts on an RPC server, as a baseline at a distance.

    python -m tests.benchmarks.llama_rpc build      # some 20 minutes of one core

A development tool only. No wheel has the RPC back-end, so it is built from the source
package of llama-cpp-python, which holds llama.cpp: downloaded by pip, built with
GGML_RPC=ON for this machine into FOLDER. Where that was not done the benchmark says so
and goes on without. `rpc_rates` places all routed experts on the server (llama.cpp
cannot divide a layer's) and everything else here, one thread each.
"""

import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.support.injector.conditions import Link
from tests.support.injector.proxy import injected

__all__ = ["FOLDER", "HOW_TO_BUILD", "is_built", "rpc_rates"]

FOLDER = Path(
    os.environ.get("P2PMOE_LLAMA_RPC", f"{tempfile.gettempdir()}/p2pmoe-llama-rpc")
)
HOW_TO_BUILD = (
    "llama.cpp's RPC back-end is not built: "
    "`python -m tests.benchmarks.llama_rpc build`, some 20 minutes"
)
_PACKAGE = "llama-cpp-python"
_SERVER, _BENCH = "ggml-rpc-server", "llama-bench"
_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_RPC": "ON",
    "GGML_NATIVE": "ON",
    "GGML_BLAS": "OFF",
    "BUILD_SHARED_LIBS": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_SERVER": "OFF",
    "LLAMA_BUILD_APP": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_OPENSSL": "OFF",
}
_LISTENS_WITHIN_S = 20.0


def is_built() -> bool:
    """Whether both programs are there."""
    return all((FOLDER / "build/bin" / name).exists() for name in (_SERVER, _BENCH))


def build() -> None:
    """Download the source package and build both programs, one job, politely."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    source = _unpacked()
    settings = [f"-D{name}={value}" for name, value in _OPTIONS.items()]
    target = str(FOLDER / "build")
    polite = ("nice", "-n", "19", "cmake")
    subprocess.run([*polite, "-S", str(source), "-B", target, *settings], check=True)
    targets = ["--target", _SERVER, _BENCH, "-j", "1"]
    subprocess.run([*polite, "--build", target, *targets], check=True)


def _unpacked() -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(FOLDER)]
    subprocess.run([*pip, "--no-binary", _PACKAGE, _PACKAGE], check=True)
    archive = max(FOLDER.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(FOLDER, filter="data")
    return FOLDER / archive.name.removesuffix(".tar.gz") / "vendor/llama.cpp"


async def rpc_rates(
    path: Path, link: Link, n_tokens: int, n_rounds: int
) -> list[float]:
    """Return decoded tokens a second of some rounds, the server such a link away."""
    port = _free_port()
    async with _server(port), injected("127.0.0.1", port, link) as between:
        address = f"127.0.0.1:{between.port}"
        done = await trio.run_process(
            [
                str(FOLDER / "build/bin" / _BENCH),
                *("--model", str(path), "--n-prompt", "0"),
                *("--n-gen", str(n_tokens), "--repetitions", str(n_rounds)),
                *("--threads", "1", "--n-gpu-layers", "0", "--rpc", address),
                *("--override-tensor", f"exps=RPC0[{address}]"),
                *("--output", "jsonl"),
            ],
            capture_stdout=True,
            capture_stderr=True,
        )
    return [float(rate) for rate in json.loads(done.stdout)["samples_ts"]]


@asynccontextmanager
async def _server(port: int) -> AsyncIterator[None]:
    command = [str(FOLDER / "build/bin" / _SERVER)]
    process = await trio.lowlevel.open_process(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--threads", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with trio.fail_after(_LISTENS_WITHIN_S):
            await _listening(port)
        yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _listening(port: int) -> None:
    while True:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            await trio.sleep(0.05)
        else:
            await stream.aclose()
            return


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def main(words: list[str]) -> int:
    """Build, or say whether it is built."""
    if words == ["build"]:
        build()
        return 0
    print(f"built in {FOLDER}" if is_built() else HOW_TO_BUILD)
    return 0 if is_built() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
