# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from typing import Any, Dict

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.error import ExportError
from executorch.exir.synthesized_constants import (
    get_synthesized_constant,
    lift_synthesized_constants,
    Placement,
    rewrite,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.placement import DEFAULT_TAG, Where
from executorch.exir.synthesized_constants.test.placing import (
    assert_same,
    lower,
    Positions,
    two_expected,
    two_methods,
    X,
)
from torch.export import export


def wrong(value: Any) -> Any:
    """The value, of a type that the checker does not look at."""
    return value


# --- The values ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: Placement(wrong("program")), TypeError, "Placement.where"),
        (lambda: Placement.external(wrong(None)), ValueError, "Placement.tag"),
        (lambda: Placement.external(wrong(3)), TypeError, "Placement.tag"),
        (lambda: Placement.external("a/b"), ValueError, "Placement.tag"),
        (lambda: Placement.external(".."), ValueError, "Placement.tag"),
        (lambda: Placement(Where.PROGRAM, "a"), ValueError, "Placement.tag"),
        (lambda: Placement.program(named=wrong(1)), TypeError, "Placement.named"),
        (lambda: Placement(Where.GRAPH, named=False), ValueError, "Placement.named"),
        (
            lambda: SynthesizedConstantPolicy(placement=wrong("EXTERNAL")),
            TypeError,
            "SynthesizedConstantPolicy.placement",
        ),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_field(
    make: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words.replace(".", r"\.")):
        make()


def test_the_text_of_a_placement_says_what_is_not_usual() -> None:
    assert repr(Placement.PROGRAM) == "Placement.PROGRAM"
    assert repr(Placement.program(named=False)) == "Placement.PROGRAM(unnamed)"
    assert repr(Placement.EXTERNAL) == "Placement.EXTERNAL"
    assert repr(Placement.external("masks")) == "Placement.EXTERNAL('masks')"
    assert repr(Placement.input(stored=False)) == "Placement.INPUT(not stored)"
    assert Placement.EXTERNAL.tag == DEFAULT_TAG


def test_a_function_sees_the_description_and_decides_for_each() -> None:
    seen: Dict[str, Any] = {}

    def rule(constant: Any) -> Placement:
        seen[constant.name] = constant
        return (
            Placement.INPUT if constant.op.startswith("aten.mul") else Placement.PROGRAM
        )

    placed = lower({"encode": export(Positions(), (X,))}, rule)
    for constant in seen.values():
        assert constant.method == "encode"
        assert constant.dtype in (torch.float32, torch.int64)
        assert constant.stored_bytes > 0
    assert any("placing.py" in c.source for c in seen.values())
    assert any(c.fill_value == 1 for c in seen.values())
    where = {c.name: c.placement for c in placed.constants}
    assert set(where.values()) == {Placement.INPUT, Placement.PROGRAM}
    assert where == {name: rule(seen[name]) for name in where}


def test_a_function_that_returns_no_placement_is_an_error_that_says_so() -> None:
    with pytest.raises(TypeError, match=r"Policy\.placement must return.*'here'"):
        lower(Positions(), lambda constant: wrong("here"))


def test_graph_leaves_every_op() -> None:
    stock, graph = lower(Positions(), None), lower(Positions(), Placement.GRAPH)
    assert _ops(graph) == _ops(stock)
    assert not any(c.op for c in graph.constants)
    assert_same(graph.run(X), Positions()(X))


def test_graph_for_one_value_still_lets_what_uses_it_be_known() -> None:
    # The mask is made by way of full and arange; only it is stored.
    def rule(constant: Any) -> Placement:
        inner = constant.op.split(".")[1] in ("full", "arange")
        return Placement.GRAPH if inner else Placement.PROGRAM

    assert not {"aten::full", "aten::arange"} & set(_ops(lower(Positions(), rule)))


def test_a_literal_whose_placement_is_graph_is_stored_without_a_name() -> None:
    placed = lower(Positions(), Placement.GRAPH)
    assert placed.named() == {}
    assert_same(placed.run(X), Positions()(X))


def test_the_pass_run_twice_places_nothing_anew() -> None:
    program = lift_synthesized_constants(export(Positions(), (X,)))
    before = str(program)
    again = lift_synthesized_constants(
        program, SynthesizedConstantPolicy(placement=Placement.INPUT)
    )
    assert str(again) == before


def test_the_description_says_the_placement() -> None:
    policy = SynthesizedConstantPolicy(placement=Placement.external("masks"))
    program = lift_synthesized_constants(export(Positions(), (X,)), policy)
    found = [get_synthesized_constant(program, node) for node in program.graph.nodes]
    placements = [c.placement for c in found if c is not None]
    assert placements and set(placements) == {Placement.external("masks")}


# --- PROGRAM ------------------------------------------------------------------------


def test_each_name_gives_the_bytes_and_the_bytes_are_there_once() -> None:
    named = lower(Positions())
    unnamed = lower(Positions(), Placement.program(named=False))
    program = named.edge.exported_program()
    expected = {
        target: program.constants[target].numpy().tobytes()
        for target in program.graph_signature.synthesized_constants
    }
    assert len(expected) == 3
    assert named.named() == expected
    assert unnamed.named() == {}
    assert len(named.pte) - len(unnamed.pte) <= 160 * len(expected)
    for data in expected.values():
        assert named.pte.count(data) == unnamed.pte.count(data)
    assert_same(named.run(X), Positions()(X))
    assert_same(unnamed.run(X), Positions()(X))


class Many(torch.nn.Module):
    """Two constants of 32 bytes in each of twelve lines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(12):
            x = x * torch.arange(i, i + 8) + torch.linspace(0, i + 1, 8)
        return x


@pytest.mark.parametrize("delegate", [False, True])
def test_a_name_costs_at_most_160_bytes(delegate: bool) -> None:
    module = Many()
    named = lower(module, delegate=delegate)
    unnamed = lower(module, Placement.program(named=False), delegate=delegate)
    count = len({c.name for c in named.constants})
    assert count >= 20
    growth = len(named.pte) - len(unnamed.pte)
    print(f"{growth / count:.1f} bytes for each of {count} names")
    assert 0 < growth <= 160 * count


@pytest.mark.parametrize("delegate", [False, True])
def test_a_few_names_cost_no_more_each(delegate: bool) -> None:
    named = lower(Positions(), delegate=delegate)
    unnamed = lower(Positions(), Placement.program(named=False), delegate=delegate)
    growth = len(named.pte) - len(unnamed.pte)
    assert 0 < growth <= 160 * len({c.name for c in named.constants})


def test_a_constant_without_elements_has_no_name() -> None:
    class Empty(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, torch.zeros(0, 8), torch.arange(8.0).view(1, 8)])

    placed = lower(Empty())
    assert all(placed.named().values())
    assert_same(placed.run(X), Empty()(X))


@pytest.mark.parametrize("tensors, segments", [(16, 128), (64, 4096), (256, 256)])
def test_named_constants_have_the_alignment_that_the_config_asks_for(
    tensors: int, segments: int
) -> None:
    placed = lower(
        Positions(),
        config=ExecutorchBackendConfig(
            constant_tensor_alignment=tensors, segment_alignment=segments
        ),
    )
    program = placed.read()
    assert program.named_data
    for entry in program.named_data:
        segment = program.segments[entry.segment_index]
        assert segment.offset % tensors == 0
    assert_same(placed.run(X), Positions()(X))


# --- Delegates ----------------------------------------------------------------------


def test_a_name_points_at_the_copy_of_the_delegate() -> None:
    placed = lower(Positions(), delegate=True)
    named = placed.named()
    (mask,) = [c for c in placed.constants if c.stored_bytes == 256]
    expected = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    assert named[mask.name] == expected
    assert placed.pte.count(expected) == 1
    assert_same(placed.run(X), Positions()(X))


def test_a_constant_that_delegate_and_kernels_use_is_stored_once() -> None:
    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            table = torch.arange(64.0).reshape(8, 8).sin()
            return x + table, torch.cumsum(x, 0) * table

    programs = {"a": export(Add(), (X,)), "b": export(Add(), (X,))}
    placed = lower(programs, partitioner={"a": [XnnpackPartitioner()], "b": []})
    assert (
        placed.pte.count(torch.arange(64.0).reshape(8, 8).sin().numpy().tobytes()) == 1
    )


class Tied(torch.nn.Module):
    """An embedding table that is the last layer's weight too: kernels look up in it, the
    delegate multiplies by it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(100, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.table(ids) + torch.arange(64) / 64.0
        return torch.nn.functional.linear(hidden, self.table.weight)


def test_a_tied_weight_is_stored_once_when_the_flag_is_on() -> None:
    ids = torch.arange(8)
    table = Tied().table.weight.detach().numpy().tobytes()
    counts = {}
    for placement in (None, Placement.PROGRAM, Placement.EXTERNAL):
        placed = lower(export(Tied(), (ids,)), placement, delegate=True)
        counts[placement] = placed.pte.count(table)
        assert_same(placed.run(ids), Tied()(ids), atol=1e-4)
    assert counts == {None: 2, Placement.PROGRAM: 1, Placement.EXTERNAL: 1}


def test_less_alignment_than_a_delegate_needs_keeps_its_copy() -> None:
    ids = torch.arange(8)
    table = Tied().table.weight.detach().numpy().tobytes()
    config = ExecutorchBackendConfig(constant_tensor_alignment=4)
    placed = lower(export(Tied(), (ids,)), delegate=True, config=config)
    assert placed.pte.count(table) == 2
    assert_same(placed.run(ids), Tied()(ids), atol=1e-4)


# --- Names that clash ----------------------------------------------------------------


def test_equal_digests_of_two_methods_give_two_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = rewrite._sha256
    monkeypatch.setattr(rewrite, "_sha256", lambda text: "0" * 8 + real(text)[8:])
    placed = lower(two_methods())
    names = [c.name for c in placed.constants]
    assert any(name.endswith("_00000000") for name in names)
    same: Dict[str, bytes] = {}
    for constant in placed.constants:
        program = placed.edge.exported_program(constant.method)
        data = program.constants[constant.name].numpy().tobytes()
        assert same.setdefault(constant.name, data) == data
    assert placed.named() == same
    _assert_both_run(placed)


def test_a_weight_with_the_name_of_a_constant_keeps_it() -> None:
    (name,) = {c.name for c in lower(Positions()).constants if c.stored_bytes == 256}

    class Taken(Positions):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer(name, torch.full((8, 8), 0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + getattr(self, name)

    methods = {"first": export(Positions(), (X,)), "second": export(Taken(), (X,))}
    for placement in (Placement.PROGRAM, Placement.EXTERNAL):
        placed = lower(
            methods, placement, config=ExecutorchBackendConfig(external_constants=True)
        )
        assert name not in {c.name for c in placed.constants}
        assert_same(placed.run(X, method="first"), Positions()(X))
        assert_same(placed.run(X, method="second"), Taken()(X))


def test_named_data_with_the_name_of_a_constant_is_an_error() -> None:
    placed = lower(Positions())
    name = placed.constants[0].name
    placed.edge._named_data_store.add_named_data(name, b"something else")
    with pytest.raises((ExportError, ValueError), match=f"{name}.*other named data"):
        placed.pte


def test_named_data_with_the_name_and_the_bytes_of_a_constant_is_shared() -> None:
    without, placed = lower(Positions()), lower(Positions())
    name, data = next(iter(without.named().items()))
    placed.edge._named_data_store.add_named_data(name, data)
    assert placed.named() == without.named()
    assert placed.pte.count(data) == without.pte.count(data)


def _ops(placed: Any) -> Any:
    (plan,) = placed.program.executorch_program.execution_plan
    return [op.name for op in plan.operators]


def _assert_both_run(placed: Any) -> None:
    first, second = two_expected()
    assert_same(placed.run(X, method="first"), first)
    assert_same(placed.run(X, torch.ones(1, 8), method="second"), second)
