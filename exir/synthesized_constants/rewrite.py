# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Third step: carries out a plan on a graph.

Where the constants go is the business of a ``Home``: for the graph of a program they
become placeholders with an entry in signature and constants table; for the body of a
control-flow op (``regions.py``) they are handed in from outside.
"""

import hashlib
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Protocol, Tuple

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.analyse import Analysis
from executorch.exir.synthesized_constants.compact import (
    CompactValue,
    fill_value,
    logical_bytes,
)
from executorch.exir.synthesized_constants.demand import Use
from executorch.exir.synthesized_constants.layout import (
    dim_order_of,
    expanded_sizes,
    lay_out,
)
from executorch.exir.synthesized_constants.recipe import (
    MAX_CHAIN,
    META_KEY,
    module_path,
    source_line,
    Step,
    SynthesizedConstant,
)
from executorch.exir.synthesized_constants.select import content_digest, Dims, Plan
from torch.fx import Graph, Node

#: Bytes. Constants of at most this size get a placeholder for each user, all with one
#: target: a delegate then takes its own, where a shared one would cross its border.
PER_USER_BYTES = 64

DTYPE_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


class Home(Protocol):
    """Takes in constants for one graph."""

    def add(
        self, tensor: torch.Tensor, constant: SynthesizedConstant, like: Node
    ) -> Tuple[Node, SynthesizedConstant]:
        """Stores ``tensor`` and returns a new node of the graph that stands for it,
        with the description under the name that it got. ``like`` is the node whose
        value it is."""
        ...


@dataclass
class Rewritten:
    """What was done to one graph.

    Attributes:
        placeholders: the new nodes of each stored value, by description.
        folded: number of calls that were removed.
    """

    placeholders: List[Tuple[SynthesizedConstant, List[Node]]]
    folded: int


def rewrite(graph: Graph, analysis: Analysis, plan: Plan, home: Home) -> Rewritten:
    """Replaces stored values by constants and removes what nothing uses any more.

    Args:
        graph: the analysed graph. Modified in-place.
        analysis: its known values.
        plan: what to store and what to compute.
        home: where constants go.
    """
    users: Dict[Node, List[Tuple[Node, Use]]] = {node: [] for node in plan.stored}
    for user, demands in plan.demands.items():
        for node, demand in demands.items():
            if node in users:
                users[node].append((user, demand.use))
    made = [
        _store(graph, analysis, node, dims, users[node], home)
        for node, dims in plan.stored.items()
    ]
    folded = _erase_dead(graph, analysis)
    return Rewritten(made, folded)


def _store(
    graph: Graph,
    analysis: Analysis,
    node: Node,
    dims: Dims,
    users: List[Tuple[Node, Use]],
    home: Home,
) -> Tuple[SynthesizedConstant, List[Node]]:
    stand_in = _StandIns(analysis, node, dims, home)
    full: Optional[Node] = None
    for user, use in users:
        if use is Use.BROADCAST or (
            use is Use.FULL and dims == tuple(node.meta["val"].shape)
        ):
            replacement = stand_in.next()
            _make_sizes_explicit(user, node)
        else:
            if full is None:
                full = _expand(graph, node, stand_in.next())
            replacement = full
        user.replace_input_with(node, replacement)
    return stand_in.constant, stand_in.nodes


class _StandIns:
    """The nodes that stand for one stored form: one for all users, or one for each if
    the constant is small."""

    def __init__(self, analysis: Analysis, node: Node, dims: Dims, home: Home) -> None:
        value = analysis.value(node)
        self.constant = describe(analysis, node, dims, value)
        self.nodes: List[Node] = []
        self._tensor = lay_out(value.with_dims(dims), self.constant.dim_order)
        self._like = node
        self._home = home

    def next(self) -> Node:
        """Returns the node for one more user."""
        if not self.nodes or self.constant.stored_bytes <= PER_USER_BYTES:
            node, self.constant = self._home.add(
                self._tensor, self.constant, self._like
            )
            self.nodes.append(node)
        return self.nodes[-1]


def _expand(graph: Graph, node: Node, small: Node) -> Node:
    """Inserts the one op that makes the full value of ``node`` at run time."""
    edge = isinstance(node.target, EdgeOpOverload)
    op = (exir_ops.edge if edge else torch.ops).aten.expand_copy.default
    with graph.inserting_before(node):
        full = graph.call_function(op, (small, expanded_sizes(node.meta["val"].shape)))
    full.meta = inherited_meta(node)
    full.meta["val"] = node.meta["val"]
    return full


def _make_sizes_explicit(user: Node, operand: Node) -> None:
    if not op_traits.is_expand(user.target) or user.args[0] is not operand:
        return
    value = user.meta["val"]
    if all(isinstance(d, int) for d in value.shape):
        user.args = (user.args[0], expanded_sizes(value.shape), *user.args[2:])


def _erase_dead(graph: Graph, analysis: Analysis) -> int:
    folded = 0
    for node in reversed(list(analysis.known)):
        if not node.users:
            graph.erase_node(node)
            folded += node.op == "call_function"
    return folded


# --- Description -------------------------------------------------------------------

#: Meta that belongs to a node itself and must not go to the node that replaces it.
_OWN_META = ("val", "spec", "tensor_meta", "delegation_tag", META_KEY)


def inherited_meta(node: Node) -> Dict[str, Any]:
    """Returns what a node that stands for ``node`` takes over of its meta: the trace
    of where it came from."""
    meta = {k: v for k, v in node.meta.items() if k not in _OWN_META}
    # Every node of an edge program has it, and exir takes that for granted where it
    # copies a placeholder. None: "val" is a fake tensor and says it all.
    meta["tensor_meta"] = None
    if not meta.get("nn_module_stack", True):
        del meta["nn_module_stack"]  # of a branch: unflatten takes no empty one
    return meta


def describe(
    analysis: Analysis, node: Node, dims: Dims, value: Optional[CompactValue]
) -> SynthesizedConstant:
    """Describes the constant that stores the value of ``node`` in sizes ``dims``.

    Args:
        analysis: of the graph.
        node: the value.
        dims: of the stored form.
        value: its elements. Without them the description has no name, which follows
            from them, and no fill value.
    """
    expected = node.meta["val"]
    shape = tuple(expected.shape)
    order = dim_order_of(expected)
    op = op_traits.op_name(_maker(analysis, node).target)
    name, fill = "", None
    if value is not None:
        maker = "aten.full" if value.uniform else op
        name = constant_name(maker, value.data, dims, order)
        fill = fill_value(value.data) if value.uniform else None
    return SynthesizedConstant(
        name=name,
        op=op,
        steps=_steps(analysis, node),
        shape=tuple(d if isinstance(d, int) else None for d in shape),
        dtype=expected.dtype,
        stored_shape=dims,
        dim_order=order,
        value_bytes=logical_bytes(shape, expected.dtype),
        stored_bytes=math.prod(dims) * expected.dtype.itemsize,
        fill_value=fill,
        source=source_line(node),
        module=module_path(node),
    )


def _maker(analysis: Analysis, node: Node) -> Node:
    """The op that decided the elements: what only moves or converts them is passed
    over, as long as it has one known operand."""
    while op_traits.only_moves(node.target):
        (source, *others) = node.all_input_nodes
        if others or source not in analysis.known or source.op != "call_function":
            break
        node = source
    return node


def constant_name(
    op: str, data: torch.Tensor, dims: Dims, order: Tuple[int, ...], digits: int = 8
) -> str:
    """Returns the target of a constant, e.g. ``arange_8x8_i64_3f2a9c10``. It follows
    from op and content alone, so that two exports of a model agree on it."""
    content = content_digest(data) + f" {dims} {order}"
    return "_".join(
        part
        for part in (
            short_name(op),
            "x".join(map(str, dims)),
            DTYPE_NAMES.get(data.dtype, str(data.dtype).replace("torch.", "")),
            _sha256(content)[:digits],
        )
        if part
    )


def short_name(op: str) -> str:
    """Returns the op's own name: ``arange`` of ``aten.arange.start_step``."""
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else op
    return name.strip("_").replace("_copy", "") or "constant"


def placeholder_name(constant: SynthesizedConstant) -> str:
    """Returns the name that a placeholder of the constant should have."""
    uniform = constant.fill_value is not None
    return f"synth_{'full' if uniform else short_name(constant.op)}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _steps(analysis: Analysis, node: Node) -> Tuple[Step, ...]:
    # The nearest ops first, so that a long chain costs no more than a short one.
    found, queue = {node}, deque([node])
    while queue:
        for operand in queue.popleft().all_input_nodes:
            if operand in analysis.known and operand not in found:
                if len(found) < MAX_CHAIN:
                    found.add(operand)
                    queue.append(operand)
    chain = [node]
    if node in analysis.known:
        chain = sorted(found, key=lambda n: analysis.known[n].index)
    number = {n: i for i, n in enumerate(chain)}

    def text(argument: Any) -> str:
        if isinstance(argument, Node):
            return f"%{number.get(argument, argument.name)}"
        if isinstance(argument, (list, tuple)):
            return "[" + ", ".join(map(text, argument)) + "]"
        return str(argument)

    steps = []
    for n in chain:
        arguments = [text(a) for a in n.args]
        arguments += [f"{k}={text(v)}" for k, v in n.kwargs.items() if v is not None]
        steps.append(Step(op_traits.op_name(n.target), ", ".join(arguments)))
    return tuple(steps)
