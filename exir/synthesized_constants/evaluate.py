# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What one call of an op gives, if its operands are known.

Ops run on compact operands where they can. Whether one runs at all is decided by sizes,
before anything is allocated.
"""

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Mapping, Optional, Protocol, Tuple

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.compact import (
    CompactValue,
    compress,
    concatenate,
    Form,
    joined_sizes,
    logical_bytes,
    move,
    owned,
)
from executorch.exir.synthesized_constants.op_traits import OpClass
from torch.fx import Node
from torch.fx.node import map_aggregate, map_arg

#: Bytes; no op is run whose result or one of whose operands, written out, would be
#: larger, nor the result together with the operands as they are held.
EVALUATION_LIMIT = 256 << 20

#: Bytes; the compact size of smaller results is not looked at before they are computed.
_SMALL = 1 << 16


class Unknown(enum.Enum):
    """Why the value of a node is not known."""

    RUNTIME = "depends on an input, a weight or state"
    OPAQUE = "the op is random, mutates, leaves memory uninitialized, or is not known"
    MUTATED = "is written to in place"
    DYNAMIC = "its shape is not static and its elements are not all equal"
    TOO_LARGE = "would need more memory at compile time than the evaluation limit"
    FAILED = "the op could not be run at compile time"
    MISMATCH = "the op gave another dtype or shape than the graph says"
    KEPT = "the policy keeps this op"
    NOT_A_TENSOR = "is not a dense CPU tensor"


@dataclass(frozen=True)
class Later:
    """Of a value that is known, and was not computed.

    Attributes:
        data_shape: sizes that broadcast to the value; None if there are several results.
    """

    data_shape: Optional[Tuple[int, ...]]


class NotEvaluated(Exception):
    """A value was asked for that cannot be computed.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: Unknown) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Operands(Protocol):
    """What is known of the operands of calls."""

    def form(self, node: Node) -> Optional[Form]:
        """The value of a node without its elements, None if it is not known."""
        ...

    def make_room(self, size: int) -> None:
        """Called before a result of at most ``size`` bytes is computed."""
        ...


def evaluate(
    node: Node,
    operands: Operands,
    value_of: Callable[[Node], CompactValue],
    can_wait: Optional[int] = None,
) -> Any:
    """Evaluates a call of an op.

    Args:
        node: the call.
        operands: what is known of its operands.
        value_of: gives their values.
        can_wait: bytes; a value that takes more is not computed. None is no limit.

    Returns:
        The compact value (a list of them if there are several results), ``Later``, or
        why there is none.

    Raises:
        NotEvaluated: by ``value_of``.
    """
    kind = op_traits.classify(node.target)
    if kind is OpClass.OPAQUE:
        return Unknown.OPAQUE
    expected: Any = node.meta.get("val")
    if not _are_dense_cpu(expected):
        return Unknown.NOT_A_TENSOR
    if kind is OpClass.FILL:
        filled = _fill(node, expected)
        if filled is not None:
            return _finish(filled, expected)

    call = _Call(node, kind, expected, _tensor_operands(node))
    if _is_spread(call, operands):
        call = dataclasses.replace(call, operands=call.operands[:1], spread=True)
    elif any(operands.form(n) is None for n in node.all_input_nodes):
        return Unknown.RUNTIME
    try:
        with torch.no_grad():
            return _evaluate_known(call, operands, value_of, can_wait)
    except NotEvaluated:
        raise
    except Exception:  # whatever an op may raise: it then stays in the graph
        return Unknown.FAILED


@dataclass(frozen=True)
class _Call:
    """A call of an op.

    Attributes:
        node: the call.
        kind: of the op.
        expected: what the graph says that it gives: a tensor or several.
        operands: the tensors that the result depends on, each once.
        spread: whether the result is the operand in other sizes, whatever the other
            arguments are: it is broadcast, or all its elements are equal.
    """

    node: Node
    kind: OpClass
    expected: Any
    operands: List[Node]
    spread: bool = False

    @property
    def single(self) -> bool:
        """Whether there is one result."""
        return isinstance(self.expected, torch.Tensor)


def _is_spread(call: _Call, operands: Operands) -> bool:
    if call.kind is not OpClass.SELECTION or not call.operands or not call.single:
        return False
    form = operands.form(call.operands[0])
    return form is not None and (form.uniform or op_traits.is_expand(call.node.target))


def _evaluate_known(
    call: _Call,
    operands: Operands,
    value_of: Callable[[Node], CompactValue],
    can_wait: Optional[int],
) -> Any:
    forms = {n: f for n in call.operands if (f := operands.form(n)) is not None}
    size, sizes = written_out(call.expected), None
    if size is None or size > (_SMALL if can_wait is None else min(_SMALL, can_wait)):
        sizes = _compact_sizes(call, forms)
        if sizes is not None:
            size = math.prod(sizes) * call.expected.dtype.itemsize
    if (size or 0) + sum(form.nbytes for form in forms.values()) > EVALUATION_LIMIT:
        return Unknown.TOO_LARGE
    if can_wait is not None and size is not None and size > can_wait:
        if sizes is None and call.single:
            sizes = tuple(call.expected.shape)
        return Later(sizes)
    values = {n: value_of(n) for n in call.operands}
    operands.make_room(size or 0)
    if call.single:
        data = _compact_result(call, values)
        if data is not None:
            outcome = _finish(data, call.expected)
            if call.spread or not isinstance(outcome, Unknown):
                return outcome
        del data
    return _evaluate_in_full(call, values)


def _compact_result(
    call: _Call, values: Mapping[Node, CompactValue]
) -> Optional[torch.Tensor]:
    """Runs an op on compact operands; None if it needs them in full."""
    node, shape = call.node, tuple(call.expected.shape)
    if call.kind is OpClass.POINTWISE:
        return _run(node, lambda n: values[n].data)
    if op_traits.is_concatenation(node.target):
        return concatenate(*_pieces(node, values))
    if call.spread:
        # Whatever is picked, it is the same element; whatever the new sizes are, the
        # compact form stays.
        return move(_name(node), values[call.operands[0]], shape, ())
    if _only_moves(call):
        return move(_name(node), values[call.operands[0]], shape, node.args[1:])
    return None


def _compact_sizes(
    call: _Call, forms: Mapping[Node, Form]
) -> Optional[Tuple[int, ...]]:
    """Returns the sizes of the compact result, or larger ones, without running the op;
    None if it needs its operands in full."""
    if not call.single or not call.operands:
        return None
    if call.kind is OpClass.POINTWISE:
        return tuple(
            torch.broadcast_shapes(*(form.data_shape for form in forms.values()))
        )
    stand_ins = {n: form.without_elements() for n, form in forms.items()}
    if op_traits.is_concatenation(call.node.target):
        return joined_sizes(*_pieces(call.node, stand_ins))
    if call.spread or _only_moves(call):
        moved = _compact_result(call, stand_ins)
        return None if moved is None else tuple(moved.shape)
    return None


def _only_moves(call: _Call) -> bool:
    return (
        call.kind is OpClass.SELECTION
        and not call.node.kwargs
        and len(call.operands) == 1
    )


def _pieces(
    node: Node, values: Mapping[Node, CompactValue]
) -> Tuple[List[CompactValue], int]:
    """The values that a call concatenates, and the dimension along which it does."""
    pieces, *dim = node.args
    return (
        [values[n] for n in pieces],  # type: ignore[union-attr, index]
        dim[0] if dim else node.kwargs.get("dim", 0),  # type: ignore[return-value]
    )


def _evaluate_in_full(call: _Call, values: Mapping[Node, CompactValue]) -> Any:
    expected = call.expected
    results = [expected] if call.single else list(expected)
    sizes = [logical_bytes(tuple(r.shape), r.dtype) for r in results]
    sizes += [logical_bytes(v.shape, v.data.dtype) for v in values.values()]
    if any(size is None for size in sizes):
        return Unknown.DYNAMIC
    if max(sizes, default=0) > EVALUATION_LIMIT:  # type: ignore[type-var, operator]
        return Unknown.TOO_LARGE
    outcome = _run(call.node, lambda n: values[n].view())
    if call.single:
        return _finish(compress(outcome), expected)
    parts = [_finish(compress(o), e) for o, e in zip(outcome, results)]
    return next((p for p in parts if isinstance(p, Unknown)), parts)


def _run(node: Node, tensor_of: Callable[[Node], torch.Tensor]) -> Any:
    op = op_traits.aten_op(node.target)
    assert op is not None
    args = map_arg(node.args, tensor_of)
    kwargs = map_arg(node.kwargs, tensor_of)
    # fx wraps lists into immutable ones, which some ops refuse.
    plain = lambda x: list(x) if isinstance(x, list) else x  # noqa: E731
    return op(*map_aggregate(args, plain), **map_aggregate(kwargs, plain))


def _fill(node: Node, expected: torch.Tensor) -> Optional[torch.Tensor]:
    scalar = op_traits.fill_scalar(node.target, node.args, node.kwargs)
    if not isinstance(scalar, (bool, int, float, complex)):
        return None  # a tensor or a symbol
    try:
        return torch.full([1] * expected.dim(), scalar, dtype=expected.dtype)
    except (RuntimeError, TypeError):
        return None  # out of the dtype's range


def _finish(data: Optional[torch.Tensor], expected: torch.Tensor) -> Any:
    """Holds a compact result against what the graph says that the op gives."""
    shape = tuple(expected.shape)
    if data is None or data.dtype != expected.dtype or data.dim() != len(shape):
        return Unknown.MISMATCH
    if any(isinstance(d, int) and d == 0 for d in shape):
        shape = tuple(int(d) if isinstance(d, int) else d for d in shape)
        if not all(isinstance(d, int) for d in shape):
            return Unknown.DYNAMIC
        return CompactValue(torch.empty(shape, dtype=data.dtype), shape)
    for size, dim in zip(data.shape, shape):
        # A symbolic dimension must be compact: there is no size to compare with.
        if size != 1 and not (isinstance(dim, int) and size == dim):
            return Unknown.MISMATCH if isinstance(dim, int) else Unknown.DYNAMIC
    return CompactValue(owned(data), shape)


def written_out(expected: Any) -> Optional[int]:
    """Bytes of a tensor or several, None if there are none or a shape is not static."""
    tensors = [expected] if isinstance(expected, torch.Tensor) else expected
    if not isinstance(tensors, (list, tuple)):
        return None
    if not all(isinstance(t, torch.Tensor) for t in tensors):
        return None
    sizes = [logical_bytes(tuple(t.shape), t.dtype) for t in tensors]
    return None if None in sizes else sum(sizes)  # type: ignore[arg-type]


def _name(node: Node) -> str:
    op = op_traits.aten_op(node.target)
    assert op is not None
    return op._schema.name


def _tensor_operands(node: Node) -> List[Node]:
    return [
        n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)
    ]


def _are_dense_cpu(expected: Any) -> bool:
    tensors: Iterable[Any]
    tensors = [expected] if isinstance(expected, torch.Tensor) else expected
    return isinstance(tensors, (list, tuple)) and all(
        isinstance(t, torch.Tensor)
        and t.layout == torch.strided
        and t.device.type == "cpu"
        for t in tensors
    )
