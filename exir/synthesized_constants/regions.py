# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Bodies of control-flow ops: what is known in them, and how a constant gets in.

A constant of a body enters it as one more operand of the op (``additional_inputs``); the
bytes are those of a constant of the program.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import torch
from executorch.exir.synthesized_constants.analyse import analyse, Analysis, Keep
from executorch.exir.synthesized_constants.compact import CompactValue
from executorch.exir.synthesized_constants.recipe import (
    BODY_META_KEY,
    META_KEY,
    SynthesizedConstant,
)
from executorch.exir.synthesized_constants.report import Report
from executorch.exir.synthesized_constants.rewrite import (
    Home,
    inherited_meta,
    placeholder_name,
)
from executorch.exir.synthesized_constants.select import Limits
from torch.fx import GraphModule, Node


@dataclass(frozen=True)
class _Form:
    """Where an op has its parts, as positions in its arguments.

    Attributes:
        bodies: the submodules.
        before: operand lists that come first in a body's placeholders; their values
            change from call to call.
        shared: the operand list that comes last, the same for each call of a body.
    """

    bodies: Tuple[int, ...]
    before: Tuple[int, ...]
    shared: int


def _forms() -> Dict[Any, _Form]:
    higher_order = torch.ops.higher_order
    return {
        higher_order.cond: _Form((1, 2), (), 3),
        higher_order.map_impl: _Form((0,), (1,), 2),
        higher_order.scan: _Form((0,), (1, 2), 3),
        higher_order.while_loop: _Form((0, 1), (2,), 3),
    }


class _BodyHome:
    """Takes in constants for one body of a control-flow op."""

    def __init__(
        self, op: Node, form: _Form, bodies: List[GraphModule], body: int, outer: Home
    ) -> None:
        self._op = op
        self._form = form
        self._bodies = bodies
        self._body = body
        self._outer = outer

    def add(
        self, tensor: torch.Tensor, constant: SynthesizedConstant, like: Node
    ) -> Tuple[Node, SynthesizedConstant]:
        """See ``rewrite.Home``."""
        outside, constant = self._outer.add(tensor, constant, like)
        arguments = list(self._op.args)
        shared = arguments[self._form.shared]
        arguments[self._form.shared] = type(shared)([*shared, outside])  # type: ignore
        self._op.args = tuple(arguments)
        inside = []
        for body in self._bodies:
            first = next(n for n in body.graph.nodes if n.op != "placeholder")
            with body.graph.inserting_before(first):
                node = body.graph.placeholder(placeholder_name(constant))
            node.target = node.name
            node.meta = inherited_meta(like)
            node.meta["val"] = outside.meta["val"]
            node.meta[META_KEY] = constant
            node.meta[BODY_META_KEY] = True
            inside.append(node)
        return inside[self._body], constant


def lift_bodies(
    graph_module: GraphModule,
    analysis: Analysis,
    keep: Keep,
    limits: Limits,
    home: Home,
    report: Report,
) -> Limits:
    """Lifts in the bodies of all control-flow ops of a graph, inner ones first.

    Returns:
        The limits for what remains: the total is less what was stored.
    """
    from executorch.exir.synthesized_constants.lift import lift_region

    forms = _forms()
    for op in list(graph_module.graph.nodes):
        form = forms.get(op.target) if op.op == "call_function" else None
        if form is None:
            continue
        bodies = [getattr(graph_module, str(op.args[i].target)) for i in form.bodies]
        for i, body in enumerate(bodies):
            literals = _known_operands(op, form, body, analysis)
            inner = analyse(body, literals, keep, limits.constant)
            inner_home = _BodyHome(op, form, bodies, i, home)
            limits = lift_bodies(body, inner, keep, limits, inner_home, report)
            stored = lift_region(body, inner, limits, inner_home, report)
            if limits.total is not None:
                limits = dataclasses.replace(
                    limits, total=max(limits.total - stored, 0)
                )
        _drop_unused_operands(op, form, bodies)
        for body in bodies:
            body.recompile()
    return limits


def _placeholders(body: GraphModule) -> List[Node]:
    return [n for n in body.graph.nodes if n.op == "placeholder"]


def _first_shared(op: Node, form: _Form) -> int:
    return sum(len(op.args[i]) for i in form.before)  # type: ignore[arg-type, misc]


def _known_operands(
    op: Node, form: _Form, body: GraphModule, analysis: Analysis
) -> Dict[Node, CompactValue]:
    inside = _placeholders(body)[_first_shared(op, form) :]
    shared: Any = op.args[form.shared]
    return {
        placeholder: analysis.value(operand)
        for placeholder, operand in zip(inside, shared)
        if isinstance(operand, Node)
        and analysis.is_known(operand)
        and isinstance(operand.meta.get("val"), torch.Tensor)
    }


def _drop_unused_operands(op: Node, form: _Form, bodies: List[GraphModule]) -> None:
    """Removes operands that no body uses any more: their values were folded."""
    start = _first_shared(op, form)
    columns = [_placeholders(body)[start:] for body in bodies]
    shared: Any = op.args[form.shared]
    kept = []
    for i, operand in enumerate(shared):
        if any(column[i].users for column in columns):
            kept.append(operand)
            continue
        for body, column in zip(bodies, columns):
            body.graph.erase_node(column[i])
    arguments = list(op.args)
    arguments[form.shared] = type(shared)(kept)
    op.args = tuple(arguments)
