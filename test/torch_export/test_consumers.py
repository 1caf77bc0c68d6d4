# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import shutil

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.synthesized_constants.test.lifted_programs import (
    ARGS,
    expected,
    lifted_mask,
    synthesized,
)


def test_onnx_makes_initializers_of_the_constants():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    program = lifted_mask()
    exported = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    initializers = exported.model.graph.initializers
    for name, target in synthesized(program).items():
        found = [initializers[key] for key in (name, target) if key in initializers]
        assert found, f"{name} is no initializer"
        value = torch.from_numpy(found[0].const_value.numpy())
        assert torch.equal(value, program.constants[target])
    assert [value.name for value in exported.model.graph.inputs] == ["x"]
    kinds = {
        value.metadata_props.get("pkg.torch.export.graph_signature.InputSpec.kind")
        for value in initializers.values()
    }
    assert "SYNTHESIZED_CONSTANT" in kinds


def test_onnx_computes_what_eager_computes():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    exported = torch.onnx.export(lifted_mask(), dynamo=True, verbose=False)
    session = reference.ReferenceEvaluator(exported.model_proto)
    (result,) = session.run(None, {"x": ARGS[0].numpy()})
    torch.testing.assert_close(
        torch.from_numpy(result), expected(), rtol=1e-5, atol=1e-5
    )


def test_aotinductor_packages_the_program(tmp_path):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("AOTInductor needs a C++ compiler")
    path = torch._inductor.aoti_compile_and_package(
        lifted_mask(),
        package_path=str(tmp_path / "p.pt2"),
        inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"},
    )
    result = torch._inductor.aoti_load_package(path)(*ARGS)
    torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)


def test_torch_compile_takes_the_module():
    module = torch.compile(lifted_mask().module(), backend="eager")
    assert torch.equal(module(*ARGS), expected())


def test_an_aten_program_lifted_before_is_lowered_by_a_stock_config():
    edge = to_edge(lifted_mask()).exported_program()
    assert synthesized(edge)
    assert torch.equal(edge.module()(*ARGS), expected())
