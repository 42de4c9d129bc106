import gc
import weakref

import numpy as np

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.speculation.restricted import AtHandLayers, Wanted
from p2pmoe.model.experts import Routing
from tests.support.tiny_model import tiny_model


def test_a_layer_sees_what_is_in_memory_when_it_is_routed() -> None:
    tiny = tiny_model()
    layer = tiny.model.description.moe_layers[0]
    router = tiny.model.routers()[layer]
    hidden = np.random.default_rng(1).standard_normal(
        (3, tiny.model.description.n_embd)
    )
    hidden = hidden.astype(np.float32)
    every = dict(tiny.experts.layer(layer, range(tiny.model.description.n_expert)))
    now = [every]
    layers = AtHandLayers(lambda _: now[0], NumpyKernel(), Profile.R32)
    wanted = Wanted()
    routing = layers.route(layer, router, hidden, wanted)
    assert np.array_equal(routing.experts, router.route(hidden).experts)
    mixed = layers.begin(layer, hidden, routing).finish()
    plain = tiny.experts.begin(layer, hidden, router.route(hidden))
    assert np.allclose(mixed, plain.finish(), rtol=1e-5, atol=1e-6)
    now[0] = {1: every[1]}  # the others were evicted
    routing = layers.route(layer, router, hidden)
    assert routing.experts.tolist() == [[1]] * 3
    assert np.isfinite(layers.begin(layer, hidden, routing).finish()).all()
    [(_, noted)] = wanted.logits.values()
    assert [rows.shape[0] for rows in noted] == [3]


class Layer(dict[int, object]):
    """A layer's experts that can be watched."""


def test_b15_experts_are_held_no_longer_than_they_are_computed_with() -> None:
    tiny = tiny_model()
    layer = tiny.model.description.moe_layers[0]
    n_expert = tiny.model.description.n_expert
    now = [Layer(tiny.experts.layer(layer, range(n_expert)))]
    layers = AtHandLayers(lambda _: now[0], NumpyKernel(), Profile.R32)
    hidden = np.ones((1, tiny.model.description.n_embd), np.float32)
    routing = layers.route(layer, tiny.model.routers()[layer], hidden)
    pending = layers.begin(layer, hidden, routing)
    assert layers.at_hand(layer, n_expert).all()
    before = weakref.ref(now[0])
    now[0] = Layer()  # all were evicted
    gc.collect()
    assert before() is None
    assert np.isfinite(pending.finish()).all()
    assert not layers.at_hand(layer, n_expert).any()


def test_nothing_at_hand_mixes_to_nothing() -> None:
    layers = AtHandLayers(lambda _: {}, NumpyKernel(), Profile.R16)
    none = Routing(
        experts=np.zeros((2, 0), np.int64), weights=np.zeros((2, 0), np.float32)
    )
    pending = layers.begin(0, np.ones((2, 32), np.float32), none)
    pending.compute()
    rung = []
    pending.notify(lambda: rung.append(1))
    pending.abandon()
    assert rung == [1]
    assert pending.is_ready()
    assert not pending.finish().any()
