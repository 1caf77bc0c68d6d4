# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""First step: which values of a graph does the compiler know, and what are they?

Being known is apart from being stored. A value that is too large to store still lets
the ops that use it be known.

Memory: a value that could not be stored, and that nothing small is made of, is known by
its sizes and never computed. The others are dropped when the last op that may need them
has been looked at, but for small ones. What is held for ops to come, together with the
result of the op that runs, takes at most ``EVALUATION_LIMIT``.
"""

import operator
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Set

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.compact import CompactValue, compress, Form
from executorch.exir.synthesized_constants.evaluate import (
    evaluate,
    EVALUATION_LIMIT,
    Later,
    NotEvaluated,
    Unknown,
    written_out,
)
from executorch.exir.synthesized_constants.held import HeldValues
from executorch.exir.synthesized_constants.op_traits import OpClass
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

#: Bytes; larger values are dropped once their users are known, and computed again if
#: they are to be stored.
RETAINED_BYTES = 1 << 16

#: Bytes; the most that all values at hand take once the analysis is done.
RETAINED_TOTAL = 1 << 20


#: Whether a call must stay an op, given its value if that was computed.
Keep = Callable[[Node, Optional[CompactValue]], bool]


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
    _attributes: Dict[Node, CompactValue] = field(default_factory=dict)
    _held: HeldValues = field(default_factory=lambda: HeldValues(EVALUATION_LIMIT))

    def is_known(self, node: Node) -> bool:
        """Whether the value is known, be it of a call or of a placeholder."""
        return node in self.known or node in self.literals

    def is_at_hand(self, node: Node) -> bool:
        """Whether the value of a known node need not be computed to be had."""
        return node in self.literals or node in self._attributes or node in self._held

    def value(self, node: Node) -> CompactValue:
        """Returns the value of a known node, computing it if it is not at hand.

        Raises:
            NotEvaluated: it was never computed, and cannot be.
        """
        value = self.value_or_values(node)
        assert isinstance(value, CompactValue), f"{node} has several results"
        return value

    def value_or_values(self, node: Node) -> Any:
        """The same, or a list of values for a node with several results."""
        if node in self.literals:
            return self.literals[node]
        if node in self._attributes:
            return self._attributes[node]
        held = self._held.get(node)
        return held if held is not None else self._compute(node)

    def form(self, node: Node) -> Optional[Form]:
        """Returns the value of a node without its elements, None if it is not known."""
        if node in self.literals:
            return self.literals[node].form
        return self.known.get(node)

    def make_room(self, size: int) -> None:
        """Drops values so that a result of ``size`` bytes may be added."""
        self._held.make_room(size)

    def _compute(self, node: Node) -> Any:
        """Evaluates a value that is not at hand and those before it, each of which is
        held only until its last user here is done. Chains may be long: no recursion.
        """
        order = self._missing_before(node)
        last_use = {n: user for user in order for n in user.all_input_nodes}
        values: Dict[Node, Any] = {}
        for current in order:
            outcome = self._evaluate(
                current,
                lambda n: values[n] if n in values else self.value_or_values(n),
            )
            if isinstance(outcome, Unknown):
                raise NotEvaluated(outcome)
            values[current] = outcome
            for operand in current.all_input_nodes:
                if last_use[operand] is current:
                    values.pop(operand, None)
        self._held.put(node, values[node])
        return values[node]

    def _missing_before(self, node: Node) -> List[Node]:
        """The values to compute for that of ``node``, in an order in which few of them
        wait for others."""
        order: Dict[Node, None] = {}
        stack = [(node, False)]
        while stack:
            current, operands_done = stack.pop()
            if operands_done:
                order[current] = None
            elif current not in order:
                stack.append((current, True))
                stack += [
                    (operand, False)
                    for operand in reversed(current.all_input_nodes)
                    if operand in self.known and not self.is_at_hand(operand)
                ]
        return list(order)

    def _add(self, node: Node, outcome: Any) -> None:
        """Enters what evaluating a node gave."""
        if isinstance(outcome, Unknown):
            self.unknown[node] = outcome
            return
        self.known[node] = _fact(len(self.known), node, outcome)
        if not isinstance(outcome, Later):
            self._held.put(node, outcome)

    def _evaluate(
        self,
        node: Node,
        value_of: Callable[[Node], Any],
        can_wait: Optional[int] = None,
    ) -> Any:
        """Evaluates a call of an op, see ``evaluate``, or picks one of several results."""
        try:
            if node.target is operator.getitem:
                return self._pick(node, value_of, can_wait)
            return evaluate(node, self, value_of, can_wait)
        except NotEvaluated as error:
            return error.reason

    def _pick(
        self,
        node: Node,
        value_of: Callable[[Node], Any],
        can_wait: Optional[int],
    ) -> Any:
        source: Any = node.args[0]
        if not self.is_known(source):
            return Unknown.RUNTIME
        if can_wait is not None and not self.is_at_hand(source):
            if (written_out(node.meta.get("val")) or 0) > can_wait:
                return Later(tuple(node.meta["val"].shape))
        return value_of(source)[node.args[1]]  # type: ignore[index]


@dataclass(frozen=True)
class Fact(Form):
    """A known value, as far as choosing what to store needs it.

    Attributes:
        index: position among the known values; operands come before users.
    """

    index: int

    @property
    def single(self) -> bool:
        """Whether the node has one tensor as its result."""
        return self.dtype is not None


def analyse(
    graph_module: GraphModule,
    literals: Mapping[Node, CompactValue],
    keep: Keep,
    storable_bytes: Optional[int] = None,
) -> Analysis:
    """Finds the known values of a graph; changes nothing.

    Args:
        graph_module: whose graph to look at, without its submodules.
        literals: placeholders whose value is known.
        keep: whether a call with this value must stay an op, and so be unknown to what
            follows. The value is None if it was not computed.
        storable_bytes: the most that a value may take to be stored; None is no limit.

    Returns:
        What is known, and why the rest is not.
    """
    graph = graph_module.graph
    mutated = mutated_nodes(graph)
    result = Analysis(literals={n: v for n, v in literals.items() if n not in mutated})
    outlook = _look_ahead(graph, result.literals, storable_bytes)
    waiting: Dict[Node, Set[Node]] = {}  # users that may still need the value
    for node in graph.nodes:
        if node.op == "get_attr":
            _add_attribute(result, graph_module, node, node in mutated)
            continue
        if node.op != "call_function":
            continue
        if node in mutated:
            outcome: Any = Unknown.MUTATED
        else:
            can_wait = None if node in outlook.wanted else storable_bytes
            outcome = result._evaluate(node, result.value_or_values, can_wait)
        if _has_one_result(outcome) and keep(node, _value_of(outcome)):
            outcome = Unknown.KEPT
        result._add(node, outcome)
        del outcome  # what is dropped now must go
        waiting[node] = {user for user in node.users if user in outlook.maybe}
        for used in (*node.all_input_nodes, node):
            if used in waiting:
                waiting[used].discard(node)
                if not waiting[used]:
                    result._held.drop_if_larger(used, RETAINED_BYTES)
    result._held.set_limit(RETAINED_TOTAL)
    return result


@dataclass(frozen=True)
class _Outlook:
    """What is plain of a graph before any op is run.

    Attributes:
        maybe: nodes whose value may turn out to be known.
        wanted: those of them that are small enough to be stored as they are, and all
            that such a value is made of.
    """

    maybe: Set[Node]
    wanted: Set[Node]


def _look_ahead(
    graph: Graph, literals: Mapping[Node, CompactValue], storable: Optional[int]
) -> _Outlook:
    maybe, wanted = set(literals), set()
    for node in graph.nodes:
        if node.op == "get_attr":
            maybe.add(node)
        elif node.op == "call_function" and _may_be_known(node, maybe):
            maybe.add(node)
    for node in reversed(graph.nodes):
        if node in maybe:
            size = written_out(node.meta.get("val"))
            if storable is None or size is None or size <= storable:
                wanted.add(node)
        if node in wanted or op_traits.has_bodies(node.target):
            wanted.update(node.all_input_nodes)
    return _Outlook(maybe, wanted)


def _may_be_known(node: Node, maybe: Set[Node]) -> bool:
    if node.target is not operator.getitem:
        kind = op_traits.classify(node.target)
        if kind in (OpClass.FILL, OpClass.OPAQUE):
            return kind is OpClass.FILL
    return all(operand in maybe for operand in node.all_input_nodes)


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
    value = result._attributes[node] = literal(tensor)
    result.known[node] = _fact(len(result.known), node, value)


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


def _fact(index: int, node: Node, outcome: Any) -> Fact:
    if isinstance(outcome, CompactValue):
        form = outcome.form
        return Fact(form.shape, form.dtype, form.data_shape, form.uniform, index)
    if isinstance(outcome, Later) and outcome.data_shape is not None:
        value = node.meta["val"]
        return Fact(tuple(value.shape), value.dtype, outcome.data_shape, False, index)
    return Fact((), None, (), False, index)


def _has_one_result(outcome: Any) -> bool:
    if isinstance(outcome, Later):
        return outcome.data_shape is not None
    return isinstance(outcome, CompactValue)


def _value_of(outcome: Any) -> Optional[CompactValue]:
    return outcome if isinstance(outcome, CompactValue) else None
