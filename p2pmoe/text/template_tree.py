"""A parsed template, changed so that what may be large or take long is metered.

Loops, ~, literals of lists and the like, comparisons and slices, which jinja2 compiles
into operations of Python, become or pass through methods of the environment: `metered`,
`joined`, `measured` and `timed` (see `sandbox`).
"""

from collections.abc import Sequence

from jinja2 import nodes

__all__ = ["metered_tree"]


def metered_tree(tree: nodes.Template) -> nodes.Template:
    """Send what may be large or take long through the methods of `Sandbox`."""
    waiting: list[nodes.Node] = [tree]
    while waiting:
        parent = waiting.pop()
        if isinstance(parent, nodes.For):
            parent.iter = _call_of("metered", [parent.iter])
        if isinstance(parent, nodes.Compare):
            parent.expr = _call_of("timed", [parent.expr])
        if isinstance(parent, nodes.Getitem) and isinstance(parent.arg, nodes.Slice):
            parent.node = _call_of("timed", [parent.node])
        for field, value in parent.iter_fields():
            if _is_measuring(parent):
                break  # what it measures is measured; what is in that comes below
            if isinstance(value, list):
                value[:] = map(_replaced, value)
            else:
                setattr(parent, field, _replaced(value))
        waiting.extend(parent.iter_child_nodes())
    return tree


def _is_measuring(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Call):
        return False
    called = node.node
    return isinstance(called, nodes.EnvironmentAttribute) and called.name == "measured"


def _replaced(value: object) -> object:
    match value:
        case nodes.Concat():
            return _call_of("joined", value.nodes)
        case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
            return _call_of("measured", [value])
    return value


def _call_of(name: str, arguments: Sequence[nodes.Node]) -> nodes.Call:
    attribute = nodes.EnvironmentAttribute(name)
    return nodes.Call(attribute, list(arguments), [], None, None)
