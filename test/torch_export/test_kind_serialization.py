# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import io
import json

import pytest
import torch
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    lifted_mask,
    mask_program,
    merged,
    synthesized,
    zip_records,
)


@pytest.fixture(params=["file", "buffer"])
def saved(request, tmp_path):
    """A function that saves a program and gives what to load it from."""

    def save(program):
        place = tmp_path / "p.pt2" if request.param == "file" else io.BytesIO()
        torch.export.save(program, place)
        if isinstance(place, io.BytesIO):
            place.seek(0)
        return place

    return save


def test_a_saved_program_comes_back_with_kind_and_results(saved):
    program = lifted_mask()
    again = torch.export.load(saved(program))
    assert synthesized(again) == merged(program)
    assert torch.equal(again.module()(*ARGS), expected())
    again.validate()


def test_saving_leaves_the_program_as_it_was(saved):
    program = lifted_mask()
    before = str(program)
    saved(program)
    assert str(program) == before
    assert len(synthesized(program)) == len(program.constants) + 1


def test_a_saved_program_comes_back_with_descriptions(saved):
    program = lifted_mask()
    known = {n.name: description_of(n) for n in program.graph.nodes}
    again = torch.export.load(saved(program))
    for node in again.graph.find_nodes(op="placeholder"):
        assert description_of(node) == known[node.name]


def test_a_constant_without_description_keeps_its_kind(saved):
    program = lifted_mask()
    for node in program.graph.find_nodes(op="placeholder"):
        node.meta.pop("synthesized_constant", None)
    again = torch.export.load(saved(program))
    assert synthesized(again) == merged(program)


def test_a_loaded_program_can_be_saved_again(saved):
    again = torch.export.load(saved(torch.export.load(saved(lifted_mask()))))
    assert synthesized(again) == merged(lifted_mask())


def test_the_record_of_a_constant_tensor_has_one_more_field(saved, tmp_path):
    def tensor_constants(program):
        path = tmp_path / "p.pt2"
        torch.export.save(program, path)
        (text,) = [b for n, b in zip_records(path).items() if n.endswith("model.json")]
        specs = json.loads(text)["graph_module"]["signature"]["input_specs"]
        return [s["tensor_constant"] for s in specs if "tensor_constant" in s]

    plain = torch.export.load(saved(lifted_mask()))
    for spec in plain.graph_signature.input_specs:
        if spec.kind.name == "SYNTHESIZED_CONSTANT":
            spec.kind = type(spec.kind).CONSTANT_TENSOR
    assert tensor_constants(mask_program()) == []
    records, befores = tensor_constants(lifted_mask()), tensor_constants(plain)
    assert len(records) == len(befores) == len(merged(lifted_mask()))
    for record, before in zip(records, befores):
        assert set(before) == {"arg", "tensor_constant_name"}
        description = json.loads(record.pop("synthesized"))
        assert description["name"] == record["tensor_constant_name"]
        assert record == before


def test_upstreams_check_calls_the_schema_compatible():
    from torch._export.serde import schema_check

    commit = schema_check.update_schema()
    (major, _), message = schema_check.check(commit)
    assert commit.additions == {
        "InputToTensorConstantSpec": {
            "fields": {"synthesized": {"type": "Optional[str]", "default": "None"}}
        }
    }
    assert not commit.subtractions
    assert major == commit.base["SCHEMA_VERSION"][0]
    assert "compatible change" in message
