# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import io
from typing import Any, List

import pytest
import torch
from executorch.exir.schema import DelegateCall
from executorch.exir.synthesized_constants import (
    lift_synthesized_constants,
    Placement,
    synthesized_inputs,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.test.placing import (
    assert_same,
    lower,
    Positions,
    Scaled,
    two_expected,
    two_methods,
    X,
)
from executorch.extension.pybindings.portable_lib import (
    _load_for_executorch_from_buffer,
)
from torch.export import export, ExportedProgram
from torch.export.graph_signature import InputKind

SCALE = torch.linspace(0.5, 1.5, 8).reshape(1, 8)
POLICY = SynthesizedConstantPolicy(placement=Placement.INPUT)


def scaled() -> ExportedProgram:
    return export(Scaled(), (X,), {"scale": torch.ones(1, 8)})


def assert_agrees(program: ExportedProgram) -> None:
    """Asserts that all that says how a program is called says the same."""
    names = list(synthesized_inputs(program))
    assert names
    signature = program.module_call_graph[0].signature
    assert signature is not None
    user_inputs = list(program.graph_signature.user_inputs)
    # torch.export gives the root none, decomposition does.
    assert [a.name for a in signature.inputs] in ([], user_inputs)
    placeholders = [n.name for n in program.graph.find_nodes(op="placeholder")]
    assert placeholders[-len(user_inputs) :] == user_inputs
    in_spec = program.call_spec.in_spec
    assert in_spec is not None and in_spec.num_leaves == len(user_inputs)
    assert in_spec.child(1).context[-len(names) :] == names
    if signature.forward_arg_names is not None:
        assert signature.forward_arg_names[-len(names) :] == names
    if program.example_inputs is not None:
        args, kwargs = program.example_inputs
        assert list(kwargs)[-len(names) :] == names
        for name, value in synthesized_inputs(program).items():
            assert torch.equal(kwargs[name], value)


def test_an_aten_program_takes_them_as_keywords_after_the_users_own() -> None:
    program = lift_synthesized_constants(scaled(), POLICY)
    assert_agrees(program)
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    assert kinds == [InputKind.USER_INPUT] * 4
    inputs = synthesized_inputs(program)
    expected = Scaled()(X, scale=SCALE)
    assert_same([program.module()(X, scale=SCALE, **inputs)], expected)
    assert_same([program.module()(X, **inputs, scale=SCALE)], expected)
    args, kwargs = program.example_inputs
    assert_same(
        [program.module()(*args, **kwargs)], Scaled()(X, scale=torch.ones(1, 8))
    )
    with pytest.raises(ValueError, match="keyword mismatch.*triu_8x8"):
        program.module()(X, scale=SCALE)


def test_the_program_that_was_lowered_is_called_as_before() -> None:
    program = scaled()
    placed = lower(program, Placement.INPUT)
    assert_agrees(placed.edge.exported_program())
    assert program.call_spec.in_spec is not None
    assert program.call_spec.in_spec.num_leaves == 2
    assert_same([program.module()(X, scale=SCALE)], Scaled()(X, scale=SCALE))


def test_they_outlive_decomposition_saving_and_lowering() -> None:
    program = lift_synthesized_constants(scaled(), POLICY)
    expected = synthesized_inputs(program)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    placed = lower(loaded, None)
    for other in (program.run_decompositions(), loaded, placed.edge, placed.program):
        found = synthesized_inputs(other)
        assert list(found) == list(expected)
        assert all(torch.equal(found[k], v) for k, v in expected.items())
    assert_same(placed.run(X, SCALE), Scaled()(X, scale=SCALE))


@pytest.mark.parametrize("delegate", [False, True])
def test_the_stock_runtime_takes_them_after_the_users_own(delegate: bool) -> None:
    placed = lower(scaled(), Placement.INPUT, delegate)
    assert list(synthesized_inputs(placed.edge)) == list(
        synthesized_inputs(placed.program)
    )
    assert_same(placed.run(X, SCALE), Scaled()(X, scale=SCALE))


@pytest.mark.parametrize("delegate", [False, True])
def test_an_app_may_pass_other_values(delegate: bool) -> None:
    placed = lower(scaled(), Placement.INPUT, delegate)
    inputs = synthesized_inputs(placed.program)
    mask, table = inputs.values()
    assert mask.shape == (8, 8)
    module = _load_for_executorch_from_buffer(placed.pte)
    others: List[Any] = [torch.zeros_like(mask), table + 1]
    expected = (X * SCALE).softmax(-1) + torch.arange(8) * 5.0 + 1
    assert_same(module.forward([X, SCALE, *others]), expected)


def test_they_reach_the_delegate_as_inputs() -> None:
    placed = lower(scaled(), Placement.INPUT, delegate=True)
    plan = placed.read().execution_plan[0]
    mask = list(synthesized_inputs(placed.program)).index(
        next(n for n in synthesized_inputs(placed.program) if "8x8" in n)
    )
    value = plan.inputs[2 + mask]
    calls = [
        i.instr_args.args
        for i in plan.chains[0].instructions
        if isinstance(i.instr_args, DelegateCall)
    ]
    assert any(value in arguments for arguments in calls)
    data = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    assert placed.pte.count(data) == 1  # the default value


def test_the_program_says_their_names_at_run_time() -> None:
    placed = lower(two_methods(), Placement.INPUT)
    module = _load_for_executorch_from_buffer(placed.pte)
    for method in ("first", "second"):
        names = module.run_method(f"__et_synthesized_inputs_{method}", [])
        assert list(names) == list(synthesized_inputs(placed.program, method))
    first, second = two_expected()
    assert_same(placed.run(X, method="first"), first)
    assert_same(placed.run(X, torch.ones(1, 8), method="second"), second)


@pytest.mark.parametrize(
    "placement, in_program, in_file",
    [
        (Placement.INPUT, 1, 0),
        (Placement.input("defaults"), 0, 1),
        (Placement.input(stored=False), 0, 0),
    ],
)
def test_default_values_are_where_the_placement_says(
    placement: Placement, in_program: int, in_file: int
) -> None:
    placed = lower(two_methods(), placement)
    data = torch.full((8, 8), float("-inf")).triu(1).numpy().tobytes()
    assert placed.pte.count(data) == in_program
    files = placed.ptd
    assert list(files) == (["defaults"] if in_file else [])
    assert sum(file.count(data) for file in files.values()) == in_file
    first, _ = two_expected()
    assert_same(placed.run(X, method="first"), first)


def test_a_method_without_inputs_of_its_own_gets_some() -> None:
    class Alone(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8))

        def forward(self) -> torch.Tensor:
            return self.weight * torch.arange(8)

    placed = lower(export(Alone(), ()), Placement.INPUT)
    assert_agrees(placed.edge.exported_program())
    assert len(synthesized_inputs(placed.program)) == 1
    assert_same(placed.run(), Alone()())


def test_nested_inputs_stay_before_them() -> None:
    class Nested(torch.nn.Module):
        def forward(self, pair: Any, *, extra: Any) -> Any:
            table = torch.arange(64.0).reshape(8, 8)
            return {"sum": pair[0] + pair[1]["b"] + table, "extra": extra["e"] * table}

    inputs = ((X, {"b": X + 1}),)
    program = export(Nested(), inputs, {"extra": {"e": X}})
    placed = lower(program, Placement.INPUT)
    edge = placed.edge.exported_program()
    assert_agrees(edge)
    expected = Nested()(*inputs, extra={"e": X})
    outputs = edge.module()(*inputs, extra={"e": X}, **synthesized_inputs(edge))
    assert torch.equal(outputs["sum"], expected["sum"])
    assert_same(placed.run(X, X + 1, X), expected)


def test_a_constant_in_channels_last_is_an_input_in_channels_last() -> None:
    class Image(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ramp = torch.arange(48.0).reshape(1, 3, 4, 4)
            return x * ramp.contiguous(memory_format=torch.channels_last) + torch.full(
                (1, 3, 4, 4), 2.0
            ).contiguous(memory_format=torch.channels_last)

    x = torch.rand(1, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    placed = lower(export(Image(), (x,)), Placement.INPUT)
    assert_same(placed.run(x), Image()(x))


def test_dynamic_shapes_of_the_users_inputs_stay() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(8.0).sin()

    program = export(
        Rows(), (X,), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=16)}}
    )
    placed = lower(program, Placement.INPUT)
    inputs = synthesized_inputs(placed.edge)
    for rows in (X, X[:3]):
        module = placed.edge.exported_program().module()
        assert_same([module(rows, **inputs)], Rows()(rows))
        assert_same(placed.run(rows), Rows()(rows))


def test_a_program_without_any_says_so() -> None:
    placed = lower(Positions())
    assert synthesized_inputs(placed.edge) == {}
    assert synthesized_inputs(placed.program) == {}
    assert [p.name for p in placed.read().execution_plan] == ["forward"]
    with pytest.raises(KeyError):
        synthesized_inputs(placed.program, "encode")


def test_a_keyword_of_the_users_own_is_not_one() -> None:
    placed = lower(scaled())
    assert synthesized_inputs(placed.edge) == {}


def test_a_keyword_with_the_name_of_a_constant_is_the_users_own() -> None:
    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.eye(8), persistent=False)

        def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
            return x * mask + self.get_buffer("mask")

    program = export(Masked(), (X,), {"mask": X})
    for placement in (None, Placement.PROGRAM):
        placed = lower(program, placement, delegate=True)
        assert synthesized_inputs(placed.edge) == {}
        assert [p.name for p in placed.read().execution_plan] == ["forward"]


def test_a_constant_that_a_later_run_finds_again_is_the_same_input() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(8.0).cos()

    program = lift_synthesized_constants(export(Twice(), (X,)), POLICY)
    (name,) = synthesized_inputs(program)
    add = next(n for n in program.graph.nodes if n.op == "call_function")
    with program.graph.inserting_before(add):
        again = program.graph.call_function(torch.ops.aten.arange.default, (8.0,))
        again.meta["val"] = add.meta["val"][0]
        cosine = program.graph.call_function(torch.ops.aten.cos.default, (again,))
        cosine.meta["val"] = add.meta["val"][0]
        total = program.graph.call_function(
            torch.ops.aten.add.Tensor, (add.args[0], cosine)
        )
        total.meta["val"] = add.meta["val"]
    add.replace_input_with(add.args[0], total)
    lift_synthesized_constants(program, POLICY)
    assert list(synthesized_inputs(program)) == [name]
    assert_agrees(program)
    inputs = synthesized_inputs(program)
    assert_same([program.module()(X, **inputs)], X + 2 * torch.arange(8.0).cos())


def test_inputs_reach_the_branches_of_control_flow() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def yes(y: torch.Tensor) -> torch.Tensor:
                return y + torch.arange(8.0).cos()

            def no(y: torch.Tensor) -> torch.Tensor:
                return y - torch.arange(8.0).sin()

            return torch.cond(x.sum() > 0, yes, no, (x,))

    for placement in (Placement.INPUT, Placement.EXTERNAL):
        placed = lower(export(Branches(), (X + 1,)), placement)
        assert len(placed.constants) >= 2
        for x in (X + 1, X - 1):
            assert_same(placed.run(x), Branches()(x))


def test_constant_methods_of_the_users_own_stay() -> None:
    placed = lower(Positions(), Placement.INPUT, constant_methods={"version": 3})
    module = _load_for_executorch_from_buffer(placed.pte)
    assert module.run_method("version", []) == [3]
    names = module.run_method("__et_synthesized_inputs_forward", [])
    assert list(names) == list(synthesized_inputs(placed.program))
