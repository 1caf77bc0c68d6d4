# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.backend.canonical_partitioners.duplicate_constant_node_pass import (
    duplicate_constant_node,
)
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from executorch.exir.passes.convert_constant_dim_order_pass import (
    convert_constant_dim_order_pass,
)
from executorch.exir.passes.insert_write_back_for_buffers_pass import (
    insert_write_back_for_buffers_pass,
)
from executorch.exir.passes.quant_fusion_pass import (
    _get_node_value_dict,
    quant_fusion_and_const_prop_pass,
)
from executorch.exir.passes.quantize_io_pass import extract_io_quant_params
from executorch.exir.passes.weights_to_outputs_pass import weights_to_outputs_pass
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.synthesized_constants.table import is_shared
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    mask_program,
    synthesized,
    with_flag,
)
from torch.export import export
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import InputKind


def edge_of(model, args=ARGS, config=None):
    program = export(model, args)
    return to_edge(program, compile_config=config or with_flag()).exported_program()


def edge_mask():
    return to_edge(mask_program(), compile_config=with_flag()).exported_program()


def kinds(program):
    return [spec.kind for spec in program.graph_signature.input_specs]


def placeholder(program, name):
    (node,) = [n for n in program.graph.nodes if n.name == name]
    return node


def pair_of(program):
    """Two placeholders of one target."""
    targets = synthesized(program)
    (pair,) = [
        [n for n in targets if targets[n] == t]
        for t in set(targets.values())
        if list(targets.values()).count(t) == 2
    ]
    return pair


def fold_later(program, name):
    """Puts an op on a constant that a later pass can fold."""
    node = placeholder(program, name)
    (user,) = node.users
    with program.graph.inserting_before(user):
        negated = program.graph.call_function(exir_ops.edge.aten.neg.default, (node,))
    negated.meta = {"val": node.meta["val"]}
    user.replace_input_with(node, negated)
    program.graph_module.recompile()


def test_constant_propagation_leaves_what_it_does_not_fold():
    program = edge_mask()
    before = synthesized(program)
    again = constant_prop_pass(program)
    assert synthesized(again) == before
    again.validate()
    assert torch.equal(again.module()(*ARGS), expected())


def test_what_constant_propagation_computes_is_a_constant_tensor():
    program = edge_mask()
    fold_later(program, "synth_mul")
    result = program.module()(*ARGS)
    again = constant_prop_pass(program)
    again.validate()
    assert "synth_mul" not in synthesized(again)
    folded = [
        again.constants[spec.target]
        for spec in again.graph_signature.input_specs
        if spec.kind == InputKind.CONSTANT_TENSOR
    ]
    assert any(torch.equal(t, -3.0 * torch.arange(8)) for t in folded)
    assert torch.equal(again.module()(*ARGS), result)
    for node in again.graph.find_nodes(op="placeholder"):
        assert (description_of(node) is not None) == (node.name in synthesized(again))


def test_constant_propagation_leaves_the_tensor_to_the_other_placeholder():
    program = edge_mask()
    first, second = pair_of(program)
    target = synthesized(program)[first]
    fold_later(program, first)
    result = program.module()(*ARGS)
    again = constant_prop_pass(program)
    again.validate()
    assert synthesized(again)[second] == target
    assert target in again.constants
    assert torch.equal(again.module()(*ARGS), result)


def test_quant_fusion_with_constant_propagation_keeps_results():
    program = edge_mask()
    before = synthesized(program)
    again = quant_fusion_and_const_prop_pass(program)
    again.validate()
    assert synthesized(again) == before
    assert torch.equal(again.module()(*ARGS), expected())


def test_quant_fusion_finds_the_values_of_the_kind():
    program = edge_mask()
    values = _get_node_value_dict(program)
    weights = set(program.graph_signature.inputs_to_parameters)
    assert set(values) == weights | set(synthesized(program))
    for name, target in synthesized(program).items():
        assert values[name] is program.constants[target]


def test_dim_order_conversion_keeps_the_kind():
    program = edge_mask()
    target = synthesized(program)["synth_where"]
    before = program.constants[target]
    program.constants[target] = before.t().contiguous().t()
    node = placeholder(program, "synth_where")
    node.meta["val"] = node.meta["val"].t().contiguous().t()
    again = convert_constant_dim_order_pass(program)
    assert again.constants[target].is_contiguous()
    assert torch.equal(again.constants[target], before)
    assert node.meta["val"].is_contiguous()
    assert description_of(node).dim_order == (0, 1)
    assert "synth_where" in synthesized(again)
    again.validate()


def test_dim_order_conversion_reaches_all_placeholders_of_a_target():
    class Planes(torch.nn.Module):
        def forward(self, x):
            steps = torch.arange(8).reshape(2, 2, 2)
            return (x + steps).sin() * steps

    program = edge_of(Planes(), (torch.ones(2, 2, 2),))
    first = next(iter(synthesized(program)))
    duplicate_constant_node(program, first)
    names = synthesized(program)
    (target,) = set(names.values())
    assert len(names) == 2
    turned = program.constants[target].permute(2, 1, 0).contiguous().permute(2, 1, 0)
    program.constants[target] = turned
    for name in names:
        meta = placeholder(program, name).meta
        meta["val"] = meta["val"].permute(2, 1, 0).contiguous().permute(2, 1, 0)
    again = convert_constant_dim_order_pass(program)
    for name in names:
        assert placeholder(again, name).meta["val"].is_contiguous()


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x):
        self.count.add_(torch.arange(8))
        return x + self.count


def test_write_back_of_buffers_takes_the_kind_as_an_input():
    program = edge_of(Counter())
    assert synthesized(program)
    module, signature = insert_write_back_for_buffers_pass(program)
    assert signature.input_specs == program.graph_signature.input_specs
    assert any("copy_" in str(n.target) for n in module.graph.nodes)


def test_weights_become_outputs_beside_the_kind():
    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return (self.linear(x) * torch.arange(8)).sum()

    joint = _export_forward_backward(export(Loss(), ARGS))
    program = to_edge(joint, compile_config=with_flag()).exported_program()
    before = synthesized(program)
    outputs = len(program.graph_signature.output_specs)
    again = weights_to_outputs_pass(program)
    assert before and synthesized(again) == before
    assert len(again.graph_signature.output_specs) == outputs + 2


class Uses(torch.nn.Module):
    """A constant with users that take it alone, twice, and in a list."""

    def forward(self, x):
        steps = torch.arange(64).reshape(8, 8).float()
        return torch.cat([x + steps, steps, x]) * torch.maximum(steps, steps).sum()


def test_duplication_gives_each_user_a_placeholder_and_none_a_tensor():
    policy = SynthesizedConstantPolicy(keep={"aten.maximum"})
    program = edge_of(
        Uses(), config=EdgeCompileConfig(lift_synthesized_constants=policy)
    )
    names = synthesized(program)
    (name,) = [n for n in names if len(placeholder(program, n).users) == 3]
    constants = dict(program.constants)
    state = set(program.state_dict)
    made = duplicate_constant_node(program, name)
    assert len(made) == 2
    assert {synthesized(program)[copy] for copy in made} == {names[name]}
    assert dict(program.constants) == constants
    assert set(program.state_dict) == state
    for copy in (name, *made):
        node = placeholder(program, copy)
        assert len(node.users) == 1
        assert is_shared(program, node)
        assert description_of(node).name == names[name]
    assert torch.equal(program.module()(*ARGS), Uses()(*ARGS))


def test_duplication_of_an_unknown_name_does_nothing():
    program = edge_mask()
    before = str(program)
    assert duplicate_constant_node(program, "no such node") == set()
    assert str(program) == before


@pytest.mark.parametrize("kind", ["PARAMETER", "BUFFER", "CONSTANT_TENSOR"])
def test_other_kinds_are_duplicated_as_before(kind):
    class Other(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            value = torch.ones(8)
            if kind == "PARAMETER":
                parameter = torch.nn.Parameter(value, requires_grad=False)
                self.register_parameter("value", parameter)
            elif kind == "BUFFER":
                self.register_buffer("value", value)
            else:
                setattr(self, "value", value)  # noqa: B010

        def forward(self, x):
            return (x + self.value).sin() * self.value

    program = to_edge(export(Other(), ARGS)).exported_program()
    (name,) = [s.arg.name for s in program.graph_signature.input_specs if s.target]
    assert duplicate_constant_node(program, name) == {f"{name}_copy_0"}
    assert {k.name for k in kinds(program)} == {kind, "USER_INPUT"}


class Quantized(torch.nn.Module):
    """A quantized input, and a constant before it among the inputs of the graph."""

    def forward(self, x):
        integer = torch.ops.quantized_decomposed.quantize_per_tensor(
            x, 0.5, 3, -128, 127, torch.int8
        )
        real = torch.ops.quantized_decomposed.dequantize_per_tensor(
            integer, 0.5, 3, -128, 127, torch.int8
        )
        return real * torch.arange(8)


def test_parameters_of_quantized_inputs_are_those_of_the_inputs():
    edge = to_edge(export(Quantized(), ARGS), compile_config=with_flag())
    assert synthesized(edge.exported_program())
    found = extract_io_quant_params(edge, input_idxs=(0,), output_idxs=())
    assert list(found["inputs"]) == ["x"]
    assert found["inputs"]["x"]["scale"] == 0.5
    assert found["inputs"]["x"]["zero_point"] == 3
