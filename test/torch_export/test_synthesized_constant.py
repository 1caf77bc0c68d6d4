# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.
# Owner(s): ["oncall: export"]

"""Programs with synthesized constants, made by hand as a compiler would leave them."""

import copy
import pickle

import torch
from torch._export.verifier import SpecViolationError
from torch.export import export, ExportedProgram, unflatten
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.testing._internal.common_utils import run_tests, TestCase


class Affine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor([2.0, 3.0])
        self.shift = torch.tensor([0.5, 1.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale + self.shift) * self.shift


ARGS = (torch.tensor([1.0, -1.0]),)
DESCRIPTION = "arange(2) + 2"


def program_with_synthesized_constants() -> ExportedProgram:
    """Both constants are synthesized; ``scale`` has a description, and ``shift`` has a
    placeholder for each of its two users."""
    program = export(Affine(), ARGS)
    graph, signature = program.graph, program.graph_signature
    placeholders = {n.name: n for n in graph.find_nodes(op="placeholder")}
    for spec in signature.input_specs:
        if spec.kind == InputKind.CONSTANT_TENSOR:
            spec.kind = InputKind.SYNTHESIZED_CONSTANT
    placeholders["c_scale"].meta["synthesized_constant"] = DESCRIPTION
    shift = placeholders["c_shift"]
    with graph.inserting_after(shift):
        again = graph.placeholder("c_shift_again")
    again.meta.update(shift.meta)
    list(shift.users)[1].replace_input_with(shift, again)
    place = [spec.arg.name for spec in signature.input_specs].index(shift.name)
    spec = InputSpec(
        InputKind.SYNTHESIZED_CONSTANT, TensorArgument(again.name), "shift"
    )
    signature.input_specs.insert(place + 1, spec)
    program.graph_module.recompile()
    program.validate()
    return program


def descriptions(program: ExportedProgram) -> dict:
    """Placeholder name -> description, of those that have one."""
    return {
        node.name: node.meta["synthesized_constant"]
        for node in program.graph.find_nodes(op="placeholder")
        if node.meta.get("synthesized_constant") is not None
    }


class TestSynthesizedConstant(TestCase):
    def test_the_other_kinds_keep_their_values(self):
        self.assertEqual(InputKind.USER_INPUT.value, 1)
        self.assertEqual([kind.value for kind in InputKind], [*range(1, 8)])
        self.assertEqual(list(InputKind)[-1], InputKind.SYNTHESIZED_CONSTANT)

    def test_signature(self):
        program = program_with_synthesized_constants()
        self.assertExpectedInline(
            str(program.graph_signature).strip(),
            """\
# inputs
c_scale: SYNTHESIZED_CONSTANT target='scale'
c_shift: SYNTHESIZED_CONSTANT target='shift'
c_shift_again: SYNTHESIZED_CONSTANT target='shift'
x: USER_INPUT

# outputs
mul_1: USER_OUTPUT""",
        )
        signature = program.graph_signature
        self.assertEqual(signature.synthesized_constants, ("scale", "shift", "shift"))
        self.assertEqual(
            dict(signature.inputs_to_synthesized_constants),
            {"c_scale": "scale", "c_shift": "shift", "c_shift_again": "shift"},
        )

    def test_it_is_a_lifted_tensor_constant(self):
        signature = program_with_synthesized_constants().graph_signature
        self.assertEqual(
            signature.lifted_tensor_constants, signature.synthesized_constants
        )
        self.assertEqual(
            signature.inputs_to_lifted_tensor_constants,
            signature.inputs_to_synthesized_constants,
        )
        self.assertEqual(signature.buffers, ())

    def test_programs_without_it_list_none(self):
        signature = export(Affine(), ARGS).graph_signature
        self.assertEqual(signature.synthesized_constants, ())
        self.assertEqual(dict(signature.inputs_to_synthesized_constants), {})
        self.assertEqual(signature.lifted_tensor_constants, ("scale", "shift"))

    def test_the_verifier_wants_the_tensor_among_the_constants(self):
        program = program_with_synthesized_constants()
        del program.constants["scale"]
        with self.assertRaisesRegex(SpecViolationError, "scale"):
            program.validate()

    def test_module(self):
        program = program_with_synthesized_constants()
        module = program.module()
        self.assertEqual(module(*ARGS), Affine()(*ARGS))
        self.assertEqual(module.shift, Affine().shift)
        self.assertEqual(list(module.state_dict()), [])

    def test_unflatten(self):
        program = program_with_synthesized_constants()
        self.assertEqual(unflatten(program)(*ARGS), Affine()(*ARGS))

    def test_decompositions_keep_kind_and_description(self):
        program = program_with_synthesized_constants().run_decompositions({})
        kinds = {
            spec.target: spec.kind
            for spec in program.graph_signature.input_specs
            if spec.target
        }
        self.assertEqual(
            kinds,
            dict.fromkeys(("scale", "shift"), InputKind.SYNTHESIZED_CONSTANT),
        )
        self.assertEqual(descriptions(program), {"c_scale": DESCRIPTION})
        self.assertEqual(program.module()(*ARGS), Affine()(*ARGS))

    def test_copies(self):
        program = program_with_synthesized_constants()
        copied = copy.deepcopy(program)
        self.assertEqual(str(copied.graph_signature), str(program.graph_signature))
        self.assertEqual(descriptions(copied), descriptions(program))
        for spec in program.graph_signature.input_specs:
            self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)


if __name__ == "__main__":
    run_tests()
