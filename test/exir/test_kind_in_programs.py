# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import os
import subprocess
import sys

import pytest
import torch
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.synthesized_constants import (
    default_policy,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.policy import (
    default_flag,
    ENVIRONMENT_VARIABLE,
)
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    lifted_mask,
    mask_program,
    run_on_runtime,
    synthesized,
    with_flag,
)
from torch.export import export

POLICY = SynthesizedConstantPolicy(max_bytes=128)


def lowered_kinds(config=None):
    edge = to_edge(mask_program(), compile_config=config)
    return bool(synthesized(edge.exported_program()))


def test_nothing_is_lifted_by_default():
    assert EdgeCompileConfig().lift_synthesized_constants is False
    assert not lowered_kinds()


def test_default_policy_is_that_of_configs_that_say_nothing():
    with default_policy(True):
        assert EdgeCompileConfig().lift_synthesized_constants is True
        assert EdgeCompileConfig(_check_ir_validity=False).lift_synthesized_constants
        assert lowered_kinds()
        assert lowered_kinds(EdgeCompileConfig(_skip_dim_order=True))
    assert EdgeCompileConfig().lift_synthesized_constants is False


def test_default_policy_holds_for_all_ways_of_lowering():
    with default_policy(POLICY):
        manager = to_edge_transform_and_lower(mask_program())
    assert manager.compile_config.lift_synthesized_constants is POLICY
    targets = set(synthesized(manager.exported_program()).values())
    assert targets and not any("8x8_f32" in t for t in targets)  # 256 bytes


def test_an_explicit_false_stays_false():
    with default_policy(True):
        config = EdgeCompileConfig(lift_synthesized_constants=False)
        assert config.lift_synthesized_constants is False
        assert not lowered_kinds(config)


def test_default_policies_nest_and_end_with_an_exception():
    with default_policy(True):
        with pytest.raises(KeyError):
            with default_policy(POLICY):
                assert default_flag() is POLICY
                with default_policy(False):
                    assert default_flag() is False
                assert default_flag() is POLICY
                raise KeyError
        assert default_flag() is True
    assert default_flag() is False


@pytest.mark.parametrize("policy", [None, 1, "yes"])
def test_default_policy_refuses_what_is_no_policy(policy):
    with pytest.raises(TypeError, match="must be a bool or a Synthesized"):
        with default_policy(policy):
            pass
    assert default_flag() is False


@pytest.mark.parametrize("value, flag", [("1", True), ("0", False), ("", False)])
def test_the_environment_decides_where_nothing_else_does(monkeypatch, value, flag):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, value)
    assert EdgeCompileConfig().lift_synthesized_constants is flag
    assert EdgeCompileConfig(lift_synthesized_constants=False) != EdgeCompileConfig(
        lift_synthesized_constants=True
    )
    with default_policy(not flag):
        assert EdgeCompileConfig().lift_synthesized_constants is not flag


@pytest.mark.parametrize("value", ["yes", "2", " 1", "True"])
def test_other_values_of_the_environment_variable_are_an_error(monkeypatch, value):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, value)
    with pytest.raises(ValueError, match="SYNTHESIZED_CONSTANTS must be 0 or 1, got"):
        EdgeCompileConfig()
    assert EdgeCompileConfig(lift_synthesized_constants=True)


def test_the_environment_works_without_an_import_of_ours():
    script = """
import torch
from executorch.exir import to_edge
class Model(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(8)
edge = to_edge(torch.export.export(Model(), (torch.ones(8),)))
print(edge.exported_program().graph_signature)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, ENVIRONMENT_VARIABLE: "1"},
        capture_output=True,
        text=True,
    )
    assert "SYNTHESIZED_CONSTANT target='arange_8_" in done.stdout, done.stderr


def test_transform_keeps_the_kind():
    edge = to_edge(mask_program(), compile_config=with_flag())
    before = synthesized(edge.exported_program())
    again = edge.transform([ExportPass()])
    assert synthesized(again.exported_program()) == before
    assert again.compile_config.lift_synthesized_constants is True
    (result,) = run_on_runtime(again.to_executorch(), *ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


class Sigmoid(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


class ScalesSigmoid(ExportPass):
    """Makes ``(sigmoid(x) + 2) * 3``: the 2 by a creator, the 3 held by the graph."""

    def call_operator(self, op, args, kwargs, meta):
        result = super().call_operator(op, args, kwargs, meta)
        if op is exir_ops.edge.aten.sigmoid.default:
            for other, combine in (
                (self.two(meta), exir_ops.edge.aten.add.Tensor),
                (torch.tensor([3.0]), exir_ops.edge.aten.mul.Tensor),
            ):
                result = super().call_operator(combine, (result, other), {}, meta)
        return result

    def two(self, meta):
        full = exir_ops.edge.aten.full.default
        return super().call_operator(full, ([1], 2.0), {}, meta)


def test_what_passes_of_the_user_make_is_lifted():
    edge = to_edge_transform_and_lower(
        export(Sigmoid(), ARGS),
        transform_passes=[ScalesSigmoid()],
        compile_config=with_flag(),
    )
    program = edge.exported_program()
    assert len(synthesized(program)) == len(program.constants) == 2
    assert not program.state_dict
    (result,) = run_on_runtime(edge.to_executorch(), *ARGS)
    expected = (torch.sigmoid(*ARGS) + 2) * 3
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


def test_a_program_lifted_before_lowering_is_lowered_with_its_constants():
    edge = to_edge(lifted_mask())
    assert set(synthesized(edge.exported_program()).values()) == set(
        synthesized(lifted_mask()).values()
    )
    (result,) = run_on_runtime(edge.to_executorch(), *ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


def test_memory_planning_gives_constants_no_planned_memory():
    def planned(config):
        manager = to_edge(mask_program(), compile_config=config).to_executorch()
        plan = manager.executorch_program.execution_plan[0]
        return sum(plan.non_const_buffer_sizes), manager

    before, _ = planned(EdgeCompileConfig())
    after, manager = planned(with_flag())
    assert after < before
    program = manager.exported_program()
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in synthesized(program):
            assert node.meta["spec"].const
            assert node.meta["spec"].mem_id is None


@pytest.mark.parametrize("alloc", [True, False])
def test_memory_planning_of_inputs_leaves_constants_alone(alloc):
    manager = to_edge(mask_program(), compile_config=with_flag()).to_executorch(
        ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=alloc)
        )
    )
    (result,) = run_on_runtime(manager, *ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


def test_external_constants_are_the_weights_alone():
    def data(config):
        manager = to_edge(mask_program(), compile_config=config).to_executorch(
            ExecutorchBackendConfig(external_constants=True)
        )
        external = manager._emitter_output.external_constant_map or {}
        return {fqn for names in external.values() for fqn in names}

    assert data(with_flag()) == {"linear.weight", "linear.bias"}


class Steps(torch.nn.Module):
    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign = sign

    def forward(self, x):
        return x * self.sign + torch.arange(64).reshape(8, 8)


def test_methods_share_one_constant():
    edge = to_edge(
        {"add": export(Steps(1.0), ARGS), "sub": export(Steps(-1.0), ARGS)},
        compile_config=with_flag(),
    )
    targets = [
        {
            name: target
            for name, target in synthesized(edge.exported_program(m)).items()
            if "8x8" in target
        }
        for m in ("add", "sub")
    ]
    assert targets[0] and set(targets[0].values()) == set(targets[1].values())
    program = edge.to_executorch().executorch_program
    sizes = [len(buffer.storage) for buffer in program.constant_buffer]
    assert sizes.count(8 * 8 * 4) == 1
    from executorch.runtime import Runtime

    loaded = Runtime.get().load_program(edge.to_executorch().buffer)
    for method, model in (("add", Steps(1.0)), ("sub", Steps(-1.0))):
        (result,) = loaded.load_method(method).execute(list(ARGS))
        assert torch.equal(result, model(*ARGS))


def test_recipes_carry_the_flag():
    from executorch.export import export as export_by_recipe, ExportRecipe
    from executorch.export.recipe import LoweringRecipe

    recipe = ExportRecipe(
        name="lifted", lowering_recipe=LoweringRecipe(edge_compile_config=with_flag())
    )
    torch.manual_seed(0)
    from executorch.exir.synthesized_constants.test.lifted_programs import Mask

    session = export_by_recipe(
        model=Mask().eval(), example_inputs=[ARGS], export_recipe=recipe
    )
    manager = session.get_executorch_program_manager()
    assert synthesized(manager.exported_program())
    (result,) = run_on_runtime(manager, *ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


def test_recipes_of_backends_take_the_default_policy():
    from executorch.backends.xnnpack.recipes.xnnpack_recipe_types import (
        XNNPackRecipeType,
    )
    from executorch.exir.synthesized_constants.test.lifted_programs import Mask
    from executorch.export import export as export_by_recipe, ExportRecipe

    torch.manual_seed(0)
    with default_policy(True):
        recipe = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
        session = export_by_recipe(
            model=Mask().eval(), example_inputs=[ARGS], export_recipe=recipe
        )
    delegate = session.get_executorch_program_manager().exported_program()
    inner = delegate.graph_module.lowered_module_0.original_module
    assert synthesized(inner)
