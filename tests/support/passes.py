"""Passes as a backbone could tell of them, and any that a hostile one could."""

from dataclasses import fields

from hypothesis import strategies as st

from p2pmoe.passes.values import LayerTrace, PassTrace

_OF_KIND: dict[object, st.SearchStrategy] = {
    float: st.floats(0, 1e12),
    int: st.integers(0, 1 << 48),
    str: st.text(max_size=9),
    tuple[int, ...]: st.lists(st.integers(0, 999), max_size=3).map(tuple),
}
any_layer = st.builds(
    LayerTrace, **{each.name: _OF_KIND[each.type] for each in fields(LayerTrace)}
)
any_pass = st.builds(
    PassTrace,
    layers=st.lists(any_layer, max_size=3).map(tuple),
    **{e.name: _OF_KIND[e.type] for e in fields(PassTrace) if e.name != "layers"},
)


def waited(number: int, *missing: int, start_s: float = 0.01) -> LayerTrace:
    """Return a layer away for 20 ms, of which the lane waited for 15."""
    return LayerTrace(
        layer=number,
        start_s=start_s,
        missing=missing,
        n_rows=2,
        trips=1,
        meanwhile_s=0.005,
        wait_s=0.015,
        answered_s=start_s + 0.02,
    )


def a_pass(
    start_s: float, *layers: LayerTrace, n_committed: int = 1, **more: object
) -> PassTrace:
    """Return a pass of 100 ms."""
    return PassTrace(
        start_s=start_s,
        seconds=0.1,
        n_layers=7,
        n_committed=n_committed,
        trips=len(layers),
        wait_s=sum(each.wait_s for each in layers),
        layers=layers,
        **more,
    )
