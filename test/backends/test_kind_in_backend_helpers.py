# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import pytest
import torch
from executorch.backends.transforms import utils
from executorch.backends.transforms.utils import (
    create_constant_placeholder,
    create_mutable_buffer,
    delete_constant_placeholder,
    get_param_tensor,
    is_param_node,
)
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.vulkan.utils import update_program_state_dict
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.synthesized_constants.table import unsqueeze_scalar
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    mask_program,
    synthesized,
    with_flag,
)
from torch.export import export
from torch.export.graph_signature import InputKind


since_1_5 = pytest.mark.skipif(
    not hasattr(utils, "set_param_tensor"), reason="new in executorch 1.5"
)


@pytest.fixture
def program():
    return to_edge(mask_program(), compile_config=with_flag()).exported_program()


def placeholder(program, name):
    (node,) = [n for n in program.graph.nodes if n.name == name]
    return node


def kind_of(program, name):
    (spec,) = [s for s in program.graph_signature.input_specs if s.arg.name == name]
    return spec.kind


SHARED = ("synth_full_2", "synth_full_3")


def test_the_helpers_of_backends_read_the_kind(program):
    for name, target in synthesized(program).items():
        node = placeholder(program, name)
        assert is_param_node(program, node)
        assert get_param_tensor(program, node) is program.constants[target]


@since_1_5
def test_a_pass_that_sets_a_tensor_makes_a_constant_tensor_of_its_own(program):
    first, second = (placeholder(program, name) for name in SHARED)
    target = synthesized(program)[second.name]
    utils.set_param_tensor(program, first, torch.tensor([3.0]))
    assert get_param_tensor(program, first).tolist() == [3.0]
    assert get_param_tensor(program, second).tolist() == [2.0]
    assert kind_of(program, first.name) is InputKind.CONSTANT_TENSOR
    assert description_of(first) is None
    assert synthesized(program)[second.name] == target
    program.validate()


@since_1_5
def test_the_last_placeholder_that_is_set_takes_its_tensor_along(program):
    target = synthesized(program)["synth_mul"]
    utils.set_param_tensor(program, placeholder(program, "synth_mul"), torch.zeros(8))
    assert target not in program.constants
    assert "synth_mul" not in synthesized(program)
    program.validate()


def test_deleting_one_of_two_placeholders_leaves_the_tensor(program):
    first, second = (placeholder(program, name) for name in SHARED)
    target = synthesized(program)[first.name]
    first.replace_all_uses_with(second)
    delete_constant_placeholder(program, first)
    assert target in program.constants
    program.graph_module.recompile()
    program.validate()
    assert torch.equal(program.module()(*ARGS), expected())
    second.replace_all_uses_with(placeholder(program, "synth_mul"))
    delete_constant_placeholder(program, second)
    assert target not in program.constants
    program.validate()


def test_a_pass_can_make_a_constant_of_the_kind(program):
    with program.graph.inserting_before(program.graph.find_nodes(op="placeholder")[0]):
        node = create_constant_placeholder(
            program,
            program.graph,
            "made",
            InputKind.SYNTHESIZED_CONSTANT,
            torch.ones(2),
        )
    assert synthesized(program)["made"] == node.target
    assert program.constants[node.target].tolist() == [1.0, 1.0]
    program.validate()


def test_a_mutable_buffer_goes_before_constants_of_the_kind(program):
    node = create_mutable_buffer(program, "b_state", torch.zeros(2))
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    at = kinds.index(InputKind.BUFFER)
    assert program.graph_signature.input_specs[at].arg.name == node.name
    assert at < kinds.index(InputKind.SYNTHESIZED_CONSTANT)
    program.validate()


def test_a_scalar_of_the_kind_can_be_unsqueezed():
    class Scalar(torch.nn.Module):
        def forward(self, x):
            return torch.maximum(x, torch.tensor(0.5).exp() * torch.ones(()))

    program = to_edge(
        export(Scalar(), ARGS), compile_config=with_flag()
    ).exported_program()
    ((name, target),) = synthesized(program).items()
    node = placeholder(program, name)
    assert program.constants[target].shape == ()
    assert unsqueeze_scalar(program, node)
    assert program.constants[target].shape == node.meta["val"].shape == (1,)
    assert description_of(node).stored_shape == (1,)
    assert torch.equal(program.module()(*ARGS), Scalar()(*ARGS))


def test_what_is_not_of_the_kind_is_not_unsqueezed(program):
    node = placeholder(program, "p_linear_bias")
    before = str(program)
    assert not unsqueeze_scalar(program, node)
    assert str(program) == before


def test_vulkan_replaces_a_constant_of_the_kind(program):
    update_program_state_dict(program, SHARED[0], torch.tensor([3.0, 0.0]))
    node, other = (placeholder(program, name) for name in SHARED)
    assert get_param_tensor(program, node).tolist() == [3.0, 0.0]
    assert get_param_tensor(program, other).tolist() == [2.0]
    assert kind_of(program, node.name) is InputKind.CONSTANT_TENSOR


def test_vulkan_replaces_a_parameter_as_before(program):
    update_program_state_dict(program, "p_linear_bias", torch.zeros(8))
    assert not program.state_dict["linear.bias"].any()
    assert kind_of(program, "p_linear_bias") is InputKind.PARAMETER


def test_vulkan_takes_constants_of_the_kind_into_its_delegate():
    lowered = to_edge_transform_and_lower(
        mask_program(), partitioner=[VulkanPartitioner()], compile_config=with_flag()
    ).exported_program()
    assert not synthesized(lowered)
    inner = [
        synthesized(module.original_module)
        for name, module in lowered.graph_module.named_children()
        if name.startswith("lowered_module")
    ]
    assert any(inner)


@since_1_5
def test_the_native_backend_stores_constants_of_the_kind(program):
    from executorch.backends.native.serialization import graph_serialize

    refs, data, mutable = graph_serialize._extract_constants_and_mutable_buffers(
        program.graph_signature, program.state_dict, program.constants, set()
    )
    kinds = {ref.name: ref.kind.name for ref in refs}
    for name, target in synthesized(program).items():
        assert kinds[name] == "CONSTANT_TENSOR"
        assert torch.equal(data[target], program.constants[target])
    assert not mutable


class Conv(torch.nn.Module):
    """A convolution whose weight nobody wrote."""

    def forward(self, x):
        return torch.nn.functional.conv1d(x, torch.arange(6.0).reshape(2, 3, 1))


@since_1_5
def test_conv1d_becomes_conv2d_with_a_weight_of_the_kind():
    from executorch.backends.transforms.convert_conv1d_to_conv2d_pass import (
        ConvertConv1dToConv2dPass,
    )

    args = (torch.randn(1, 3, 5),)
    program = to_edge(
        export(Conv(), args), compile_config=with_flag()
    ).exported_program()
    assert len(synthesized(program)) == 1
    done = ConvertConv1dToConv2dPass(program)(program.graph_module)
    assert done.modified
    assert not synthesized(program)
    assert [list(t.shape) for t in program.constants.values()] == [[2, 3, 1, 1]]
    assert torch.equal(program.module()(*args), Conv()(*args))


class TwoConvs(torch.nn.Module):
    """Two convolutions with the same weight and bias, which nobody wrote."""

    def forward(self, x):
        weight, bias = torch.arange(6.0).reshape(2, 3, 1), torch.full((2,), 0.5)
        conv = torch.nn.functional.conv1d
        return conv(x, weight, bias) + conv(x + 1, weight, bias)


@pytest.fixture
def convs():
    """Two nodes and the program that they are in."""
    program = to_edge(
        export(TwoConvs(), (torch.randn(1, 3, 5),)), compile_config=with_flag()
    ).exported_program()
    name = "aten.convolution.default"
    nodes = [n for n in program.graph.nodes if name in str(n.target)]
    targets = synthesized(program)
    for argument in (1, 2):  # one tensor for both
        assert len({targets[node.args[argument].name] for node in nodes}) == 1
    return program, nodes


def test_samsung_makes_a_weight_of_each_conv1d_that_has_the_same(convs):
    from executorch.backends.samsung._passes.conv1d_to_conv2d import Conv1dToConv2d

    program, nodes = convs
    update = Conv1dToConv2d(program).update_kernel
    for node in nodes:
        update(node.args[1])
        assert get_param_tensor(program, node.args[1]).shape == (2, 3, 1, 1)


def test_a_bias_is_replaced_for_one_convolution_alone(convs):
    from executorch.backends.transforms import quantize_fused_convbn_bias_pass

    program, (first, second) = convs
    quantize_fused_convbn_bias_pass._set_param_ep(
        program, first.args[2], torch.tensor([7.0, 8.0])
    )
    assert get_param_tensor(program, first.args[2]).tolist() == [7.0, 8.0]
    assert get_param_tensor(program, second.args[2]).tolist() == [0.5, 0.5]
