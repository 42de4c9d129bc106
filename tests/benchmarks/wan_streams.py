"""Many streams, overlap, a long prompt, and what each profile sends; for bench-wan."""

from collections.abc import Sequence

from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.wan_network import Backbone, WanNetwork
from tests.benchmarks.wan_requests import Asked, Run, run_request, together
from tests.support.injector.conditions import OFFICE, distance

__all__ = ["long_prompt", "overlap", "streams", "traffic_figures"]

_N_STREAMS, _N_TOKENS = 16, 32
_STREAMS_RTT_S = 0.05
_STREAMS_TARGET = 8.0
_OVERLAP_RTT_S = 0.02
_OVERLAP_TARGET = 0.8
_LINK_TARGET = 0.8
_UPLOAD_TARGET = 0.3


async def streams(
    network: WanNetwork, backbone: Backbone, openings: Sequence[str], n_rounds: int
) -> list[Figure]:
    """Sixteen streams beside one at 50 ms; the first round settles."""
    network.change(distance(_STREAMS_RTT_S / 2))
    url = backbone.api.url
    asked = [
        Asked(
            prompt=openings[number % len(openings)],
            n_tokens=_N_TOKENS,
            temperature=0.8,
            seed=number,
        )
        for number in range(_N_STREAMS)
    ]
    one: list[float] = []
    many: list[float] = []
    for number in range(n_rounds + 1):
        found, took_s = await together(url, asked[:1])
        all_found, all_s = await together(url, asked)
        if all_found[0].tokens != found[0].tokens:
            raise RuntimeError("the tokens depend on how many streams there are")
        if number:
            one.append(_N_TOKENS / took_s)
            many.append(_N_STREAMS * _N_TOKENS / all_s)
    name = f"{_N_STREAMS} streams at 50 ms, speculation off"
    ratios = [b / a for a, b in zip(one, many, strict=True)]
    return [
        figure(name, "tokens/s", many, baseline=one),
        figure(f"{name}, over 1", "x", ratios, at_least=_STREAMS_TARGET),
    ]


async def overlap(
    network: WanNetwork, backbones: tuple[Backbone, Backbone], prompt: str, n: int
) -> list[Figure]:
    """How much of min(trip, local work) is hidden; `backbones` with overlap, without.

    On a prompt, whose rows make the local work as long as a trip: of one chunk, so that
    nothing else hides it. A layer's trip is what the arm in series waits for it.
    """
    network.change(distance(_OVERLAP_RTT_S / 2))
    hidden, shares, least = [], [], []
    for number in range(n + 1):
        # Another first word each time: nothing of an earlier prompt is reused.
        asked = Asked(prompt=f"{number} {prompt}", n_tokens=1)
        ours = await run_request(backbones[0].api.url, asked)
        series = await run_request(backbones[1].api.url, asked)
        if ours.tokens != series.tokens:
            raise RuntimeError("the tokens depend on overlap")
        if number:
            saved_s = series.prefill_s - ours.prefill_s
            hideable_s = _hideable_s(ours, series)
            hidden.append(1000 * saved_s)
            least.append(1000 * hideable_s)
            shares.append(saved_s / hideable_s)
    name = "overlap on a prompt, 20 ms"
    return [
        figure(f"{name}, time hidden", "ms", hidden, baseline=least),
        figure(
            f"{name}, of min(trip, local work)", "x", shares, at_least=_OVERLAP_TARGET
        ),
    ]


def _hideable_s(ours: Run, series: Run) -> float:
    """Return the sum over layers of the lesser of local work and trip."""
    work = {layer.layer: layer.meanwhile_s for layer in ours.passes[0].layers}
    trips = {layer.layer: layer.wait_s for layer in series.passes[0].layers}
    return sum(min(work[layer], trips[layer]) for layer in work.keys() & trips.keys())


async def long_prompt(
    network: WanNetwork, backbone: Backbone, model: str, prompt: str, n_rounds: int
) -> list[Figure]:
    """The share that a long prompt uses of the office link's busier direction.

    Workers send results up the link, and get rows down it.
    """
    network.change(OFFICE)
    up_bytes_s, down_bytes_s = OFFICE.up.bytes_s or 1.0, OFFICE.down.bytes_s or 1.0
    shares, times = [], []
    for number in range(n_rounds + 1):
        asked = Asked(prompt=f"{number} {prompt}", n_tokens=1)
        run = await run_request(backbone.api.url, asked)
        if number:
            times.append(run.prefill_s)
            least_s = max(run.bytes_down / up_bytes_s, run.bytes_up / down_bytes_s)
            shares.append(least_s / run.prefill_s)
    name = f"long prompt over the office link, {model}"
    return [
        figure(name, "s", times),
        figure(
            f"{name}, share of the link",
            "x",
            shares,
            at_least=_LINK_TARGET,
        ),
    ]


def traffic_figures(runs: dict[str, Sequence[Run]]) -> list[Figure]:
    """Bytes each way a token by profile, as workers see them: results are upload."""
    found = []
    for profile, own in runs.items():
        up = [run.bytes_down / run.n_decoded for run in own]
        down = [run.bytes_up / run.n_decoded for run in own]
        found += [
            figure(f"{profile}, workers' upload", "bytes/token", up),
            figure(f"{profile}, workers' download", "bytes/token", down),
        ]
    if {"r8", "r32"} <= runs.keys():
        ratios = [
            (a.bytes_down / a.n_decoded) / (b.bytes_down / b.n_decoded)
            for a, b in zip(runs["r8"], runs["r32"], strict=True)
        ]
        name = "workers' upload a token, r8 over r32"
        found.append(figure(name, "x", ratios, at_most=_UPLOAD_TARGET))
    return found
