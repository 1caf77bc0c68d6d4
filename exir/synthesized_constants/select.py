# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Second step: which known values to store, so that as little as possible is computed
at run time within the limits in bytes.

Without a limit in the way, every known value that is used at run time is stored. Where
a value is too large, or all together are, something must be computed: a cut through
the graph of known values says what to store (edges that are cut, in bytes) and what to
leave as ops (nodes on the near side, one unit each). A minimum cut weighs both with a
price per byte. Over all connected parts of the graph, the cuts at several prices are
the choices of a knapsack, which is filled in the order of ops removed per byte.

That order is optimal but for the last choice that does not fit (the usual bound of a
greedy fill over convex hulls); the tests compare with brute force.
"""

import hashlib
import heapq
import math
import operator
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import networkx as nx
import torch
from executorch.exir.synthesized_constants.analyse import Analysis
from executorch.exir.synthesized_constants.compact import bits, Dim
from executorch.exir.synthesized_constants.demand import Demand, demands_of, Use
from torch.fx import Graph, Node

#: Prices in ops per byte at which a cut is computed: the first is as good as free, at
#: the last an op is kept rather than a byte stored.
PRICES = (1e-9, *(10.0**e for e in range(-7, 1)), 1e3)

#: Larger connected parts are stored or computed as a whole when bytes are short.
MOST_NODES_TO_CUT = 2000

#: Parts that alone need more than this fraction (1 / n) of the budget are cut closely.
WORTH_CUTTING = 16

#: What a cut counts for one more constant besides its bytes: its entry in the file.
#: Also settles ties in favor of what is stored already.
ENTRY_BYTES = 64

Dims = Tuple[int, ...]


#: Whether the value of a node must not be stored in these sizes.
Forbids = Callable[[Analysis, Node, Dims], bool]


@dataclass(frozen=True)
class Limits:
    """Limits in bytes of what is stored, and what must not be stored at all; None is
    no limit."""

    constant: Optional[int]
    uniform: Optional[int]
    total: Optional[int]
    forbids: Optional[Forbids] = None


@dataclass
class Plan:
    """What to do with the known values of a graph.

    Attributes:
        stored: the sizes in which each stored value is stored. They broadcast to its
            shape.
        computed: known values that are computed at run time.
        demands: for each user that exists at run time, what it needs of its known
            operands.
    """

    stored: Dict[Node, Dims] = field(default_factory=dict)
    computed: Set[Node] = field(default_factory=set)
    demands: Dict[Node, Dict[Node, Demand]] = field(default_factory=dict)


def select(graph: Graph, analysis: Analysis, limits: Limits) -> Plan:
    """Chooses what to store.

    Args:
        graph: the analysed graph.
        analysis: its known values.
        limits: on the bytes of the stored forms.

    Returns:
        The plan; it is feasible whatever the limits are, since all known values can
        be computed as before.
    """
    problem = _Problem(graph, analysis, limits)
    parts = [_Part(problem, nodes) for nodes in problem.connected_parts()]
    chosen = [part.cheapest_in_ops() for part in parts]
    if limits.total is not None and problem.bytes_of(chosen) > limits.total:
        chosen = _fill_knapsack(problem, parts, limits.total)
    return problem.plan(chosen)


@dataclass(frozen=True)
class _Choice:
    """One way to cut one part of the graph."""

    stored: Dict[Node, Dims]
    computed: Set[Node]
    ops: int
    bytes: int


class _Problem:
    """Users, demands and sizes of one graph."""

    def __init__(self, graph: Graph, analysis: Analysis, limits: Limits) -> None:
        self.analysis = analysis
        self.limits = limits
        self.demands: Dict[Node, Dict[Node, Demand]] = {}
        # Which of the users' demands exist whatever is chosen.
        self.at_run_time: Dict[Node, List[Demand]] = {n: [] for n in analysis.known}
        for user in graph.nodes:
            if user.op in ("placeholder", "get_attr"):
                continue
            self.demands[user] = demands_of(user, analysis)
            if user not in analysis.known:
                for operand, demand in self.demands[user].items():
                    self.at_run_time[operand].append(demand)
        self._digests: Dict[Node, str] = {}
        self.compact = {n: self._broadcast_dims(n) for n in analysis.known}

    def _broadcast_dims(self, node: Node) -> Dims:
        """The smallest sizes that serve every user that broadcasts."""
        fact = self.analysis.known[node]
        return _union(
            fact.data_shape,
            fact.shape,
            [
                self.demands[user][node]
                for user in node.users
                if node in self.demands.get(user, {})
            ],
        )

    def connected_parts(self) -> List[List[Node]]:
        """Known nodes that something at run time depends on, in connected parts."""
        needed: Set[Node] = set()
        stack = [n for n, demands in self.at_run_time.items() if demands]
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack += self.known_operands(node)
        links: nx.Graph = nx.Graph()
        links.add_nodes_from(needed)
        for node in needed:
            links.add_edges_from(
                (node, operand) for operand in self.known_operands(node)
            )
            # A literal that several parts use dies only if none of them needs it.
            links.add_edges_from(
                (node, operand)
                for operand in node.all_input_nodes
                if operand in self.analysis.literals
            )
        order = {n: i for i, n in enumerate(self.analysis.known)}
        parts = [
            sorted((n for n in part if n in order), key=order.__getitem__)
            for part in nx.connected_components(links)
        ]
        return sorted(parts, key=lambda part: order[part[0]])

    def known_operands(self, node: Node) -> List[Node]:
        return [n for n in node.all_input_nodes if n in self.analysis.known]

    def dying_literals(self, node: Node) -> List[Node]:
        """Stored operands that only known values use."""
        return [
            n
            for n in node.all_input_nodes
            if n in self.analysis.literals
            and all(user in self.analysis.known for user in n.users)
        ]

    def size(self, node: Node, dims: Sequence[Dim]) -> float:
        """Bytes of a stored form; infinite if a limit or a symbol forbids it."""
        fact = self.analysis.known[node]
        if not fact.single or not all(isinstance(d, int) for d in dims):
            return math.inf
        assert fact.dtype is not None
        elements = math.prod(int(d) for d in dims)
        size = elements * fact.dtype.itemsize
        if exceeds(size, self.limits.constant):
            return math.inf
        if fact.uniform and elements > 1 and exceeds(size, self.limits.uniform):
            return math.inf
        forbids = self.limits.forbids
        if forbids is not None and forbids(self.analysis, node, tuple(dims)):  # type: ignore[arg-type]
            return math.inf
        return size

    def can_expand(self, node: Node) -> bool:
        """Whether one ``expand_copy`` at run time can make the full value: its kernel
        writes the default dim order."""
        fact = self.analysis.known[node]
        value = node.meta.get("val")
        return (
            isinstance(value, torch.Tensor)
            and all(isinstance(d, int) for d in fact.shape)
            and value.is_contiguous()
        )

    def bytes_of(self, choices: Iterable[_Choice]) -> int:
        """Stored bytes of all choices together, each content once, less what dies."""
        ledger = _Ledger(self)
        for choice in choices:
            ledger.add(choice, 1)
        return ledger.total

    def content(self, node: Node, dims: Dims) -> str:
        """A key that is equal for equal stored forms."""
        if node not in self._digests:
            self._digests[node] = content_digest(self.analysis.value(node).data)
        return f"{self._digests[node]} {dims}"

    def dead_literals(self, choice: _Choice) -> Set[Node]:
        """Literals that the stored values were made of and nothing uses any more."""
        found: Set[Node] = set()
        stack = list(choice.stored)
        seen = set(stack)
        while stack:
            current = stack.pop()
            found.update(
                literal
                for literal in self.dying_literals(current)
                if not any(user in choice.computed for user in literal.users)
            )
            for operand in self.known_operands(current):
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        return found

    def plan(self, choices: Sequence[_Choice]) -> Plan:
        result = Plan()
        for choice in choices:
            result.stored.update(choice.stored)
            result.computed |= choice.computed
        result.demands = {
            user: demands
            for user, demands in self.demands.items()
            if demands and (user not in self.analysis.known or user in result.computed)
        }
        return result


class _Part:
    """One connected part of the known values, and the ways to cut it."""

    def __init__(self, problem: _Problem, nodes: List[Node]) -> None:
        self.problem = problem
        self.nodes = nodes

    def cheapest_in_ops(self) -> _Choice:
        """Leaves as few ops as the limits on single constants allow."""
        everything = self._store_all()
        return everything if everything is not None else self.cut(PRICES[0])

    def ladder(self, budget: int) -> List[_Choice]:
        """Ways to cut the part, from the one with the fewest bytes to that with the
        fewest ops. Only a part that would take much of the budget is worth a closer
        look than all or nothing."""
        nothing = _Choice({}, set(self.nodes), sum(map(_weight, self.nodes)), 0)
        found = [nothing, self.cheapest_in_ops()]
        if found[1].bytes * WORTH_CUTTING > budget and len(self.nodes) > 1:
            if len(self.nodes) <= MOST_NODES_TO_CUT:
                found += [self.cut(price) for price in PRICES[1:]]
        found.sort(key=lambda cut: (cut.bytes, cut.ops))
        ladder: List[_Choice] = []
        for cut in found:
            if not ladder or cut.ops < ladder[-1].ops:
                ladder.append(cut)
        return ladder

    def _store_all(self) -> Optional[_Choice]:
        """Stores all that is used at run time, if nothing stands in the way."""
        problem = self.problem
        stored = {}
        for node in self.nodes:
            demands = problem.at_run_time[node]
            if not demands:
                continue
            dims = self._stored_dims(node, demands, PRICES[0])
            full = any(d.use is not Use.BROADCAST for d in demands)
            if (
                any(d.use is Use.OUTPUT for d in demands)
                or problem.size(node, dims) == math.inf
                or (full and dims != problem.analysis.known[node].shape)
            ):
                return None
            stored[node] = dims
        size = sum(int(problem.size(n, dims)) for n, dims in stored.items())
        return _Choice(stored, set(), 0, size)

    def cut(self, price: float) -> _Choice:
        """Returns the cheapest cut at a price of ``price`` ops for a byte."""
        network = self._network(price)
        _, (near, _) = nx.minimum_cut(network, _SOURCE, _SINK)
        computed = {n for n in self.nodes if (n, _COMPUTED) in near}
        stored: Dict[Node, Dims] = {}
        ops = sum(_weight(n) for n in computed)
        for node in self.nodes:
            if node in computed:
                continue
            demands = list(self.problem.at_run_time[node])
            for user in node.users:
                if user in computed and node in self.problem.demands[user]:
                    demands.append(self.problem.demands[user][node])
            if demands:
                stored[node] = dims = self._stored_dims(node, demands, price)
                shape = self.problem.analysis.known[node].shape
                ops += any(
                    d.use is Use.OUTPUT or (d.use is Use.FULL and dims != shape)
                    for d in demands
                )
        size = sum(int(self.problem.size(n, dims)) for n, dims in stored.items())
        return _Choice(stored, computed, ops, size)

    def _stored_dims(self, node: Node, demands: List[Demand], price: float) -> Dims:
        fact = self.problem.analysis.known[node]
        dims = _union(fact.data_shape, fact.shape, demands)
        if any(d.use is Use.FULL for d in demands):
            full = self.problem.size(node, fact.shape)
            small = self.problem.size(node, dims)
            expand = 1 + price * small if self.problem.can_expand(node) else math.inf
            if price * full <= expand:
                return fact.shape
        return dims

    def _network(self, price: float) -> nx.DiGraph:
        """Builds the network whose minimum cut separates what is computed (near the
        source) from what is not.

        A node of the graph becomes up to four nodes: it is needed to broadcast, in
        full, or as an output, and it is computed. An edge without capacity cannot be
        cut.
        """
        problem, network = self.problem, nx.DiGraph()
        network.add_nodes_from((_SOURCE, _SINK))
        for node in self.nodes:
            shape = problem.analysis.known[node].shape
            small = price * (problem.size(node, problem.compact[node]) + ENTRY_BYTES)
            full = price * (problem.size(node, shape) + ENTRY_BYTES)
            expand = 1 + small if problem.can_expand(node) else math.inf
            computed = (node, _COMPUTED)
            _add(network, (node, Use.BROADCAST), computed, small)
            _add(
                network,
                (node, Use.FULL),
                computed,
                min(full, expand) - min(small, full),
            )
            _add(network, (node, Use.FULL), (node, Use.BROADCAST), math.inf)
            copied = 1 if problem.can_expand(node) else math.inf
            _add(network, (node, Use.OUTPUT), computed, copied)
            _add(network, (node, Use.OUTPUT), (node, Use.BROADCAST), math.inf)
            _add(network, computed, _SINK, _weight(node))
            for demand in problem.at_run_time[node]:
                _add(network, _SOURCE, (node, demand.use), math.inf)
            for operand, demand in problem.demands.get(node, {}).items():
                _add(network, computed, (operand, demand.use), math.inf)
            for literal in problem.dying_literals(node):
                data = problem.analysis.literals[literal].data
                size = data.numel() * data.element_size()
                _add(network, computed, literal, math.inf)
                _add(network, literal, _SINK, price * size)
        return network


_SOURCE, _SINK, _COMPUTED = "source", "sink", "computed"


def _add(network: nx.DiGraph, tail: object, head: object, capacity: float) -> None:
    if math.isnan(capacity) or capacity == math.inf:
        network.add_edge(tail, head)
    elif network.has_edge(tail, head) and "capacity" not in network.edges[tail, head]:
        pass  # it cannot be cut already
    else:
        network.add_edge(tail, head, capacity=max(capacity, 0))


def _weight(node: Node) -> int:
    """Instructions that computing the node takes."""
    return 0 if node.op == "get_attr" or node.target is operator.getitem else 1


def _union(
    data_shape: Sequence[int], shape: Sequence[Dim], demands: Iterable[Demand]
) -> Dims:
    dims: List[Dim] = list(data_shape)
    for demand in demands:
        if demand.use is Use.BROADCAST:
            dims = [
                d if isinstance(n, int) and n == 1 else s
                for d, n, s in zip(dims, demand.dims, shape)
            ]
    return tuple(dims)  # type: ignore[arg-type]


def exceeds(size: int, limit: Optional[int]) -> bool:
    """Whether there is a limit and ``size`` is above it."""
    return limit is not None and size > limit


def content_digest(tensor: torch.Tensor) -> str:
    """Returns a SHA-256 over dtype, shape and elements, in hexadecimal digits."""
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    if tensor.numel():
        digest.update(bits(tensor.contiguous()).numpy())  # type: ignore[arg-type]
    return digest.hexdigest()


class _Ledger:
    """Adds up the bytes of choices that share contents."""

    def __init__(self, problem: _Problem) -> None:
        self._problem = problem
        self._counts: Dict[str, int] = {}
        self.total = 0

    def add(self, choice: _Choice, sign: int) -> None:
        """Enters a choice (sign 1) or takes it out again (sign -1)."""
        problem = self._problem
        for node, dims in choice.stored.items():
            key = problem.content(node, dims)
            before = self._counts.get(key, 0)
            self._counts[key] = before + sign
            if 0 in (before, before + sign):
                self.total += sign * int(problem.size(node, dims))
        for literal in problem.dead_literals(choice):
            data = problem.analysis.literals[literal].data
            self.total -= sign * data.numel() * data.element_size()


def _fill_knapsack(
    problem: _Problem, parts: Sequence[_Part], total: int
) -> List[_Choice]:
    """Starts with the fewest bytes and takes what removes most ops per byte, as long
    as it fits."""
    ladders = [part.ladder(total) for part in parts]
    chosen = [0] * len(ladders)
    ledger = _Ledger(problem)
    for ladder in ladders:
        ledger.add(ladder[0], 1)
    # Steps of one ladder get worse the higher they are only where it is convex; where
    # it is not, the higher step comes first in the queue and the lower is skipped.
    queue = [step for i in range(len(ladders)) for step in _steps(ladders[i], i, 0)]
    heapq.heapify(queue)
    while queue:
        _, i, start, end = heapq.heappop(queue)
        if start != chosen[i]:
            continue
        ledger.add(ladders[i][start], -1)
        ledger.add(ladders[i][end], 1)
        if ledger.total > total:
            ledger.add(ladders[i][end], -1)
            ledger.add(ladders[i][start], 1)
            continue
        chosen[i] = end
        for step in _steps(ladders[i], i, end):
            heapq.heappush(queue, step)
    return [ladder[j] for ladder, j in zip(ladders, chosen)]


def _steps(
    ladder: List[_Choice], index: int, start: int
) -> List[Tuple[float, int, int, int]]:
    """The ways up from one choice of a ladder, best first when sorted."""
    now = ladder[start]
    return [
        ((then.ops - now.ops) / max(then.bytes - now.bytes, 1), index, start, end)
        for end, then in enumerate(ladder[start + 1 :], start + 1)
    ]
