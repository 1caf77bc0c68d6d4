# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The one place that says what an op is: pure, pointwise, random, a creator, ...

Answers come from the op's schema and tags. Tables stand only for what neither tells,
and no other module has a table of ops.
"""

import enum
import functools
from typing import Any, Optional

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import HigherOrderOperator, OpOverload


class OpClass(enum.Enum):
    """How the value of an op's result follows from its operands."""

    #: Depends on state, makes state, or is not ours to judge.
    OPAQUE = enum.auto()
    #: Every element of the result is one given scalar; tensor operands count for their
    #: shape and dtype alone.
    FILL = enum.auto()
    #: Element-wise over operands that broadcast.
    POINTWISE = enum.auto()
    #: Every element of the result is an element of the first operand.
    SELECTION = enum.auto()
    #: Anything else that is a function of its operands.
    FUNCTION = enum.auto()


# Namespaces whose schemas can be trusted to tell about mutation and aliasing.
_NAMESPACES = ("aten", "prims", "dim_order_ops", "quantized_decomposed")

# name -> position of the scalar in the arguments; None: the op's name says it.
_FILLS = {
    "aten::full": 1,
    "aten::full_like": 1,
    "aten::new_full": 2,
    "aten::fill": 1,
    "aten::scalar_tensor": 0,
    "aten::zeros": None,
    "aten::zeros_like": None,
    "aten::new_zeros": None,
    "aten::ones": None,
    "aten::ones_like": None,
    "aten::new_ones": None,
}

# Tagged neither pointwise nor view_copy, but they are element-wise.
_COPIES = {
    "aten::_to_copy",
    "aten::clone",
    "aten::contiguous",
    "aten::to",
    "dim_order_ops::_clone_dim_order",
    "dim_order_ops::_to_dim_order_copy",
    "prims::convert_element_type",
}
_POINTWISE = _COPIES | {
    "aten::floor_divide",
    "aten::masked_fill",
    "quantized_decomposed::quantize_per_tensor",
}

# What only picks or moves elements of its first operand, views and their copies. The
# tags do not tell: slice_scatter is tagged as a view too.
_VIEWS = (
    "_reshape_alias",
    "_unsafe_view",
    "alias",
    "as_strided",
    "detach",
    "diagonal",
    "expand",
    "lift",
    "lift_fresh",
    "narrow",
    "permute",
    "reshape",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "tensor_split",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "view",
)
_SELECTIONS = {
    *(f"aten::{name}{copy}" for name in _VIEWS for copy in ("", "_copy")),
    "aten::channel_shuffle",
    "aten::embedding",
    "aten::flip",
    "aten::gather",
    "aten::index",
    "aten::index_select",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::repeat",
    "aten::repeat_interleave",
    "aten::roll",
    "aten::rot90",
    "aten::take",
    "aten::take_along_dim",
    "aten::tile",
    "aten::_unsafe_index",
}


def aten_op(target: Any) -> Optional[OpOverload]:
    """Returns the op that a call's target stands for in either dialect, or None."""
    if isinstance(target, EdgeOpOverload):
        target = target._op
    return target if isinstance(target, OpOverload) else None


def op_name(target: Any) -> str:
    """Returns ``"aten.full.default"`` for the op in either dialect, else its text."""
    op = aten_op(target)
    return str(op) if op is not None else str(target)


@functools.lru_cache(maxsize=None)
def classify(target: Any) -> OpClass:
    """Returns the class of a call's target (an op of the ATen or the edge dialect)."""
    op = aten_op(target)
    if op is None or op.namespace not in _NAMESPACES:
        return OpClass.OPAQUE
    name = op._schema.name
    if is_random(op) or is_mutating(op) or _has_free_memory(name):
        return OpClass.OPAQUE
    if op.namespace == "quantized_decomposed" and not name.startswith(
        "quantized_decomposed::quantize_"
    ):
        # A backend recognizes a constant weight by constant -> dequantize -> op.
        return OpClass.OPAQUE
    if name in _FILLS:
        return OpClass.FILL
    if name in _POINTWISE or torch.Tag.pointwise in op.tags:
        return OpClass.POINTWISE
    if name in _SELECTIONS and op._overloadname != "dtype":
        return OpClass.SELECTION
    return OpClass.FUNCTION


def is_random(op: OpOverload) -> bool:
    """Whether two calls may give different results."""
    return torch.Tag.nondeterministic_seeded in op.tags


def is_mutating(op: OpOverload) -> bool:
    """Whether the op writes to one of its operands."""
    return op._schema.is_mutable


def _has_free_memory(name: str) -> bool:
    """Ops whose result is uninitialized memory or looks into the allocator."""
    base = name.split("::")[1].lstrip("_")
    return base.startswith(("empty", "new_empty", "resize", "set_"))


def fill_scalar(target: Any, args: Any, kwargs: Any) -> Any:
    """Returns the scalar that an op of class FILL fills with."""
    op = aten_op(target)
    assert op is not None
    name = op._schema.name
    position = _FILLS[name]
    if position is None:
        return 1 if "ones" in name else 0
    if position < len(args):
        return args[position]
    return kwargs[op._schema.arguments[position].name]


def broadcasts(target: Any) -> bool:
    """Whether a kernel of the op accepts operands that broadcast to each other."""
    op = aten_op(target)
    if op is None or torch.Tag.pointwise not in op.tags:
        return False
    if classify(target) is not OpClass.POINTWISE:
        return False
    return sum("Tensor" in str(a.type) for a in op._schema.arguments) >= 2


def is_concatenation(target: Any) -> bool:
    """Whether the op joins a list of tensors along a dimension."""
    op = aten_op(target)
    return op is not None and op._schema.name == "aten::cat"


def is_expand(target: Any) -> bool:
    """Whether the op broadcasts its first operand to given sizes."""
    op = aten_op(target)
    return op is not None and op._schema.name in ("aten::expand", "aten::expand_copy")


def only_moves(target: Any) -> bool:
    """Whether the op gives the elements of its operand another place or dtype."""
    op = aten_op(target)
    return op is not None and (
        classify(target) is OpClass.SELECTION or op._schema.name in _COPIES
    )


def has_bodies(target: Any) -> bool:
    """Whether it is a control-flow op, whose bodies are graphs of their own."""
    return isinstance(target, HigherOrderOperator)


def is_alias(target: Any) -> bool:
    """Whether the result shares memory with an operand (ATen dialect)."""
    op = aten_op(target)
    return op is not None and any(
        r.alias_info is not None and not r.alias_info.is_write
        for r in op._schema.returns
    )


def written_arguments(target: Any) -> "list[int]":
    """Positions of the arguments that a call writes to."""
    op = aten_op(target)
    if op is None:
        return []
    return [
        i
        for i, a in enumerate(op._schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
