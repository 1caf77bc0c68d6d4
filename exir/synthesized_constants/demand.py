# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What each user of a known value needs of it: how much of it must be stored.

A user that broadcasts needs only those dimensions that no other operand provides; all
its operands are looked at together, since two that are shrunk together can lose the
shape of the result. The rank never changes: a tensor of rank 0 takes part in type
promotion in another way than one of rank 1.
"""

import enum
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.analyse import Analysis
from executorch.exir.synthesized_constants.compact import Dim
from executorch.exir.synthesized_constants.layout import can_broadcast_into
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true


class Use(enum.Enum):
    """How a user takes a known value."""

    #: As an operand that may be broadcast.
    BROADCAST = enum.auto()
    #: In its full shape.
    FULL = enum.auto()
    #: As an output of the graph, which must be memory of its own.
    OUTPUT = enum.auto()


@dataclass(frozen=True)
class Demand:
    """What one user needs of one known operand.

    Attributes:
        use: how it takes it.
        dims: for BROADCAST, the smallest sizes that do: each is 1 or the full size.
    """

    use: Use
    dims: Tuple[Dim, ...]


def demands_of(user: Node, analysis: Analysis) -> Dict[Node, Demand]:
    """Returns what ``user`` needs of each of its known operands.

    Args:
        user: a node that is executed at run time, or the output node.
        analysis: what is known of its graph.
    """
    operands = [n for n in user.all_input_nodes if n in analysis.known]
    if user.op == "output":
        return {
            n: _whole(analysis, n, _output_use(user, n, analysis)) for n in operands
        }
    if op_traits.broadcasts(user.target):
        shrunk = _broadcast_demands(user, operands, analysis)
        if shrunk is not None:
            return shrunk
    if _expands_to_explicit_sizes(user):
        source = next((n for n in operands if n is user.args[0]), None)
        if source is not None:
            data_shape = analysis.known[source].data_shape
            return {source: Demand(Use.BROADCAST, data_shape)}
    return {n: _whole(analysis, n, Use.FULL) for n in operands}


def _output_use(output: Node, node: Node, analysis: Analysis) -> Use:
    (returned,) = output.args
    # The body of a control-flow op may return a node as it is.
    outputs = returned if isinstance(returned, (list, tuple)) else (returned,)
    handed_out = any(
        n is node and i not in analysis.written_back for i, n in enumerate(outputs)
    )
    return Use.OUTPUT if handed_out else Use.FULL


def _whole(analysis: Analysis, node: Node, use: Use) -> Demand:
    return Demand(use, analysis.known[node].shape)


def _expands_to_explicit_sizes(user: Node) -> bool:
    # -1 stands for the size that the operand has
    return op_traits.is_expand(user.target) and all(
        not isinstance(size, int) or size >= 0
        for size in user.args[1]  # type: ignore[union-attr]
    )


def _broadcast_demands(
    user: Node, known: List[Node], analysis: Analysis
) -> Optional[Dict[Node, Demand]]:
    """Chooses for each dimension of the result who provides it.

    Returns None if the kernel cannot be left to broadcast, or the shapes do not add up
    to the result's; then nothing is shrunk.
    """
    result = user.meta.get("val")
    if not isinstance(result, torch.Tensor) or not can_broadcast_into(result):
        return None
    needed: Dict[Node, List[Dim]] = {
        n: list(analysis.known[n].data_shape) for n in known
    }
    shapes: Dict[Node, Tuple[Any, ...]] = {}
    for n in user.all_input_nodes:
        value = n.meta.get("val")
        if isinstance(value, torch.Tensor):
            shapes[n] = tuple(value.shape)
    rank = len(result.shape)
    if any(len(shape) > rank for shape in shapes.values()):
        return None
    for back in range(1, rank + 1):
        size = result.shape[-back]
        if isinstance(size, int) and size == 1:
            continue
        providers = [
            n
            for n, shape in shapes.items()
            if back <= len(shape) and _same(shape[-back], size)
        ]
        if any(n not in needed for n in providers):
            continue  # an operand that is there at run time
        if not providers:
            return None
        if any(_is_full(needed[n], shapes[n], back) for n in providers):
            continue
        # The one that grows least.
        chosen = min(providers, key=lambda n: _numel(needed[n]))
        needed[chosen][-back] = shapes[chosen][-back]
    return {n: Demand(Use.BROADCAST, tuple(dims)) for n, dims in needed.items()}


def _same(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return statically_known_true(a == b)  # adds no guard


def _is_full(dims: List[Dim], shape: Tuple[Dim, ...], back: int) -> bool:
    return _same(dims[-back], shape[-back])


def _numel(dims: List[Dim]) -> int:
    total = 1
    for size in dims:
        total *= size if isinstance(size, int) else 1
    return total
