# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The selection against brute force on small graphs, and its rules one by one."""

import itertools
import math
from typing import Dict, Iterator, List, Optional, Set, Tuple

import pytest
import torch
from executorch.exir.synthesized_constants.analyse import analyse, Analysis
from executorch.exir.synthesized_constants.demand import Use
from executorch.exir.synthesized_constants.select import (
    _Problem,
    content_digest,
    Limits,
    Plan,
    select,
)
from executorch.exir.synthesized_constants.test.random_programs import (
    random_programs,
    RandomProgram,
)
from hypothesis import given, HealthCheck, settings, strategies as st
from torch.fx import GraphModule, Node

NO_LIMITS = Limits(None, None, None)


def analysed(
    module: torch.nn.Module, *inputs: torch.Tensor
) -> Tuple[GraphModule, Analysis]:
    """The functional ATen graph of a module and what is known of it."""
    program = torch.export.export(module, inputs).run_decompositions({})
    graph_module = program.graph_module
    return graph_module, analyse(graph_module, {}, lambda node, value: False)


def cost(
    problem: _Problem, stored: Dict[Node, Tuple[int, ...]], computed: Set[Node]
) -> Tuple[int, float]:
    """Ops left and bytes stored by a plan, from its definition; (inf, inf) if some
    user would not get what it needs."""
    analysis = problem.analysis
    ops = sum(n.op != "get_attr" and "getitem" not in str(n.target) for n in computed)
    sizes: Dict[str, float] = {}
    for node, dims in stored.items():
        sizes[f"{content_digest(analysis.value(node).data)}{dims}"] = problem.size(
            node, dims
        )
    extra = set()
    for user, demands in problem.demands.items():
        if user in analysis.known and user not in computed:
            continue
        for node, demand in demands.items():
            if node in computed:
                continue
            if node not in stored:
                return 1 << 60, math.inf
            dims, shape = stored[node], analysis.known[node].shape
            if demand.use is Use.BROADCAST:
                if any(d < n for d, n in zip(dims, demand.dims)):
                    return 1 << 60, math.inf
            elif demand.use is Use.OUTPUT or dims != shape:
                if not problem.can_expand(node):
                    return 1 << 60, math.inf
                extra.add(node)
    return ops + len(extra), sum(sizes.values())


def every_plan(
    problem: _Problem, nodes: List[Node]
) -> Iterator[Tuple[Dict[Node, Tuple[int, ...]], Set[Node]]]:
    """All ways to compute, store small, store in full or leave out each node."""
    choices = []
    for node in nodes:
        options: List[Optional[object]] = ["compute", None]
        for dims in {problem.compact[node], problem.analysis.known[node].shape}:
            if problem.size(node, dims) < math.inf:
                options.append(dims)
        choices.append(options)
    for picked in itertools.product(*choices):
        stored = {n: p for n, p in zip(nodes, picked) if isinstance(p, tuple)}
        computed = {n for n, p in zip(nodes, picked) if p == "compute"}
        yield stored, computed


def best_by_brute_force(problem: _Problem, limits: Limits) -> int:
    """The fewest ops that any plan within the limits leaves."""
    nodes = [n for part in problem.connected_parts() for n in part]
    best = 1 << 60
    for stored, computed in every_plan(problem, nodes):
        ops, size = cost(problem, stored, computed)
        if limits.total is None or size <= limits.total:
            best = min(best, ops)
    return best


class Mask(torch.nn.Module):
    """arange -> le -> where -> expand, used by an op that does not broadcast."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(4)
        mask = torch.where(i[:, None] >= i[None, :], 0.0, -1.0)
        return torch.cat([x, mask.expand(8, 4, 4)])


def plan_of(module: torch.nn.Module, limits: Limits, *inputs: torch.Tensor) -> Plan:
    graph_module, analysis = analysed(module, *inputs)
    return select(graph_module.graph, analysis, limits)


def test_without_limits_all_is_stored_and_nothing_computed() -> None:
    plan = plan_of(Mask(), NO_LIMITS, torch.randn(1, 4, 4))
    assert not plan.computed
    assert list(plan.stored.values()) == [(8, 4, 4)]


def test_a_chain_stores_the_cheapest_sufficient_node() -> None:
    plan = plan_of(Mask(), Limits(100, None, None), torch.randn(1, 4, 4))
    # The mask itself, 64 bytes, and the one op that expands it.
    assert list(plan.stored.values()) in ([(4, 4)], [(1, 4, 4)])
    assert len(plan.computed) <= 1


def test_nothing_fits_nothing_is_stored() -> None:
    plan = plan_of(Mask(), Limits(None, None, 0), torch.randn(1, 4, 4))
    assert not plan.stored
    assert plan.computed


def test_a_fill_that_is_needed_in_full_stays_an_op() -> None:
    class Fill(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.full((64, 64), 2.0)

    plan = plan_of(Fill(), Limits(None, 4096, None), torch.randn(2, 64))
    assert not plan.stored
    plan = plan_of(Fill(), NO_LIMITS, torch.randn(2, 64))
    assert list(plan.stored.values()) == [(64, 64)]


def test_a_long_chain_to_a_large_fill_becomes_one_op() -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (torch.ones(64, 64) + 1).neg().exp()

    plan = plan_of(Chain(), Limits(None, 4096, None), torch.randn(2, 64))
    assert list(plan.stored.values()) == [(1, 1)]
    assert not plan.computed


def test_two_operands_do_not_lose_the_shape_together() -> None:
    class Where(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.ones(3, 4) > 0, x, torch.zeros(3, 1))

    plan = plan_of(Where(), NO_LIMITS, torch.randn(4))
    assert sorted(plan.stored.values()) == [(1, 1), (3, 1)]


def test_an_output_is_left_alone_if_it_is_one_op() -> None:
    class Out(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
            return x + 1, torch.ones(3)

    plan = plan_of(Out(), NO_LIMITS, torch.randn(3))
    assert not plan.stored


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    random_programs(max_steps=7),
    st.sampled_from((None, 4, 16, 64)),
    st.sampled_from((0, 8, 40, 100, None)),
)
def test_selection_against_brute_force(
    program: RandomProgram, constant: Optional[int], total: Optional[int]
) -> None:
    exported = torch.export.export(program.module(), program.arguments())
    graph_module = exported.run_decompositions({}).graph_module
    analysis = analyse(graph_module, {}, lambda node, value: False)
    limits = Limits(constant, 64, total)
    problem = _Problem(graph_module.graph, analysis, limits)
    nodes = [n for part in problem.connected_parts() for n in part]
    if len(nodes) > 6:
        return
    plan = select(graph_module.graph, analysis, limits)
    ops, size = cost(problem, plan.stored, plan.computed)
    assert total is None or size <= total
    best = best_by_brute_force(problem, limits)
    if total is None:
        assert ops == best
    else:
        # A greedy fill may miss by what the last choice that did not fit would save.
        largest = max((len(part) for part in problem.connected_parts()), default=0)
        assert best <= ops <= best + largest


@pytest.mark.parametrize("total", [0, 16, 64, 256])
def test_a_budget_is_spent_where_most_ops_vanish_per_byte(total: int) -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            long = torch.arange(4.0).cos().sin().exp().neg()  # 16 bytes, 5 ops
            short = torch.arange(64.0)  # 256 bytes, 1 op
            return (x * long).sum() + (x[0, 0] * short).sum()

    plan = plan_of(Two(), Limits(None, None, total), torch.randn(4, 4))
    stored = sorted(plan.stored.values())
    assert stored == {0: [], 16: [(4,)], 64: [(4,)], 256: [(4,)]}[total]
