# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import copy
import io
import pickle

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.synthesized_constants import (
    get_synthesized_constant,
    lift_synthesized_constants,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    lifted_mask,
    mask_program,
    synthesized,
)
from executorch.runtime import Runtime
from expecttest import assert_expected_inline
from torch._export.verifier import SpecViolationError
from torch.export import export
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)


def test_the_values_of_the_other_kinds_stay():
    names = [kind.name for kind in InputKind]
    assert names[-1] == "SYNTHESIZED_CONSTANT"
    assert [kind.value for kind in InputKind] == list(range(1, len(names) + 1))
    assert InputKind["SYNTHESIZED_CONSTANT"] is InputKind.SYNTHESIZED_CONSTANT
    assert InputKind(len(names)) is InputKind.SYNTHESIZED_CONSTANT


def test_a_signature_prints_the_kind():
    assert_expected_inline(
        str(lifted_mask().graph_signature),
        """\

# inputs
p_linear_weight: PARAMETER target='linear.weight'
p_linear_bias: PARAMETER target='linear.bias'
synth_triu: SYNTHESIZED_CONSTANT target='triu_8x8_f32_c9a1f72b'
synth_full: SYNTHESIZED_CONSTANT target='full_1_f32_729938dc'
synth_full_1: SYNTHESIZED_CONSTANT target='full_1_f32_729938dc'
synth_mul: SYNTHESIZED_CONSTANT target='mul_8_i64_fffa4b02'
x: USER_INPUT

# outputs
add_2: USER_OUTPUT
""",
    )


def test_a_program_prints():
    text = str(lifted_mask())
    assert "synth_triu: SYNTHESIZED_CONSTANT target='triu_8x8_f32_c9a1f72b'" in text


def test_a_synthesized_constant_is_a_lifted_tensor_constant():
    signature = lifted_mask().graph_signature
    targets = signature.inputs_to_synthesized_constants
    assert targets == signature.inputs_to_lifted_tensor_constants
    assert signature.synthesized_constants == signature.lifted_tensor_constants
    assert list(targets.values()) == list(signature.synthesized_constants)
    assert not signature.buffers


def test_its_tensor_is_in_constants_and_not_in_state_dict():
    program = lifted_mask()
    assert set(synthesized(program).values()) == set(program.constants)
    assert set(program.state_dict) == {"linear.weight", "linear.bias"}


def test_specs_survive_pickle():
    for spec in lifted_mask().graph_signature.input_specs:
        again = pickle.loads(pickle.dumps(spec))
        assert again == spec
        assert again.kind is spec.kind


def test_descriptions_survive_pickle_and_text():
    program = lifted_mask()
    for node in program.graph.find_nodes(op="placeholder"):
        known = description_of(node)
        assert (known is not None) == (node.name in synthesized(program))
        if known is not None:
            assert pickle.loads(pickle.dumps(known)) == known
            assert type(known).parse(str(known)) == known


@pytest.mark.parametrize("fill", [float("nan"), -0.0, float("inf"), 1 + 2j, True, 7])
def test_descriptions_as_text_keep_the_fill_value(fill):
    node = next(n for n in lifted_mask().graph.nodes if n.name.startswith("synth_full"))
    known = description_of(node)
    values = {**vars(known), "fill_value": fill}
    changed = type(known)(**values)
    assert repr(type(known).parse(str(changed))) == repr(changed)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": 1}', "nonsense"])
def test_text_that_is_no_description_is_refused(text):
    known = description_of(next(iter(_described(lifted_mask()))))
    with pytest.raises(ValueError, match="not the description of a synthesized"):
        type(known).parse(text)


@pytest.mark.parametrize("description", ["arange(2) + 2", {"by": "somebody else"}])
@pytest.mark.parametrize("flag", [False, True])
def test_a_description_of_somebody_else_is_none(description, flag):
    program = lifted_mask()
    (node, *_) = _described(program)
    node.meta["synthesized_constant"] = description
    assert description_of(node) is None
    edge = to_edge_transform_and_lower(
        program, compile_config=EdgeCompileConfig(lift_synthesized_constants=flag)
    )
    method = (
        Runtime.get().load_program(edge.to_executorch().buffer).load_method("forward")
    )
    # The portable cosine is not ATen's.
    torch.testing.assert_close(method.execute(ARGS)[0], expected())


def test_deepcopy_keeps_kinds_descriptions_and_results():
    program = lifted_mask()
    again = copy.deepcopy(program)
    assert synthesized(again) == synthesized(program)
    assert len(_described(again)) == len(synthesized(program))
    assert torch.equal(again.module()(*ARGS), expected())


def test_module_gives_what_eager_gives():
    assert torch.equal(lifted_mask().module()(*ARGS), expected())


def test_a_call_of_the_graph_gets_the_tensors_from_constants():
    program = lifted_mask()
    inputs = program._graph_module_flat_inputs(ARGS, {})
    assert len(inputs) == len(program.graph_signature.input_specs)
    (result,) = program.graph_module(*inputs)
    assert torch.equal(result, expected())


def test_module_holds_a_shared_constant_once():
    program = lifted_mask()
    assert len(synthesized(program)) == len(program.constants) + 1
    module = program.module()
    for target, tensor in program.constants.items():
        assert torch.equal(getattr(module, target), tensor)
    assert not set(module.state_dict()) & set(program.constants)


def test_unflatten_gives_what_eager_gives():
    module = torch.export.unflatten(lifted_mask())
    assert torch.equal(module(*ARGS), expected())


class Nested(torch.nn.Module):
    """One small constant that two submodules use."""

    class Half(torch.nn.Module):
        def forward(self, x):
            return x * torch.full((1,), 0.5)

    def __init__(self) -> None:
        super().__init__()
        self.first = self.Half()
        self.second = self.Half()

    def forward(self, x):
        return self.second(self.first(x) + 1)


def test_unflatten_shares_one_constant_between_submodules():
    program = lift_synthesized_constants(export(Nested(), ARGS))
    assert len(synthesized(program)) == 2
    assert len(set(synthesized(program).values())) == 1
    module = torch.export.unflatten(program)
    assert torch.equal(module(*ARGS), Nested()(*ARGS))


class Branches(torch.nn.Module):
    """A small constant inside and outside of branches."""

    def forward(self, x):
        y = torch.cond(
            x.sum() > 0,
            lambda y: y * torch.ones(1) * 2,
            lambda y: y - torch.ones(1) * 2,
            (x,),
        )
        return (y + torch.ones(1) * 2) * (torch.ones(1) * 2)


def test_constants_of_branches_go_through_everything():
    program = lift_synthesized_constants(export(Branches(), ARGS))
    place = io.BytesIO()
    torch.export.save(program, place)
    place.seek(0)
    loaded = torch.export.load(place)
    assert set(synthesized(loaded).values()) == set(synthesized(program).values())
    for module in (
        program.module(),
        program.run_decompositions().module(),
        torch.export.unflatten(program),
        torch.export.unflatten(loaded),
        loaded.module(),
        copy.deepcopy(loaded).module(),
    ):
        for x in (ARGS[0], ARGS[0] - 100):
            assert torch.equal(module(x), Branches()(x))


def test_validate_wants_the_tensor_in_constants():
    program = lifted_mask()
    program.validate()
    target = program.constants.popitem()[0]
    with pytest.raises(SpecViolationError, match=f"{target} is not in the constants"):
        program.validate()


def test_validate_wants_a_target_and_a_tensor():
    program = lifted_mask()
    specs = program.graph_signature.input_specs
    at = next(i for i, s in enumerate(specs) if s.arg.name in synthesized(program))
    specs[at] = InputSpec(InputKind.SYNTHESIZED_CONSTANT, specs[at].arg, target=None)
    with pytest.raises((SpecViolationError, AttributeError)):
        program.validate()


@pytest.mark.parametrize("table", [None, {}])
def test_run_decompositions_keeps_the_kind_by_target(table):
    program = lifted_mask()
    again = program.run_decompositions(table)
    assert set(synthesized(again).values()) == set(synthesized(program).values())
    assert torch.equal(again.module()(*ARGS), expected())


def test_run_decompositions_keeps_descriptions():
    program = lifted_mask()
    before = {description_of(n).name: description_of(n) for n in _described(program)}
    again = program.run_decompositions()
    after = {description_of(n).name: description_of(n) for n in _described(again)}
    assert after == before
    for node in _described(again):
        assert get_synthesized_constant(again, node) is description_of(node)


def test_run_decompositions_leaves_other_constants_alone():
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.literal = torch.rand(8)

        def forward(self, x):
            return x + self.literal + torch.arange(8)

    program = lift_synthesized_constants(export(Both(), ARGS)).run_decompositions()
    kinds = {s.target: s.kind.name for s in program.graph_signature.input_specs}
    assert kinds.pop("literal") == "CONSTANT_TENSOR"
    assert sorted(kinds.values()) == ["SYNTHESIZED_CONSTANT", "USER_INPUT"]


@pytest.mark.parametrize("strict", [False, True])
def test_reexport_of_module_makes_constant_tensors(strict):
    """The rule: a module is a model like any other, and what it holds is the model's."""
    program = lifted_mask()
    again = export(program.module(), ARGS, strict=strict)
    assert not synthesized(again)
    targets = again.graph_signature.inputs_to_lifted_tensor_constants.values()
    assert set(targets) == set(synthesized(program).values())
    assert torch.equal(again.module()(*ARGS), expected())


def test_a_backward_graph_keeps_the_kind_in_run_decompositions():
    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return (self.linear(x) * torch.arange(8)).sum()

    joint = _export_forward_backward(export(Loss(), ARGS))
    lifted = lift_synthesized_constants(joint)
    assert synthesized(lifted)
    again = lifted.run_decompositions()
    assert synthesized(again) == synthesized(lifted)
    assert len(_described(again)) == len(_described(lifted))
    assert again.graph_signature.backward_signature is not None


def test_lifting_a_second_time_changes_nothing():
    program = lifted_mask()
    before = str(program)
    assert str(lift_synthesized_constants(program)) == before


def test_lifting_after_retracing_gives_each_user_its_placeholder_again():
    program = lifted_mask()
    again = program.run_decompositions()
    assert len(synthesized(again)) == len(program.constants)
    lifted = lift_synthesized_constants(again)
    assert sorted(synthesized(lifted).values()) == sorted(synthesized(program).values())
    assert torch.equal(lifted.module()(*ARGS), expected())


def test_lifting_with_false_changes_nothing():
    program = mask_program()
    before = str(program)
    assert lift_synthesized_constants(program, False) is program
    assert str(program) == before


class Views(torch.nn.Module):
    """Views and writes in place of a program that is not functional."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x):
        grid = torch.arange(16).view(2, 8).to(torch.float32)
        scratch = torch.zeros(8)
        scratch.add_(1)
        scratch[2:4] = 5.0
        view = torch.ones(4, 2).t()
        view.mul_(3)
        self.count.add_(1)
        return x + grid[1] + scratch + view.reshape(-1) + self.count


class Regions(torch.nn.Module):
    """Regions of their own and a branch."""

    def forward(self, x):
        with torch.no_grad():
            a = torch.arange(8) * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = torch.full((8, 8), 0.25) @ x
        c = torch.cond(
            x.sum() > 0,
            lambda y: y + torch.ones(8).cumsum(0),
            lambda y: y - torch.eye(8),
            (x,),
        )
        return a + b.float() + c


@pytest.mark.parametrize("model", [Views, Regions])
@pytest.mark.parametrize("decompose", [False, True])
def test_a_training_program_is_lifted_verified_and_runs(model, decompose):
    eager = model().eval()
    program = export(copy.deepcopy(eager), ARGS)
    if decompose:
        program = program.run_decompositions()
    lifted = lift_synthesized_constants(program, SynthesizedConstantPolicy())
    lifted.validate()
    assert synthesized(lifted)
    module = lifted.module()
    for _ in range(2):  # a constant that something wrote to would differ then
        torch.testing.assert_close(module(*ARGS), eager(*ARGS), rtol=0, atol=0)


def test_the_kind_has_the_name_prefix_of_constants():
    from torch._export.utils import placeholder_prefixes

    assert placeholder_prefixes[InputKind.SYNTHESIZED_CONSTANT] == "c_"


def test_a_signature_made_by_hand_lists_the_kind():
    signature = ExportGraphSignature(
        [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument("a"), "literal"),
            InputSpec(InputKind.SYNTHESIZED_CONSTANT, TensorArgument("b"), "made"),
            InputSpec(InputKind.SYNTHESIZED_CONSTANT, TensorArgument("c"), "made"),
        ],
        [],
    )
    assert signature.lifted_tensor_constants == ("literal", "made", "made")
    assert signature.synthesized_constants == ("made", "made")
    assert signature.inputs_to_synthesized_constants == {"b": "made", "c": "made"}


def _described(program):
    return [n for n in program.graph.find_nodes(op="placeholder") if description_of(n)]
