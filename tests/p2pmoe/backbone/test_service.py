"""The whole backbone without a network: starts, answers, drains; refuses clearly."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.errors import IdentityInUse, WorkerError
from mobile_worker.expert_id import ExpertId
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.generation import (
    FailureKind,
    GenerationFailed,
    GenerationRequest,
)
from p2pmoe.backbone.service import Service
from p2pmoe.config import DiskPolicy, NetworkAccess, ServeConfig, Tuning
from p2pmoe.demo.facts import Metrics
from p2pmoe.errors import ConfigurationError, RamTooSmall
from p2pmoe.evaluate.configuration import read_configuration
from p2pmoe.evaluate.errors import NotEvaluated
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.weights.errors import ModelFileError
from relay.endpoint import parse_endpoint
from relay.errors import RelayError
from tests.support.backbone_model import POCKET
from tests.support.trio_test import trio_test

ASK = {"prompt": "It was a dark night, and", "max_tokens": 8, "temperature": 0}


def config(folder: Path, **changes: object) -> ServeConfig:
    values: dict[str, object] = {
        "model": POCKET,
        "data": folder / "data",
        "listen": "127.0.0.1:0",
    }
    return ServeConfig(**(values | changes))


async def wait_until_ready(client: httpx.AsyncClient) -> None:
    """Ask as an outsider does."""
    for _ in range(1000):
        if (await client.get("/readyz")).status_code == 200:
            return
        await trio.sleep(0.02)


async def page_with(client: httpx.AsyncClient, line: str) -> str:
    """Return the metrics once they hold this line: a request ends after its answer."""
    page = ""
    for _ in range(200):
        page = (await client.get("/metrics")).text
        if line in page.splitlines():
            return page
        await trio.sleep(0.02)
    pytest.fail(f"{line} is not in {page}")


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Run a service until the block ends; then it must drain and end by itself."""
    stop = trio.Event()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            started = await nursery.start(service.run, stop)
            url = f"http://{started.host}:{started.port}"
            async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                await wait_until_ready(client)
                yield client
            stop.set()


@trio_test
async def test_it_answers_the_same_within_any_budget_and_drains(tmp_path: Path) -> None:
    texts = []
    for ram in (None, 41_300_000):
        service = Service(config(tmp_path, ram_bytes=ram), SystemClock())
        async with running(service) as client:
            answer = (await client.post("/v1/completions", json=ASK)).json()
            texts.append(answer["choices"][0]["text"])
            page = await page_with(client, 'p2pmoe_requests_total{outcome="length"} 1')
            resident = Metrics(page).total("p2pmoe_hot_experts")
            assert resident == 224 if ram is None else 20 <= resident <= 80
            calls = answer["p2pmoe"]["calls"]
            assert (calls["disk"] > 0) == (ram is not None)
    assert texts[0] == texts[1]
    assert list((tmp_path / "data").glob("use-*.bin"))


@trio_test
async def test_the_card_and_a_metric_name_the_configuration(tmp_path: Path) -> None:
    service = Service(config(tmp_path), SystemClock())
    async with running(service) as client:
        cards = (await client.get("/v1/models")).json()["data"]
        told = read_configuration(cards[0]["p2pmoe"]["configuration"])
        label = f'p2pmoe_configuration_info{{digest="{told.digest}"}} 1'
        await page_with(client, label)


@trio_test
async def test_without_the_evaluation_that_is_required_it_does_not_start(
    tmp_path: Path,
) -> None:
    service = Service(config(tmp_path, require_evaluation=True), SystemClock())
    await fails(service, NotEvaluated, "has no evaluation on record")


@trio_test
async def test_a_stop_in_mid_request_ends_it_with_an_error(tmp_path: Path) -> None:
    at_once = config(tmp_path, tuning=Tuning(drain_s=0.0))
    service = Service(at_once, SystemClock())
    request = GenerationRequest(
        prompt_ids=(1, 2, 3),
        sampling=SamplingSettings(temperature=0.0),
        max_tokens=2000,
    )
    kinds: list[FailureKind] = []

    async def ask(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with service.generate(request) as run:
                async for _ in run:
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
        except GenerationFailed as failed:
            kinds.append(failed.kind)

    async with trio.open_nursery() as nursery, running(service):
        await nursery.start(ask)
    assert kinds == [FailureKind.NOT_READY]


def test_nothing_is_generated_before_it_is_ready(tmp_path: Path) -> None:
    service = Service(config(tmp_path), SystemClock())
    request = GenerationRequest(
        prompt_ids=(1,), sampling=SamplingSettings(), max_tokens=1
    )
    with pytest.raises(GenerationFailed) as failed:
        service.generate(request)
    assert failed.value.kind is FailureKind.NOT_READY


async def fails(service: Service, error: type[Exception], match: str) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(error, match=match),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        with trio.fail_after(20):
            await service.run(trio.Event())


@trio_test
async def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        service = Service(config(tmp_path, listen=listen), SystemClock())
        await fails(service, ConfigurationError, "cannot listen on")


@trio_test
async def test_too_little_memory_ends_the_start(tmp_path: Path) -> None:
    service = Service(config(tmp_path, ram_bytes=1 << 20), SystemClock())
    await fails(service, RamTooSmall, "--ram of 1.0 MiB is below")


@trio_test
async def test_an_unknown_pretokenizer_ends_the_start(tmp_path: Path) -> None:
    service = Service(config(tmp_path, pre_tokenizer="nonsense"), SystemClock())
    await fails(service, Exception, "nonsense")


@trio_test
async def test_an_unreachable_relay_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay_id = Identity.generate().peer_id.hex()
    endpoint = parse_endpoint(f"wss://127.0.0.1:{port}/relay#{relay_id}")
    service = Service(
        config(tmp_path, access=NetworkAccess(endpoint=endpoint)), SystemClock()
    )
    await fails(service, (RelayError, WorkerError), "127.0.0.1")


@trio_test
async def test_a_data_folder_is_one_services_from_the_start_to_the_end(
    tmp_path: Path,
) -> None:
    access = NetworkAccess(endpoint=parse_endpoint("wss://127.0.0.1:1/relay"))
    first = Service(config(tmp_path, ram_bytes=1 << 20), SystemClock())
    for other in (None, access):
        with pytest.raises(IdentityInUse, match="in use by another process"):
            Service(config(tmp_path, access=other), SystemClock())
    await fails(first, RamTooSmall, "--ram")
    with pytest.raises(ModelFileError):
        Service(config(tmp_path, model=tmp_path / "missing.gguf"), SystemClock())
    Service(config(tmp_path), SystemClock())  # both gave it free


def test_without_a_disk_what_nobody_else_holds_stays_at_hand(tmp_path: Path) -> None:
    access = NetworkAccess(endpoint=parse_endpoint("wss://127.0.0.1:1/relay"))
    here, there = ExpertId(1, 0), ExpertId(1, 1)
    local = SimpleNamespace(hot=SimpleNamespace(resident=lambda: (here, there)))
    fleet = SimpleNamespace(covered=lambda: {there, ExpertId(2, 0)})
    for disk, kept in ((DiskPolicy.OFF, {here}), (DiskPolicy.FALLBACK, set())):
        folder = tmp_path / disk.value
        service = Service(config(folder, access=access, disk=disk), SystemClock())
        assert service._only_here(local) == set()
        service._joined = SimpleNamespace(fleet=fleet)
        assert service._only_here(local) == kept


def test_files_and_folders_are_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"missing\.gguf"):
        Service(config(tmp_path, model=tmp_path / "missing.gguf"), SystemClock())
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(POCKET.read_bytes()[:1_000_000])
    with pytest.raises(ModelFileError, match=r"needs \d+ bytes, has"):
        Service(config(tmp_path, model=cut), SystemClock())
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(ConfigurationError, match="data folder"):
        Service(config(tmp_path, data=blocked), SystemClock())


def test_an_address_that_nobody_may_ask_is_refused_at_once(tmp_path: Path) -> None:
    access = NetworkAccess(endpoint=parse_endpoint("wss://relay.example/relay"))
    values = {"model": tmp_path / "base", "access": access, "disk": DiskPolicy.OFF}
    wrong = config(tmp_path, manifest="http://a.example/m", **values)
    with pytest.raises(ConfigurationError, match="is no https address"):
        Service(wrong, SystemClock())
    # Nothing is left locked, and nothing is asked before it runs.
    right = config(tmp_path, manifest="https://a.example/m", **values)
    Service(right, SystemClock())._identity.release()


def test_readiness_falls_when_coverage_does_and_requests_are_taken(
    tmp_path: Path,
) -> None:
    access = NetworkAccess(endpoint=parse_endpoint("wss://127.0.0.1:1/relay"))
    service = Service(
        config(tmp_path, access=access, disk=DiskPolicy.OFF), SystemClock()
    )
    covered = [3]
    sizes = {ExpertId(1, index): 9 for index in range(4)}
    service._engine = SimpleNamespace(generate=None)
    service._local = SimpleNamespace(
        hot=SimpleNamespace(sizes=sizes, layers=dict), damage=lambda: ""
    )
    service._joined = SimpleNamespace(
        fleet=SimpleNamespace(n_covered=lambda layers: covered[0])
    )
    request = GenerationRequest(
        prompt_ids=(1,), sampling=SamplingSettings(), max_tokens=1
    )
    seen = []
    for n in (3, 4, 2, 4):
        covered[0] = n
        service._cover()
        now = service._readiness()
        seen.append((now.phase.value, now.covered, now.takes_requests))
        if not now.takes_requests:
            with pytest.raises(GenerationFailed, match="covering 75%"):
                service.generate(request)
        else:
            service.generate(request)  # an engine's context, not entered
    assert seen == [
        ("covering", 0.75, False),
        ("ready", 1.0, True),
        ("covering", 0.5, True),
        ("ready", 1.0, True),
    ]
