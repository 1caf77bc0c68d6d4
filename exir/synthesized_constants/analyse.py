# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""First step: which values of a graph does the compiler know, and what are they?

Being known is apart from being stored. A value that is too large to store still lets
the ops that use it be known.
"""

import enum
import operator
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.compact import (
    CompactValue,
    compress,
    concatenate,
    logical_bytes,
    move,
)
from executorch.exir.synthesized_constants.op_traits import OpClass
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

#: Bytes; no op is run whose result or operands, written out, would be larger.
EVALUATION_LIMIT = 256 << 20

#: Bytes; larger values are dropped once their users are known, and computed again if
#: they are to be stored.
RETAINED_BYTES = 1 << 16


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


@dataclass
class Analysis:
    """What is known of one graph.

    Attributes:
        known: the call nodes (and tensor attributes) whose value is known, in graph
            order. A node with several results is here too; its results are those of
            its ``getitem`` users.
        literals: placeholders whose tensor is known; they are stored already.
        unknown: why each other call node is not known.
        written_back: positions among the graph's outputs whose value is copied into a
            buffer or an input, and not handed out.
    """

    known: Dict[Node, "Fact"] = field(default_factory=dict)
    literals: Dict[Node, CompactValue] = field(default_factory=dict)
    unknown: Dict[Node, Unknown] = field(default_factory=dict)
    written_back: FrozenSet[int] = frozenset()

    def is_known(self, node: Node) -> bool:
        """Whether the value is known, be it of a call or of a placeholder."""
        return node in self.known or node in self.literals

    def value(self, node: Node) -> CompactValue:
        """Returns the value of a known node, computing it again if it was dropped."""
        if node in self.literals:
            return self.literals[node]
        value = self._value_or_values(node)
        assert isinstance(value, CompactValue), f"{node} has several results"
        return value

    def _value_or_values(self, node: Node) -> Any:
        if node in self.literals:
            return self.literals[node]
        value = self.known[node].value
        return value if value is not None else self._compute_again(node)

    def _compute_again(self, node: Node) -> Any:
        """Evaluates a dropped value and the dropped values before it, each of which is
        held only until its last user here is done. Chains may be long: no recursion.
        """
        missing, stack = {node}, [node]
        while stack:
            for operand in stack.pop().all_input_nodes:
                if operand in self.known and self.known[operand].value is None:
                    if operand not in missing:
                        missing.add(operand)
                        stack.append(operand)
        order = sorted(missing, key=lambda n: self.known[n].index)
        last_use = {n: user for user in order for n in user.all_input_nodes}
        values: Dict[Node, Any] = {}
        for current in order:
            values[current] = _evaluate(
                current,
                lambda n: values[n] if n in values else self._value_or_values(n),
                lambda _: True,
            )
            for operand in current.all_input_nodes:
                if last_use[operand] is current:
                    values.pop(operand, None)
        again = values[node]
        assert not isinstance(again, Unknown), f"{node} is known no longer: {again}"
        return again


@dataclass
class Fact:
    """A known value, as far as choosing what to store needs it.

    Attributes:
        index: position among the known values; operands come before users.
        shape: of the value.
        dtype: of the value; None for a node with several results.
        data_shape: shape of the compact tensor; () for a node with several results.
        uniform: whether all elements are equal in all bits.
        value: the compact value, or a list of them for a node with several results;
            None once it was dropped.
    """

    index: int
    shape: Tuple[Any, ...]
    dtype: Optional[torch.dtype]
    data_shape: Tuple[int, ...]
    uniform: bool
    value: Any

    @property
    def single(self) -> bool:
        """Whether the node has one tensor as its result."""
        return self.dtype is not None


def analyse(
    graph_module: GraphModule,
    literals: Mapping[Node, CompactValue],
    keep: Callable[[Node, CompactValue], bool],
) -> Analysis:
    """Finds the known values of a graph; changes nothing.

    Args:
        graph_module: whose graph to look at, without its submodules.
        literals: placeholders whose value is known.
        keep: whether a call with this value must stay an op, and so be unknown to what
            follows.

    Returns:
        What is known, and why the rest is not.
    """
    graph = graph_module.graph
    mutated = mutated_nodes(graph)
    result = Analysis(literals={n: v for n, v in literals.items() if n not in mutated})
    waiting: Dict[Node, int] = {}  # known users that still need the value
    for node in graph.nodes:
        if node.op == "get_attr":
            _add_attribute(result, graph_module, node, node in mutated)
            continue
        if node.op != "call_function":
            continue
        if node in mutated:
            outcome: Any = Unknown.MUTATED
        else:
            outcome = _evaluate(node, result._value_or_values, result.is_known)
        if isinstance(outcome, CompactValue) and keep(node, outcome):
            outcome = Unknown.KEPT
        if isinstance(outcome, Unknown):
            result.unknown[node] = outcome
        else:
            result.known[node] = _fact(len(result.known), outcome)
            waiting[node] = len(node.users)
        for operand in node.all_input_nodes:
            if operand in waiting:
                waiting[operand] -= 1
                if waiting[operand] == 0:
                    _drop_if_large(result.known[operand])
    return result


def mutated_nodes(graph: Graph) -> Set[Node]:
    """Returns the nodes whose memory some op of the graph writes to, themselves or
    through a view. Graphs that are not functionalized have such ops."""
    root: Dict[Node, Node] = {}
    written: Set[Node] = set()
    for node in graph.nodes:
        root[node] = node
        if node.op != "call_function":
            continue
        if op_traits.is_alias(node.target) and node.all_input_nodes:
            root[node] = root[node.all_input_nodes[0]]
        elif node.target is operator.getitem:
            root[node] = root[node.args[0]]
        for position in op_traits.written_arguments(node.target):
            for target in _nodes_in(_argument(node, position)):
                written.add(root[target])
                root[node] = root[target]
    return {node for node in graph.nodes if root[node] in written}


def _argument(node: Node, position: int) -> Any:
    if position < len(node.args):
        return node.args[position]
    op = op_traits.aten_op(node.target)
    assert op is not None
    return node.kwargs.get(op._schema.arguments[position].name)


def _nodes_in(argument: Any) -> List[Node]:
    found: List[Node] = []
    map_arg(argument, found.append)
    return found


def _add_attribute(
    result: Analysis, graph_module: GraphModule, node: Node, mutated: bool
) -> None:
    tensor: Any = graph_module
    for name in str(node.target).split("."):
        tensor = getattr(tensor, name, None)
    if mutated or not is_plain_tensor(tensor):
        result.unknown[node] = Unknown.MUTATED if mutated else Unknown.NOT_A_TENSOR
        return
    result.known[node] = _fact(len(result.known), literal(tensor))


def literal(tensor: torch.Tensor) -> CompactValue:
    """Returns the compact value of a tensor that is stored already. A large one is
    taken as it is, without looking for equal slices."""
    tensor = tensor.detach()
    if tensor.numel() * tensor.element_size() <= RETAINED_BYTES:
        return CompactValue(compress(tensor), tuple(tensor.shape))
    return CompactValue(tensor, tuple(tensor.shape))


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor on the CPU with real elements."""
    return (
        isinstance(value, torch.Tensor)
        and type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def _fact(index: int, value: Any) -> Fact:
    if isinstance(value, CompactValue):
        data = value.data
        shape = tuple(data.shape)
        return Fact(index, value.shape, data.dtype, shape, value.uniform, value)
    return Fact(index, (), None, (), False, value)


def _drop_if_large(fact: Fact) -> None:
    if isinstance(fact.value, CompactValue) and fact.value.nbytes > RETAINED_BYTES:
        fact.value = None


# --- Evaluation --------------------------------------------------------------------


def _evaluate(
    node: Node,
    value_of: Callable[[Node], Any],
    is_known: Callable[[Node], bool],
) -> Any:
    """Returns the compact value of a call (a list of them if it has several results),
    or why there is none."""
    if node.target is operator.getitem:
        source = node.args[0]
        if not is_known(source):  # type: ignore[arg-type]
            return Unknown.RUNTIME
        return value_of(source)[node.args[1]]  # type: ignore[arg-type]
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

    tensors = _tensor_operands(node)
    if kind is OpClass.SELECTION and tensors and is_known(tensors[0]):
        known = value_of(tensors[0])
        whole = known.uniform or op_traits.is_expand(node.target)
        if whole and isinstance(expected, torch.Tensor):
            # Whatever is picked, it is the same element; whatever the new sizes are,
            # the compact form stays.
            moved = move(_name(node), known, tuple(expected.shape), ())
            return _finish(moved, expected)
    if not all(is_known(operand) for operand in node.all_input_nodes):
        return Unknown.RUNTIME
    try:
        with torch.no_grad():
            return _evaluate_known(node, kind, expected, tensors, value_of)
    except Exception:  # whatever an op may raise: it then stays in the graph
        return Unknown.FAILED


def _evaluate_known(
    node: Node,
    kind: OpClass,
    expected: Any,
    tensors: List[Node],
    value_of: Callable[[Node], Any],
) -> Any:
    if isinstance(expected, torch.Tensor):
        data = None
        if kind is OpClass.POINTWISE:
            data = _run(node, lambda n: value_of(n).data)
        elif op_traits.is_concatenation(node.target):
            pieces, *dim = node.args
            data = concatenate(
                [value_of(n) for n in pieces],  # type: ignore[union-attr, arg-type]
                dim[0] if dim else node.kwargs.get("dim", 0),  # type: ignore[arg-type]
            )
        elif kind is OpClass.SELECTION and not node.kwargs and len(tensors) == 1:
            source = value_of(tensors[0])
            data = move(_name(node), source, tuple(expected.shape), node.args[1:])
        if data is not None:
            outcome = _finish(data, expected)
            if not isinstance(outcome, Unknown):
                return outcome
    return _evaluate_in_full(node, expected, tensors, value_of)


def _evaluate_in_full(
    node: Node, expected: Any, tensors: List[Node], value_of: Callable[[Node], Any]
) -> Any:
    values = [value_of(n) for n in tensors]
    results = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    sizes = [logical_bytes(tuple(r.shape), r.dtype) for r in results]
    sizes += [logical_bytes(v.shape, v.data.dtype) for v in values]
    if any(size is None for size in sizes):
        return Unknown.DYNAMIC
    if max(sizes, default=0) > EVALUATION_LIMIT:  # type: ignore[type-var, operator]
        return Unknown.TOO_LARGE
    outcome = _run(node, lambda n: value_of(n).view())
    if isinstance(expected, torch.Tensor):
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
    return CompactValue(data.contiguous(), shape)


def _name(node: Node) -> str:
    op = op_traits.aten_op(node.target)
    assert op is not None
    return op._schema.name


def _tensor_operands(node: Node) -> List[Node]:
    return [
        n
        for n in _nodes_in((node.args, node.kwargs))
        if isinstance(n.meta.get("val"), torch.Tensor)
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
