# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.synthesized_constants import (
    collect_reports,
    read_synthesized_constants,
)
from executorch.exir.synthesized_constants.test.helpers import (
    assert_runs_like,
    lower,
    Lowered,
)
from expecttest import TestCase
from torch.export import export, ExportedProgram
from torch.export.experimental import _export_forward_backward


class SigmoidSum(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum()


def sigmoid_sum_with_backward() -> ExportedProgram:
    x = torch.zeros(1, 5, 8, requires_grad=True)
    return _export_forward_backward(export(SigmoidSum(), (x,)))


def loss_and_gradient(x):
    x = x.clone().requires_grad_()
    loss = SigmoidSum()(x)
    loss.backward()
    return loss.detach(), x.grad


class Issue15505Test(TestCase):
    """The program of pytorch/executorch#15505 in a small shape."""

    def test_portable_program_takes_two_constants(self):
        lowered = lower(sigmoid_sum_with_backward())
        program = lowered.edge.exported_program()
        self.assertExpectedInline(
            str(program.graph_signature).strip(),
            """\
# inputs
synth_full_1: SYNTHESIZED_CONSTANT target='full_1x1x1_f32_f705e746'
synth_full_2: SYNTHESIZED_CONSTANT target='full_f32_50ad3a94'
x: USER_INPUT

# outputs
aten_sum_dim_int_list: LOSS_OUTPUT
aten_mul_tensor_1: GRADIENT_TO_USER_INPUT target='arg0_1'""",
        )
        self.assertExpectedInline(
            str(program.graph).strip(),
            """\
graph():
    %synth_full_1 : [num_users=1] = placeholder[target=synth_full_1]
    %synth_full_2 : [num_users=1] = placeholder[target=synth_full_2]
    %x : [num_users=1] = placeholder[target=x]
    %aten_sigmoid_default : [num_users=2] = call_function[target=executorch.exir.dialects.edge._ops.aten.sigmoid.default](args = (%x,), kwargs = {})
    %aten_alias_copy_default : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.alias_copy.default](args = (%aten_sigmoid_default,), kwargs = {})
    %aten_sum_dim_int_list : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.sum.dim_IntList](args = (%aten_sigmoid_default, []), kwargs = {})
    %aten_alias_copy_default_1 : [num_users=2] = call_function[target=executorch.exir.dialects.edge._ops.aten.alias_copy.default](args = (%aten_alias_copy_default,), kwargs = {})
    %aten_sub_tensor : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.sub.Tensor](args = (%synth_full_2, %aten_alias_copy_default_1), kwargs = {})
    %aten_mul_tensor : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.mul.Tensor](args = (%aten_alias_copy_default_1, %aten_sub_tensor), kwargs = {})
    %aten_mul_tensor_1 : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.mul.Tensor](args = (%synth_full_1, %aten_mul_tensor), kwargs = {})
    return (aten_sum_dim_int_list, aten_mul_tensor_1)""",
        )
        self.assertExpectedInline(
            "\n".join(lowered.instructions()),
            """\
aten::sigmoid
aten::alias_copy
aten::sum
aten::alias_copy
aten::sub
aten::mul
aten::mul""",
        )

    def test_named_constants_are_read_back(self):
        lowered = lower(sigmoid_sum_with_backward())
        constants = read_synthesized_constants(lowered.executorch.buffer)
        self.assertEqual(
            {name: tuple(t.shape) for name, t in constants.items()},
            {c.name: c.stored_shape for c in lowered.lifted},
        )
        self.assertEqual([t.item() for t in constants.values()], [1.0, 1.0])

    def test_delegates_take_the_constants(self):
        lowered = lower(sigmoid_sum_with_backward(), True, [XnnpackPartitioner()])
        program = lowered.edge.exported_program()
        self.assertExpectedInline(
            str(program.graph).strip(),
            """\
graph():
    %x : [num_users=1] = placeholder[target=x]
    %lowered_module_0 : [num_users=1] = get_attr[target=lowered_module_0]
    %executorch_call_delegate : [num_users=1] = call_function[target=torch.ops.higher_order.executorch_call_delegate](args = (%lowered_module_0, %x), kwargs = {})
    %getitem_1 : [num_users=2] = call_function[target=operator.getitem](args = (%executorch_call_delegate, 0), kwargs = {})
    %aten_alias_copy_default : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.alias_copy.default](args = (%getitem_1,), kwargs = {})
    %aten_sum_dim_int_list : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.sum.dim_IntList](args = (%getitem_1, []), kwargs = {})
    %aten_alias_copy_default_1 : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.alias_copy.default](args = (%aten_alias_copy_default,), kwargs = {})
    %lowered_module_1 : [num_users=1] = get_attr[target=lowered_module_1]
    %executorch_call_delegate_1 : [num_users=1] = call_function[target=torch.ops.higher_order.executorch_call_delegate](args = (%lowered_module_1, %aten_alias_copy_default_1), kwargs = {})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%executorch_call_delegate_1, 0), kwargs = {})
    return (aten_sum_dim_int_list, getitem)""",
        )
        self.assertExpectedInline(
            "\n".join(lowered.instructions()),
            """\
XnnpackBackend
aten::alias_copy
aten::sum
aten::alias_copy
XnnpackBackend""",
        )
        self.assertEqual([c.stored_bytes for c in lowered.lifted], [4, 4])
        names = read_synthesized_constants(lowered.executorch.buffer)
        self.assertEqual(set(names), {c.name for c in lowered.lifted})

    def test_delegated_program_keeps_the_kind(self):
        lowered = lower(sigmoid_sum_with_backward(), True, [XnnpackPartitioner()])
        graph_module = lowered.edge.exported_program().graph_module
        delegates = [
            str(getattr(graph_module, node.target).original_module.graph_signature)
            for node in graph_module.graph.nodes
            if node.op == "get_attr"
        ]
        self.assertExpectedInline(
            "\n".join(delegates).strip(),
            """\
# inputs
x: USER_INPUT

# outputs
aten_sigmoid_default: USER_OUTPUT


# inputs
synth_full_1: SYNTHESIZED_CONSTANT target='full_1x1x1_f32_f705e746'
synth_full_2: SYNTHESIZED_CONSTANT target='full_f32_50ad3a94'
aten_alias_copy_default_1: USER_INPUT

# outputs
aten_mul_tensor_1: USER_OUTPUT""",
        )

    def test_flag_works_through_to_edge(self):
        config = EdgeCompileConfig(lift_synthesized_constants=True)
        edge = to_edge(sigmoid_sum_with_backward(), compile_config=config)
        program = edge.exported_program()
        at_once = lower(sigmoid_sum_with_backward()).edge.exported_program()
        self.assertEqual(str(program.graph_signature), str(at_once.graph_signature))
        self.assertEqual(str(program.graph), str(at_once.graph))

    def test_flag_outlives_a_later_delegation(self):
        with collect_reports() as reports:
            edge = to_edge(
                {
                    "one": sigmoid_sum_with_backward(),
                    "two": sigmoid_sum_with_backward(),
                },
                compile_config=EdgeCompileConfig(lift_synthesized_constants=True),
            ).to_backend(XnnpackPartitioner())
            lowered = Lowered(edge, edge.to_executorch(), reports)
        x = torch.randn(1, 5, 8)
        for method in ("one", "two"):
            self.assertNotIn("aten::full_like", lowered.instructions(method))
            self.assertNotIn("aten::expand_copy", lowered.instructions(method))
            assert_runs_like(
                lowered, loss_and_gradient(x), (x,), method, rtol=1e-6, atol=1e-6
            )

    def test_runs_like_eager(self):
        x = torch.randn(1, 5, 8)
        for partitioner in (None, [XnnpackPartitioner()]):
            with self.subTest(partitioner=partitioner):
                lowered = lower(sigmoid_sum_with_backward(), True, partitioner)
                assert_runs_like(
                    lowered, loss_and_gradient(x), (x,), rtol=1e-6, atol=1e-6
                )
