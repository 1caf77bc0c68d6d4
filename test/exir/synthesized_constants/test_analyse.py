# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from typing import Any, Dict, List

import torch
from executorch.exir.synthesized_constants import (
    evaluate,
    lift_synthesized_constants,
    SynthesizedConstant,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.analyse import (
    analyse,
    Analysis,
    literal,
    mutated_nodes,
    RETAINED_BYTES,
    Unknown,
)
from torch.export import Dim
from torch.fx import Node


def analysis_of(module: torch.nn.Module, *inputs: Any, **options: Any) -> Analysis:
    program = torch.export.export(module, inputs, **options).run_decompositions({})
    return analyse(program.graph_module, {}, lambda node, value: False)


def analysis_within(storable: int, module: torch.nn.Module, *inputs: Any) -> Analysis:
    program = torch.export.export(module, inputs).run_decompositions({})
    return analyse(program.graph_module, {}, lambda node, value: False, storable)


def by_op(analysis: Analysis) -> Dict[str, Unknown]:
    return {
        str(n.target).rpartition(".")[0]: why for n, why in analysis.unknown.items()
    }


def last(analysis: Analysis) -> Node:
    return list(analysis.known)[-1]


def test_a_large_uniform_value_is_never_allocated() -> None:
    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            big = torch.ones(1 << 20, 1 << 20) * 2 + 1  # 4 TiB
            return x + big.sum(0)[0]

    analysis = analysis_of(Large(), torch.ones(1))
    products = [n for n in analysis.known if "add" in n.name]
    assert analysis.value(products[0]).data.tolist() == [[3.0]]
    assert by_op(analysis)["aten.sum"] is Unknown.TOO_LARGE


def test_shape_only_operands_do_not_count_as_operands() -> None:
    class Like(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.full_like(x, 3) + x.new_ones(x.shape) + torch.zeros_like(x)

    analysis = analysis_of(Like(), torch.randn(2, 3))
    values = [analysis.value(n).data.item() for n in analysis.known]
    assert values == [3.0, 1.0, 0.0]


def test_whatever_is_picked_from_a_uniform_table_is_known() -> None:
    class Lookup(torch.nn.Module):
        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return torch.full((10, 4), 2.5)[i] + i[:, None]

    analysis = analysis_of(Lookup(), torch.tensor([1, 2]))
    value = analysis.value(last(analysis))
    assert value.shape == (2, 4) and value.data.item() == 2.5


def test_a_mask_that_is_expanded_stays_compact() -> None:
    class Mask(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.ones(8, 8).tril()[None, None].expand(2, 3, 8, 8)
            return x + (1 - mask) * -100.0

    analysis = analysis_of(Mask(), torch.randn(2, 3, 8, 8))
    value = analysis.value(last(analysis))
    assert value.shape == (2, 3, 8, 8)
    assert value.data.shape == (1, 1, 8, 8)


def test_random_and_uninitialized_values_are_not_known() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(3) + torch.empty(3).fill_(1) + torch.randperm(3)

    reasons = by_op(analysis_of(Noise(), torch.randn(3)))
    assert reasons["aten.rand"] is Unknown.OPAQUE
    assert reasons["aten.empty"] is Unknown.OPAQUE


def test_what_is_written_in_place_is_not_known_nor_its_views() -> None:
    class Write(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            base = torch.zeros(4, 4)
            base[1:2].add_(x)
            return base + torch.ones(4)

    graph = torch.export.export(Write(), (torch.randn(4),)).graph
    written = {n.name for n in mutated_nodes(graph)}
    assert {"zeros", "slice_1", "add_"} <= written
    assert "ones" not in written


def test_a_symbolic_shape_is_known_only_of_uniform_values() -> None:
    class Dynamic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            return x + torch.full((n, 3), 2.0) * 3 + torch.arange(n)[:, None]

    analysis = analysis_of(
        Dynamic(), torch.randn(5, 3), dynamic_shapes=({0: Dim("n", min=2)},)
    )
    values = [analysis.value(n) for n in analysis.known]
    assert [v.data.item() for v in values] == [2.0, 6.0]
    assert not values[0].static
    assert by_op(analysis)["aten.arange"] is Unknown.RUNTIME


def test_several_results_are_known_one_by_one() -> None:
    class Split(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b = torch.arange(6.0).split(3)
            values, indices = torch.arange(4.0).flip(0).max(0)
            return x * a + b + values + indices

    analysis = analysis_of(Split(), torch.randn(3))
    getitems = [n for n in analysis.known if "getitem" in n.name]
    assert [analysis.value(n).view().tolist() for n in getitems] == [
        [0.0, 1.0, 2.0],
        [3.0, 4.0, 5.0],
        3.0,
        0,
    ]


def test_the_promoted_dtype_is_that_of_the_graph() -> None:
    class Promote(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scalar = torch.full((), 2.0, dtype=torch.float64)
            return x + torch.ones(3) * scalar

    analysis = analysis_of(Promote(), torch.randn(3))
    assert analysis.value(last(analysis)).data.dtype == torch.float32
    assert not any(w is Unknown.MISMATCH for w in analysis.unknown.values())


def test_large_values_are_dropped_and_computed_again() -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            table = torch.arange(float(RETAINED_BYTES))
            for _ in range(400):  # deeper than a recursion would go
                table = table + 1
            return x + table

    analysis = analysis_of(Chain(), torch.randn(1))
    held = [n for n in analysis.known if analysis.is_at_hand(n)]
    assert len(held) <= 2
    value = analysis.value(last(analysis))
    assert torch.equal(value.view(), torch.arange(float(RETAINED_BYTES)) + 400)


def test_a_value_that_cannot_be_stored_is_known_by_its_sizes(monkeypatch: Any) -> None:
    class Mask(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.ones(64, 64).tril()[None].expand(3, 64, 64) * 2
            first, second = torch.stack((mask, mask)).transpose(2, 3).unbind()
            return x + first + second

    ran: List[str] = []
    run = evaluate._run

    def noted(node: Node, tensor_of: Any) -> Any:
        ran.append(node.name)
        return run(node, tensor_of)

    monkeypatch.setattr(evaluate, "_run", noted)
    analysis = analysis_within(4096, Mask(), torch.zeros(3, 64, 64))
    forms = {n.name: n for n in analysis.known if not analysis.is_at_hand(n)}
    assert analysis.known[forms["expand"]].data_shape == (1, 64, 64)
    assert analysis.known[forms["mul"]].data_shape == (1, 64, 64)
    assert analysis.known[forms["getitem"]].data_shape == (3, 64, 64)
    assert analysis.known[forms["mul"]].shape == (3, 64, 64)
    assert not any(analysis.known[n].uniform for n in forms.values())
    assert "tril" not in ran and "mul" not in ran
    value = analysis.value(forms["mul"])  # it can be had all the same
    assert torch.equal(value.view(), torch.ones(64, 64).tril().expand(3, 64, 64) * 2)


def test_a_value_is_computed_if_a_part_of_it_can_be_stored() -> None:
    class Part(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            low, high = torch.ones(64, 64).tril().split(32)
            return x + high[-1] + (low * 2)[0]

    analysis = analysis_within(4096, Part(), torch.zeros(64))
    selected = [n for n in analysis.known if "select" in n.name]
    values = [analysis.value(n).view() for n in selected]
    assert torch.equal(values[0], torch.ones(64))
    assert torch.equal(values[1], torch.ones(64, 64).tril()[0] * 2)


def test_what_a_control_flow_op_takes_is_computed() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.ones(64, 64).tril()
            return torch.cond(
                x.sum() > 0,
                lambda x, mask: x + mask[3],
                lambda x, mask: x - mask[3],
                (x, mask),
            )

    program = torch.export.export(Branches(), (torch.ones(64),))
    policy = SynthesizedConstantPolicy(max_bytes=4096)
    lift_synthesized_constants(program, policy)
    graphs = [module.graph for module in program.graph_module.modules()]  # type: ignore
    targets = [str(n.target) for graph in graphs for n in graph.nodes]
    assert not any("aten.tril" in t or "aten.select" in t for t in targets)
    assert torch.equal(program.module()(torch.ones(64))[3:5], torch.tensor([2.0, 1.0]))


def test_whether_to_keep_is_asked_of_values_that_are_not_computed() -> None:
    class Mask(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(64, 64).tril()

    asked: List[SynthesizedConstant] = []

    def keep(constant: SynthesizedConstant) -> bool:
        asked.append(constant)
        return False

    policy = SynthesizedConstantPolicy(max_bytes=4096, keep=keep)
    program = torch.export.export(Mask(), (torch.zeros(64, 64),))
    lift_synthesized_constants(program.run_decompositions({}), policy)
    assert [c.op for c in asked] == ["aten.ones.default", "aten.tril.default"]
    assert asked[0].name and not asked[1].name
    assert asked[1].shape == (64, 64) and asked[1].fill_value is None


def test_an_op_that_fails_at_compile_time_stays(monkeypatch: Any) -> None:
    class Fine(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(3)

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(evaluate, "_run", fail)
    analysis = analysis_of(Fine(), torch.randn(3))
    assert by_op(analysis)["aten.arange"] is Unknown.FAILED


def test_a_large_literal_is_taken_as_it_is() -> None:
    small, large = torch.ones(8), torch.ones(RETAINED_BYTES)
    assert literal(small).data.numel() == 1
    assert literal(large).data.data_ptr() == large.data_ptr()
