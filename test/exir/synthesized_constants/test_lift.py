# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The pass as a whole: what it makes of programs, on the stock runtime."""

import copy
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools.etrecord import parse_etrecord
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch.exir.synthesized_constants import (
    collect_reports,
    default_policy,
    get_synthesized_constant,
    is_synthesized_constant,
    lift_synthesized_constants,
    Placement,
    SynthesizedConstant,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.rewrite import PER_USER_BYTES
from executorch.exir.synthesized_constants.test.helpers import lower, lower_and_run
from executorch.runtime import Runtime
from expecttest import assert_expected_inline
from torch.export import Dim, export, ExportedProgram
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import InputKind

UNLIMITED = SynthesizedConstantPolicy(
    max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
)


#: Portable matrix products add in another order than ATen's.
CLOSE: Dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def module(forward: Any, **attributes: Any) -> torch.nn.Module:
    """A module with this forward; tensors become buffers, parameters stay."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in attributes.items():
                if isinstance(value, torch.nn.Parameter):
                    self.register_parameter(name, value)
                else:
                    self.register_buffer(name, value)

    Module.forward = forward  # type: ignore[method-assign]
    return Module()


def signature(program: ExportedProgram) -> str:
    return str(program.graph_signature).strip()


def kinds(program: ExportedProgram) -> List[InputKind]:
    return [spec.kind for spec in program.graph_signature.input_specs]


def test_golden_signature_and_graph_of_a_causal_mask() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((4, 4), float("-inf")).triu(1)
        return (x + mask).relu()

    lowered = lower_and_run(module(forward), (torch.randn(2, 4, 4),))
    program = lowered.edge.exported_program()
    assert_expected_inline(
        signature(program),
        """\
# inputs
synth_where: SYNTHESIZED_CONSTANT target='where_4x4_f32_93e6edea'
x: USER_INPUT

# outputs
aten_relu_default: USER_OUTPUT""",
    )
    assert_expected_inline(
        str(program.graph).strip(),
        """\
graph():
    %synth_where : [num_users=1] = placeholder[target=synth_where]
    %x : [num_users=1] = placeholder[target=x]
    %aten_add_tensor : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.add.Tensor](args = (%x, %synth_where), kwargs = {})
    %aten_relu_default : [num_users=1] = call_function[target=executorch.exir.dialects.edge._ops.aten.relu.default](args = (%aten_add_tensor,), kwargs = {})
    return (aten_relu_default,)""",
    )
    assert_expected_inline(" ".join(lowered.instructions()), """aten::add aten::relu""")


def test_the_description_tells_how_to_make_the_value() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4).float().cos()

    program = lower(export(module(forward), (torch.randn(3, 4),))).edge
    edge = program.exported_program()
    (node,) = [n for n in edge.graph.nodes if is_synthesized_constant(edge, n)]
    known = get_synthesized_constant(edge, node)
    assert known is not None
    assert known.op == "aten.cos.default"
    assert [step.op for step in known.steps][0].startswith("aten.arange")
    assert known.steps[-1].args == f"%{len(known.steps) - 2}"
    assert (known.shape, known.stored_shape) == ((4,), (4,))
    assert (known.value_bytes, known.stored_bytes) == (16, 16)
    assert known.fill_value is None
    assert "test_lift.py" in known.source and "forward" in known.source
    assert known.name in edge.constants
    other = [n for n in edge.graph.nodes if n is not node][0]
    assert get_synthesized_constant(edge, other) is None


def test_the_module_path_is_known() -> None:
    class Inner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.arange(3.0)

    outer = torch.nn.Sequential()
    outer.add_module("deep", Inner())
    lowered = lower_and_run(outer, (torch.randn(3),))
    assert [c.module for c in lowered.lifted] == ["deep"]


def test_names_follow_from_content_and_are_equal_in_two_exports() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(8.0) * 2

    names = []
    for _ in range(2):
        lowered = lower(export(module(forward), (torch.randn(8),)))
        names.append([c.name for c in lowered.lifted])
    assert names[0] == names[1]
    assert_expected_inline(names[0][0], """mul_8_f32_c1509c6c""")


def test_the_second_run_changes_nothing() -> None:
    def forward(self: Any, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        mask = torch.ones(5, 5).tril()
        return (1 - x) @ mask + torch.zeros_like(x), torch.arange(3) + 1

    program = export(module(forward), (torch.randn(5, 5),)).run_decompositions()
    lift_synthesized_constants(program)
    before = str(program)
    tensors = dict(program.constants)
    lift_synthesized_constants(program)
    assert str(program) == before
    assert program.constants.keys() == tensors.keys()


def test_a_program_of_the_aten_dialect_runs_after_lifting() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        base = torch.zeros(3, 4)
        base[1] = x
        return base + torch.ones(3, 4).cumsum(0) * torch.arange(4)

    model, x = module(forward), torch.randn(4)
    program = lift_synthesized_constants(export(model, (x,)))
    assert InputKind.SYNTHESIZED_CONSTANT in kinds(program)
    torch.testing.assert_close(program.module()(x), model(x), rtol=0, atol=0)


def test_false_lifts_nothing_and_nonsense_is_refused() -> None:
    program = export(module(lambda self, x: x + torch.ones(3)), (torch.randn(3),))
    before = str(program)
    assert str(lift_synthesized_constants(program, False)) == before
    with pytest.raises(TypeError, match="lift_synthesized_constants"):
        lift_synthesized_constants(program, "yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner()]])
class TestOutputs:
    """Values that are returned need memory of their own."""

    def run(self, forward: Any, partitioner: Any, *inputs: torch.Tensor) -> List[str]:
        lowered = lower_and_run(module(forward), inputs, UNLIMITED, partitioner)
        return [i for i in lowered.instructions() if "Xnnpack" not in i]

    def test_a_constant_output(self, partitioner: Any) -> None:
        def forward(self: Any, x: torch.Tensor) -> Any:
            return x + 1, torch.arange(4.0).cos().sin()

        assert len(self.run(forward, partitioner, torch.randn(4))) <= 2

    def test_returned_and_used(self, partitioner: Any) -> None:
        def forward(self: Any, x: torch.Tensor) -> Any:
            table = torch.arange(4.0).cos()
            return x * table, table

        self.run(forward, partitioner, torch.randn(4))

    def test_returned_twice(self, partitioner: Any) -> None:
        def forward(self: Any, x: torch.Tensor) -> Any:
            table = torch.arange(4.0).cos()
            return table, x + 1, table

        self.run(forward, partitioner, torch.randn(4))

    def test_a_uniform_output(self, partitioner: Any) -> None:
        def forward(self: Any, x: torch.Tensor) -> Any:
            return x + 1, (torch.zeros(2, 3) + 1).exp()

        self.run(forward, partitioner, torch.randn(4))

    def test_outputs_of_rank_0_and_without_elements(self, partitioner: Any) -> None:
        def forward(self: Any, x: torch.Tensor) -> Any:
            return x + 1, torch.full((), 2.0).neg(), torch.zeros(0, 3)

        self.run(forward, partitioner, torch.randn(4))


def test_an_output_can_be_written_by_the_caller() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return x + 1, torch.arange(4.0).cos().sin()

    x = torch.randn(4)
    lowered = lower(export(module(forward), (x,)), UNLIMITED)
    method = (
        Runtime.get().load_program(lowered.executorch.buffer).load_method("forward")
    )
    assert method is not None
    expected = torch.arange(4.0).cos().sin()
    for _ in range(2):
        out = method.execute([x])[1]
        torch.testing.assert_close(out, expected)
        out.fill_(7)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    ],
)
def test_every_dtype(dtype: torch.dtype) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        table = torch.arange(6).reshape(2, 3).to(dtype)
        return torch.where(x > 0, table, torch.ones(2, 3, dtype=dtype))

    lowered = lower_and_run(module(forward), (torch.randn(2, 3),))
    assert {c.dtype for c in lowered.lifted} >= {dtype}


def test_rank_0_stays_rank_0_and_rank_1_stays_rank_1() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        weak = x * torch.full((), 2.0, dtype=torch.float64)
        strong = x * torch.full((1,), 2.0, dtype=torch.float64)
        return weak, strong

    lowered = lower_and_run(module(forward), (torch.randn(3),), UNLIMITED)
    assert {c.stored_shape for c in lowered.lifted} >= {()}


def test_negative_zero_keeps_its_sign() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * torch.full((3,), -0.0)

    x = torch.ones(3)
    lowered = lower_and_run(module(forward), (x,))
    assert torch.signbit(lowered.run(x)[0]).all()


def test_zero_size_values() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, torch.zeros(0, 3), torch.ones(1, 3)])

    lower_and_run(module(forward), (torch.randn(2, 3),), UNLIMITED)


def test_a_program_without_user_inputs() -> None:
    def forward(self: Any) -> torch.Tensor:
        return (torch.arange(4.0) + 1).cos() * self.scale

    lower_and_run(module(forward, scale=torch.randn(4)), (), UNLIMITED)
    lowered = lower_and_run(module(lambda self: torch.ones(3).cos() + 1), ())
    assert len(lowered.instructions()) == 1


def test_an_input_that_is_used_for_its_shape_stays_an_input() -> None:
    def forward(self: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y + torch.zeros_like(x)

    lower_and_run(module(forward), (torch.randn(3), torch.randn(3)))


@pytest.mark.parametrize(
    "op", [torch.add, torch.mul, torch.maximum, lambda a, b: torch.where(a > 0, a, b)]
)
def test_constants_beside_channels_last_keep_shape_and_dim_order(op: Any) -> None:
    # Portable kernels broadcast wrongly, and silently, in channels_last.
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        table = torch.zeros_like(x) + 0.5
        return op(x, table)

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    lowered = lower_and_run(module(forward), (x,))
    (constant,) = lowered.lifted
    assert constant.stored_shape == (2, 3, 4, 5)
    assert constant.dim_order == (0, 2, 3, 1)


def test_two_users_of_a_small_constant_have_a_placeholder_each() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        small, large = torch.arange(4.0), torch.arange(64.0)
        x = (x + small) * small
        return (x.sum() + large) * large

    program = lower(export(module(forward), (torch.randn(4),)))
    edge = program.edge.exported_program()
    assert 64 * 4 > PER_USER_BYTES >= 4 * 4
    targets = [
        spec.target
        for spec in edge.graph_signature.input_specs
        if spec.kind == InputKind.SYNTHESIZED_CONSTANT
    ]
    assert sorted(targets.count(t) for t in set(targets)) == [1, 2]
    assert {c.name for c in program.lifted} == set(targets)


class TestMutation:
    """What is written to must be fresh at each call."""

    def twice(self, model: torch.nn.Module, *inputs: Any, config: Any = None) -> None:
        eager = copy.deepcopy(model)
        lowered = lower(export(model, inputs), UNLIMITED)
        executorch = (
            lowered.edge.to_executorch(config) if config else lowered.executorch
        )
        program = Runtime.get().load_program(bytes(executorch.buffer))
        method = program.load_method("forward")
        assert method is not None
        for _ in range(3):
            torch.testing.assert_close(method.execute(list(inputs))[0], eager(*inputs))

    def test_index_put_on_zeros(self) -> None:
        def forward(self: Any, i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            out = torch.zeros(6)
            out[i] = x
            return out

        inputs = (torch.tensor([1, 3]), torch.randn(2))
        self.twice(module(forward), *inputs)
        config = ExecutorchBackendConfig(run_reinplace_pass=True)
        self.twice(module(forward), *inputs, config=config)

    def test_slice_assignment_and_fill(self) -> None:
        def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
            out = torch.zeros(4, 3)
            out[1:3] = x
            out[0].fill_(2)
            out.mul_(2)
            return out

        self.twice(module(forward), torch.randn(2, 3))

    def test_a_buffer_that_is_set_to_a_constant(self) -> None:
        def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
            self.state.add_(x)
            out = self.state.clone()
            self.state.copy_(torch.zeros(3) + torch.arange(3) * 0)
            return out

        self.twice(module(forward, state=torch.zeros(3)), torch.randn(3))

    def test_a_buffer_is_never_folded_through_if_it_is_mutated(self) -> None:
        def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
            out = self.state * 2 + x
            self.state.add_(1)
            return out

        model = module(forward, state=torch.zeros(3))
        policy = SynthesizedConstantPolicy(through_parameters=True)
        program = lower(export(model, (torch.randn(3),)), policy)
        assert any("mul" in i for i in program.instructions())


class TestThroughParameters:
    @staticmethod
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight.t() * 2 + self.offset)

    def model(self) -> torch.nn.Module:
        weight = torch.nn.Parameter(torch.randn(4, 4))
        return module(self.forward, weight=weight, offset=torch.randn(4))

    def test_off_by_default(self) -> None:
        lowered = lower_and_run(self.model(), (torch.randn(2, 4),), UNLIMITED, **CLOSE)
        assert len(lowered.instructions()) == 4

    def test_folds_chains_through_weights_and_drops_what_dies(self) -> None:
        policy = SynthesizedConstantPolicy(through_parameters=True)
        lowered = lower_and_run(self.model(), (torch.randn(2, 4),), policy, **CLOSE)
        assert lowered.instructions() == ["aten::mm"]
        assert not lowered.edge.exported_program().state_dict

    def test_never_through_a_parameter_with_a_gradient(self) -> None:
        class Loss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return (x * (self.weight * 2)).sum()

        program = _export_forward_backward(export(Loss(), (torch.randn(3),)))
        policy = SynthesizedConstantPolicy(through_parameters=True)
        edge = lower(program, policy).edge.exported_program()
        assert InputKind.PARAMETER in kinds(edge)

    def test_never_through_a_buffer_that_another_method_mutates(self) -> None:
        class Methods(torch.nn.Module):
            state: torch.Tensor

            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("state", torch.ones(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + self.state * 2

        class Setter(Methods):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.state.add_(x)
                return self.state * 1

        programs = {
            "get": export(Methods(), (torch.randn(3),)),
            "set": export(Setter(), (torch.randn(3),)),
        }
        policy = SynthesizedConstantPolicy(through_parameters=True)
        lowered = lower(programs, policy)
        assert InputKind.BUFFER in kinds(lowered.edge.exported_program("get"))


class TestKeep:
    @staticmethod
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(4, 4).tril() + torch.arange(4)

    def ops(self, keep: Any) -> List[str]:
        policy = SynthesizedConstantPolicy(keep=keep)
        return lower_and_run(
            module(self.forward), (torch.randn(4, 4),), policy
        ).instructions()

    def test_an_op_by_name_stays(self) -> None:
        assert any("arange" in i for i in self.ops(["aten.arange"]))
        assert not any("arange" in i for i in self.ops(["aten.tril"]))

    def test_a_predicate_sees_the_description(self) -> None:
        seen: List[SynthesizedConstant] = []

        def keep(constant: SynthesizedConstant) -> bool:
            seen.append(constant)
            return constant.op.startswith("aten.arange")

        assert any("arange" in i for i in self.ops(keep))
        assert {c.fill_value for c in seen} >= {1.0}


def test_decompositions_are_lifted_too() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")

    x = torch.randn(1, 2, 4, 4)
    lowered = lower_and_run(module(forward), (x,), UNLIMITED, rtol=1e-4, atol=1e-5)
    creators = {"aten::arange", "aten::full", "aten::floor", "aten::clamp"}
    assert not creators & set(lowered.instructions())


def test_regions_of_other_grad_and_autocast_modes() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            table = torch.arange(4.0).cos()
        with torch.autocast("cpu", enabled=False):
            other = torch.outer(table, torch.ones(4))
        return x * table + other

    lowered = lower_and_run(module(forward), (torch.randn(4, 4),))
    assert sorted(set(lowered.instructions())) == ["aten::add", "aten::mul"]


def test_a_uniform_value_of_symbolic_shape_needs_no_shape() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.full_like(x, 2.0) * torch.ones(x.shape[0], 1)

    shapes = ({0: Dim("n", min=2, max=8)},)
    model, x = module(forward), torch.randn(5, 3)
    lowered = lower_and_run(model, (x,), dynamic_shapes=shapes)
    assert lowered.instructions() == ["aten::add"]
    other = torch.randn(7, 3)
    torch.testing.assert_close(lowered.run(other)[0], model(other))


def test_a_backward_graph() -> None:
    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.linear(x).relu(), y)

    inputs = (torch.randn(2, 4), torch.tensor([0, 2]))
    program = _export_forward_backward(export(Loss(), inputs))
    lifted, stock = lower(program), lower(program, False)
    assert len(lifted.instructions()) < len(stock.instructions())
    for a, b in zip(lifted.run(*inputs), stock.run(*inputs)):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_several_methods_share_equal_constants() -> None:
    def first(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(64.0) * 2

    def second(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x - torch.arange(64.0) * 2

    x = torch.randn(64)
    programs = {"a": export(module(first), (x,)), "b": export(module(second), (x,))}
    lowered = lower(programs)
    names = {c.name for c in lowered.lifted}
    assert len(names) == 1
    buffers = lowered.executorch.executorch_program.constant_buffer
    assert len(buffers) == 2  # the first is reserved
    for method in programs:
        lowered.run(x, method=method)


def test_quantize_folds_and_dequantize_stays() -> None:
    from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib

    assert quantized_decomposed_lib is not None
    quantized = torch.ops.quantized_decomposed

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        table = torch.arange(4.0)
        q = quantized.quantize_per_tensor(table, 0.5, 0, -128, 127, torch.int8)
        return x + quantized.dequantize_per_tensor(q, 0.5, 0, -128, 127, torch.int8)

    program = export(module(forward), (torch.randn(4),))
    lift_synthesized_constants(program)
    ops = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert not any(".quantize_per_tensor" in op for op in ops)
    assert any("dequantize_per_tensor" in op for op in ops)
    (constant,) = program.constants.values()
    assert constant.dtype == torch.int8


def test_a_constant_that_would_exceed_the_budget_stays_an_op() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.arange(4096.0).reshape(64, 64)

    policy = SynthesizedConstantPolicy(max_bytes=1024)
    # Sums of whole numbers, which every order of summation gives exactly.
    lowered = lower_and_run(module(forward), (torch.ones(2, 64),), policy)
    assert not lowered.lifted
    assert any("arange" in i for i in lowered.instructions())
    entries = [e for report in lowered.reports for e in report.entries]
    assert [e.lifted for e in entries] == [False]
    assert "limit" in entries[0].reason


def test_a_literal_that_was_folded_leaves_the_program() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([1.0, 2.0, 3.0]).neg()

    edge = lower(export(module(forward), (torch.randn(3),))).edge.exported_program()
    assert kinds(edge) == [InputKind.SYNTHESIZED_CONSTANT, InputKind.USER_INPUT]
    assert len(edge.constants) == 1


def test_uniform_values_cost_no_memory_however_large() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        for i in range(100):
            x = x + torch.full((1, 4096, 4096), float(i))  # 64 MiB each
        return x

    program = export(module(forward), (torch.zeros(1, 1, 1),))
    lift_synthesized_constants(program.run_decompositions({}))


def test_threads_at_once_get_what_each_gets_alone() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(8, 8).tril()
        return (x + mask).softmax(-1) * torch.arange(8.0) + torch.full((8, 8), 2.0)

    program = export(module(forward), (torch.zeros(8, 8),)).run_decompositions({})
    policies = [
        True,
        False,
        SynthesizedConstantPolicy(max_bytes=64),
        SynthesizedConstantPolicy(placement=Placement.INPUT),
    ]

    def lift(copied: ExportedProgram, policy: Any) -> Tuple[str, str, List[List[str]]]:
        with collect_reports() as reports, default_policy(policy):
            lift_synthesized_constants(
                copied, EdgeCompileConfig().lift_synthesized_constants
            )
        names = [[c.name for c in report.lifted] for report in reports]
        return copied.graph_module.code, str(copied.graph_signature), names

    alone = [lift(copy.deepcopy(program), policy) for policy in policies]
    assert len({signature for _, signature, _ in alone}) == len(policies)
    copies = [copy.deepcopy(program) for _ in policies]
    together = threading.Barrier(len(policies))

    def wait_and_lift(copied: ExportedProgram, policy: Any) -> Any:
        together.wait()
        return lift(copied, policy)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(policies)) as pool:
            assert list(pool.map(wait_and_lift, copies, policies)) == alone
    finally:
        sys.setswitchinterval(interval)


# What the caller holds


@pytest.mark.parametrize("through_parameters", [False, True])
@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner()]])
def test_the_program_of_the_caller_stays_as_it_is(
    tmp_path: Path, partitioner: Any, through_parameters: bool
) -> None:
    class Literal(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.literal = torch.tensor([1.0, 2.0])
            self.weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight.exp() + self.literal * 3 + torch.arange(2)

    program = export(Literal(), (torch.ones(2),))
    wanted = Literal()(torch.ones(2))
    before = str(program), set(program.constants), set(program.state_dict)
    policy = SynthesizedConstantPolicy(through_parameters=through_parameters)
    for _ in range(2):
        lowered = to_edge_transform_and_lower(
            program,
            partitioner=partitioner,
            compile_config=EdgeCompileConfig(lift_synthesized_constants=policy),
            generate_etrecord=True,
        ).to_executorch()
        assert (str(program), set(program.constants), set(program.state_dict)) == before
        assert torch.equal(program.module()(torch.ones(2)), wanted)
        path = str(tmp_path / "record.bin")
        lowered.get_etrecord().save(path)
        exported = parse_etrecord(path).exported_program
        assert exported is not None
        assert torch.equal(exported.module()(torch.ones(2)), wanted)


def test_passes_can_ask_a_lifted_literal_for_its_value() -> None:
    # So can passes that fuse RMSNorm: they look for its epsilon.
    program = export(module(lambda self, x: 1 - x), (torch.ones(2),))
    for flag in (False, True):
        edge = to_edge(
            program, compile_config=EdgeCompileConfig(lift_synthesized_constants=flag)
        ).exported_program()
        (literal,) = (
            node
            for node in edge.graph.find_nodes(op="placeholder")
            if node.name not in edge.graph_signature.user_inputs
        )
        assert is_synthesized_constant(edge, literal) is flag
        assert literal.meta["val"].constant.item() == 1


def test_the_total_is_a_share_of_buffers_that_are_not_saved_too() -> None:
    class Module(torch.nn.Module):
        def __init__(self, rows: int) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(rows, 256), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.get_buffer("table")[0] + x * torch.arange(128 * 256).view(
                128, 256
            )

    lifted = {}
    for rows in (1, 32 * 1024):  # 1 KiB and 32 MiB; the value takes 128 KiB or 256
        program = export(Module(rows), (torch.ones(256),))
        with collect_reports() as reports:
            lift_synthesized_constants(program)
        lifted[rows] = sum(c.stored_bytes for r in reports for c in r.lifted)
    assert lifted[1] < 128 * 1024 <= lifted[32 * 1024]
