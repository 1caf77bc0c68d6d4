# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.
# Owner(s): ["oncall: export"]

import io
import json
import zipfile

import torch
from test_synthesized_constant import (
    Affine,
    ARGS,
    DESCRIPTION,
    descriptions,
    program_with_synthesized_constants,
)
from torch._export.serde import schema_check
from torch.export import export, load, save
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.testing._internal.common_utils import run_tests, TestCase


def saved(program) -> io.BytesIO:
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return file


def tensor_constant_records(file: io.BytesIO) -> list:
    """What the file says of the inputs that are constant tensors."""
    with zipfile.ZipFile(file) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("models/model.json"))
        model = json.loads(archive.read(name))
    specs = model["graph_module"]["signature"]["input_specs"]
    return [s["tensor_constant"] for s in specs if "tensor_constant" in s]


class TestSynthesizedConstantSerialization(TestCase):
    def test_kind_and_description_come_back(self):
        program = load(saved(program_with_synthesized_constants()))
        signature = program.graph_signature
        self.assertEqual(
            dict(signature.inputs_to_synthesized_constants),
            {"c_scale": "scale", "c_shift": "shift"},
        )
        self.assertEqual(descriptions(program), {"c_scale": DESCRIPTION})
        self.assertEqual(program.module()(*ARGS), Affine()(*ARGS))

    def test_saving_leaves_the_program_as_it_is(self):
        program = program_with_synthesized_constants()
        before = str(program)
        saved(program)
        self.assertEqual(str(program), before)

    def test_a_loaded_program_can_be_saved_again(self):
        once = saved(program_with_synthesized_constants())
        again = load(saved(load(once)))
        self.assertEqual(descriptions(again), {"c_scale": DESCRIPTION})

    def test_a_constant_with_two_placeholders_may_be_an_output(self):
        class Returned(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.shift = torch.tensor([0.5, 1.0])

            def forward(self, x):
                return x + self.shift, self.shift

        program = export(Returned(), ARGS)
        graph, signature = program.graph, program.graph_signature
        (spec, _) = signature.input_specs
        spec.kind = InputKind.SYNTHESIZED_CONSTANT
        first = next(iter(graph.nodes))
        with graph.inserting_after(first):
            again = graph.placeholder("c_shift_again")
        again.meta.update(first.meta)
        graph.output_node().replace_input_with(first, again)
        argument = TensorArgument(again.name)
        signature.input_specs.insert(1, InputSpec(spec.kind, argument, spec.target))
        signature.output_specs[1].arg = argument
        program.graph_module.recompile()
        program.validate()
        loaded = load(saved(program))
        names = [s.arg.name for s in loaded.graph_signature.output_specs]
        self.assertEqual(names[1], "c_shift")
        self.assertEqual(loaded.module()(*ARGS), Returned()(*ARGS))
        self.assertEqual(signature.output_specs[1].arg.name, again.name)

    def test_what_a_file_says(self):
        records = tensor_constant_records(saved(program_with_synthesized_constants()))
        said = {r["tensor_constant_name"]: r.get("synthesized") for r in records}
        self.assertEqual(said, {"scale": DESCRIPTION, "shift": ""})

    def test_files_without_the_kind_say_nothing(self):
        file = saved(export(Affine(), ARGS))
        records = tensor_constant_records(file)
        self.assertEqual(len(records), 2)
        for record in records:
            self.assertNotIn("synthesized", record)
        file.seek(0)
        kinds = [spec.kind for spec in load(file).graph_signature.input_specs]
        self.assertEqual(
            kinds,
            [InputKind.CONSTANT_TENSOR] * 2 + [InputKind.USER_INPUT],
        )

    def test_the_schema_changes_compatibly(self):
        commit = schema_check.update_schema()
        self.assertEqual(commit.subtractions, {})
        for field in commit.additions.values():
            self.assertEqual(
                field["fields"],
                {"synthesized": {"type": "Optional[str]", "default": "None"}},
            )


if __name__ == "__main__":
    run_tests()
