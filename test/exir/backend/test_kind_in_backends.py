# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import json
from typing import final, List

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch.exir.backend.test.op_partitioner_demo import (
    AddAttributePartitionerDemo,
    AddMulPartitionerDemo,
    AllNodesPartitionerDemo,
)
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig
from executorch.exir.passes.propagate_device_pass import TARGET_DEVICE_COMPILE_SPEC_KEY
from executorch.exir.schema import DeviceType, KernelCall
from executorch.exir.synthesized_constants import (
    get_synthesized_constant,
    is_synthesized_constant,
)
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    mask_program,
    run_on_runtime,
    synthesized,
    with_flag,
)
from torch._export.utils import (
    get_buffer,
    get_lifted_tensor_constant,
    get_param,
    is_lifted_tensor_constant,
)
from torch.export import export


def constants_of(program):
    """What a backend that does not know the kind sees of the constants."""
    found = {}
    for node in program.graph.find_nodes(op="placeholder"):
        for get in (get_param, get_buffer, get_lifted_tensor_constant):
            tensor = get(program, node)
            if tensor is not None:
                found[node.name] = list(tensor.shape)
    return found


@final
class AwareBackend(BackendDetails):
    """Looks at the kind: it makes what it can make itself and stores the rest."""

    @staticmethod
    def preprocess(edge_program, compile_specs: List[CompileSpec]) -> PreprocessResult:
        made, stored = {}, {}
        for node in edge_program.graph.find_nodes(op="placeholder"):
            if is_synthesized_constant(edge_program, node):
                known = get_synthesized_constant(edge_program, node)
                assert known is not None
                made[node.name] = [known.op, known.fill_value, known.stored_shape]
        for name, shape in constants_of(edge_program).items():
            if name not in made:
                stored[name] = shape
        text = json.dumps({"made": made, "stored": stored})
        return PreprocessResult(processed_bytes=text.encode())


@final
class UnawareBackend(BackendDetails):
    """Knows parameters, buffers and constant tensors."""

    @staticmethod
    def preprocess(edge_program, compile_specs: List[CompileSpec]) -> PreprocessResult:
        text = json.dumps({"stored": constants_of(edge_program)})
        return PreprocessResult(processed_bytes=text.encode())


@final
class OuterBackend(BackendDetails):
    """Gives a part of what it gets to another backend."""

    @staticmethod
    def preprocess(edge_program, compile_specs: List[CompileSpec]) -> PreprocessResult:
        partitioner = OpPartitioner(AwareBackend, exir_ops.edge.aten.add.Tensor)
        inner = to_backend(edge_program, partitioner)  # type: ignore[call-arg]
        parts = [
            json.loads(module.processed_bytes)
            for _, module in inner.graph_module.named_children()
        ]
        text = json.dumps({"inner": parts, "stored": constants_of(inner)})
        return PreprocessResult(processed_bytes=text.encode())


@final
class OpPartitioner(Partitioner):
    """Delegates the given ops, or all ops, with their constants. ``apart``: each op to
    a delegate of its own. ``constants``: whether they go with their users.
    ``specs``: for the backend."""

    def __init__(self, backend, *ops, apart=False, constants=True, specs=()) -> None:
        self.delegation_spec = DelegationSpec(backend.__name__, list(specs))
        self.wanted = ops
        self.apart = apart
        self.constants = constants

    def partition(self, program) -> PartitionResult:
        nodes = [
            n
            for n in program.graph.nodes
            if n.op == "call_function" and (not self.wanted or n.target in self.wanted)
        ]
        tags = {}
        if self.apart:
            groups = [[n] for n in nodes]
        else:
            groups = [
                list(p.nodes)
                for p in generate_partitions_from_list_of_nodes(
                    program.graph_module, [nodes]
                )
            ]
        for number, group in enumerate(groups):
            tag = f"{self.delegation_spec.backend_id}{number}"
            for node in group:
                node.meta["delegation_tag"] = tag
            tags[tag] = self.delegation_spec
        if self.constants:
            tag_constant_data(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)


def lower(model_or_program, *partitioners):
    program = model_or_program
    if isinstance(program, torch.nn.Module):
        program = export(program, ARGS)
    return to_edge_transform_and_lower(
        program, partitioner=list(partitioners), compile_config=with_flag()
    ).exported_program()


def delegates(program):
    return [
        module
        for name, module in program.graph_module.named_children()
        if name.startswith("lowered_module")
    ]


def test_a_backend_that_knows_the_kind_can_make_the_constants_itself():
    program = lower(mask_program(), OpPartitioner(AwareBackend))
    (delegate,) = delegates(program)
    seen = json.loads(delegate.processed_bytes)
    assert seen["made"] == {
        "synth_where": ["aten.where.self", None, [8, 8]],
        "synth_full_2": ["aten.mul.Tensor", 2.0, [1]],
        "synth_full_3": ["aten.mul.Tensor", 2.0, [1]],
        "synth_mul": ["aten.mul.Tensor", None, [8]],
    }
    assert sorted(seen["stored"].values()) == [[8], [8, 8]]
    assert torch.equal(program.module()(*ARGS), expected())


def test_a_backend_that_does_not_know_the_kind_sees_constant_tensors():
    program = lower(mask_program(), OpPartitioner(UnawareBackend))
    (delegate,) = delegates(program)
    seen = json.loads(delegate.processed_bytes)
    assert sorted(seen["stored"].values()) == [[1], [1], [8], [8], [8, 8], [8, 8]]
    assert torch.equal(program.module()(*ARGS), expected())


@pytest.mark.parametrize("backend", [AwareBackend, UnawareBackend])
def test_a_delegate_takes_the_constants_with_it_and_keeps_the_kind(backend):
    program = lower(mask_program(), OpPartitioner(backend))
    (delegate,) = delegates(program)
    inner = delegate.original_module
    assert len(synthesized(inner)) == 4
    assert set(synthesized(inner).values()) <= set(inner.constants)
    assert not synthesized(program)
    assert not program.constants
    inner.validate()


def test_to_backend_of_the_manager_keeps_the_kind():
    edge = to_edge(mask_program(), compile_config=with_flag())
    lowered = edge.to_backend(OpPartitioner(AwareBackend))
    (delegate,) = delegates(lowered.exported_program())
    assert len(synthesized(delegate.original_module)) == 4
    assert lowered.compile_config.lift_synthesized_constants is True


def test_to_backend_by_name_keeps_the_kind():
    edge = to_edge(mask_program(), compile_config=with_flag()).exported_program()
    module = to_backend(AwareBackend.__name__, edge, [])
    assert len(json.loads(module.processed_bytes)["made"]) == 4


def test_a_program_around_a_module_has_none_of_its_constants_as_inputs():
    edge = to_edge(mask_program(), compile_config=with_flag()).exported_program()
    module = to_backend(UnawareBackend.__name__, edge, [])
    (plan,) = module.program().execution_plan
    assert len(synthesized(module.original_module)) == 4
    assert len(plan.inputs) == len(ARGS)
    (call,) = plan.chains[0].instructions
    (argument, result) = call.instr_args.args  # type: ignore[union-attr]
    assert [argument, result] == [*plan.inputs, *plan.outputs]


def test_nested_delegates_keep_the_kind():
    program = lower(mask_program(), OpPartitioner(OuterBackend))
    (delegate,) = delegates(program)
    seen = json.loads(delegate.processed_bytes)
    made = {k: v for part in seen["inner"] for k, v in part["made"].items()}
    assert set(made) == {"synth_where", "synth_full_2", "synth_mul"}
    assert [1] in seen["stored"].values()  # that of the mul stays with the outer one


class Twice(torch.nn.Module):
    """A constant too large for a placeholder per user, used by two ops."""

    def forward(self, x):
        steps = torch.arange(64).reshape(8, 8)
        return (x + steps).sin() * steps


def test_a_constant_of_two_delegates_goes_into_both():
    add, mul = exir_ops.edge.aten.add.Tensor, exir_ops.edge.aten.mul.Tensor
    program = lower(Twice(), OpPartitioner(AwareBackend, add, mul))
    first, second = delegates(program)
    assert len(synthesized(first.original_module)) == 1
    assert set(synthesized(first.original_module).values()) == set(
        synthesized(second.original_module).values()
    )
    assert not program.constants
    assert torch.equal(program.module()(*ARGS), Twice()(*ARGS))


class TwiceInOne(torch.nn.Module):
    """A constant used by a first op, and by two more of which one takes a list."""

    def forward(self, x):
        steps = torch.arange(64).reshape(8, 8).float()
        y = (x + steps).sin() * steps
        return torch.cat([y, steps, y])


def test_a_constant_used_twice_in_a_second_delegate_and_in_a_list():
    """``duplicate_constant_node`` gave such a second use no tensor ("is not a buffer"),
    and left a user that takes a list without a copy (pytorch/executorch#22798)."""
    edge = exir_ops.edge.aten
    program = lower(
        TwiceInOne(),
        OpPartitioner(AwareBackend, edge.add.Tensor, edge.mul.Tensor, edge.cat.default),
    )
    first, second = delegates(program)
    assert len(synthesized(first.original_module)) == 1
    assert len(synthesized(second.original_module)) == 2
    assert len(second.original_module.constants) == 1
    assert torch.equal(program.module()(*ARGS), TwiceInOne()(*ARGS))
    for delegate in (first, second):
        delegate.original_module.validate()
        assert delegate.original_module.module()


def test_a_delegate_per_op():
    program = lower(TwiceInOne(), OpPartitioner(UnawareBackend, apart=True))
    assert len(delegates(program)) > 3
    assert torch.equal(program.module()(*ARGS), TwiceInOne()(*ARGS))


class Adds(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.ones(8))

    def forward(self, x):
        y = x + torch.arange(8)
        return (y @ torch.eye(8)).sin() + self.b


@pytest.mark.parametrize(
    "partitioner",
    [AddMulPartitionerDemo, AddAttributePartitionerDemo, AllNodesPartitionerDemo],
)
def test_the_demo_partitioners_and_backends_of_executorch(partitioner):
    model = Adds()
    if partitioner is AllNodesPartitionerDemo:
        pytest.importorskip("executorch.exir.backend.test.demos.rpc")
    program = lower(model, partitioner())
    assert delegates(program)
    assert torch.equal(program.module()(*ARGS), model(*ARGS))
    inside = [synthesized(d.original_module) for d in delegates(program)]
    if partitioner is AddMulPartitionerDemo:  # tags no constants
        assert not any(inside)
        assert len(synthesized(program)) == 2
    else:
        assert any(inside)


class InsideAndOutside(torch.nn.Module):
    """A constant that an op outside uses too: the delegate gets it as an input."""

    def forward(self, x):
        steps = torch.arange(64.0).reshape(8, 8).sin()
        return (x + steps).atan2(steps)


def device_of(tensor):
    extra = tensor.extra_tensor_info
    return extra.device_type if extra else DeviceType.CPU


def emit_for_a_device(**options):
    """Emits ``InsideAndOutside`` with its add on a device.

    Returns:
        The plan, and of each copy to the device the two tensors.
    """
    spec = CompileSpec(TARGET_DEVICE_COMPILE_SPEC_KEY, b"cuda:0")
    add = exir_ops.edge.aten.add.Tensor
    lowered = to_edge_transform_and_lower(
        export(InsideAndOutside(), ARGS),
        partitioner=[OpPartitioner(UnawareBackend, add, constants=False, specs=[spec])],
        compile_config=with_flag(),
    )
    assert len(synthesized(lowered.exported_program())) == 1
    config = ExecutorchBackendConfig(enable_non_cpu_memory_planning=True, **options)
    (plan,) = lowered.to_executorch(config).executorch_program.execution_plan
    copies = []
    for instruction in plan.chains[0].instructions:
        call = instruction.instr_args
        if isinstance(call, KernelCall) and "_h2d_copy" in str(
            plan.operators[call.op_index]
        ):
            copies.append([plan.values[i].val for i in (call.args[0], call.args[-1])])
    return plan, copies


def test_a_constant_is_copied_to_the_device_of_a_delegate():
    """The copy took itself for a constant, for which there are no bytes."""
    plan, copies = emit_for_a_device()
    constants = [source for source, _ in copies if source.data_buffer_idx]
    assert len(copies) == 2
    assert len(constants) == 1
    for source, target in copies:
        assert device_of(source) == DeviceType.CPU
        assert device_of(target) == DeviceType.CUDA
        assert target.allocation_info is not None
        assert target.data_buffer_idx == 0


def test_a_constant_is_no_input_that_is_on_the_device_already():
    plan, copies = emit_for_a_device(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
        propagate_device_config=PropagateDeviceConfig(skip_h2d_for_method_inputs=True),
    )
    ((source, target),) = copies
    assert source.data_buffer_idx
    assert device_of(source) == DeviceType.CPU
    assert device_of(target) == DeviceType.CUDA


def test_xnnpack_runs_what_was_lifted():
    lowered = to_edge_transform_and_lower(
        mask_program(), partitioner=[XnnpackPartitioner()], compile_config=with_flag()
    )
    (delegate,) = delegates(lowered.exported_program())
    assert len(synthesized(delegate.original_module)) == 4
    (result,) = run_on_runtime(lowered.to_executorch(), *ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


def test_a_partitioner_sees_is_lifted_tensor_constant():
    program = to_edge(mask_program(), compile_config=with_flag()).exported_program()
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in synthesized(program):
            assert is_lifted_tensor_constant(program, node)
            assert get_lifted_tensor_constant(program, node) is not None
