# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Files go back and forth between processes with the patch and without."""

import json
import os
import subprocess
import sys
import textwrap

import torch
from executorch.exir import load, save, to_edge
from executorch.exir.synthesized_constants.test.lifted_programs import (
    expected,
    lifted_mask,
    mask_program,
    merged,
    with_flag,
    zip_records,
)


def run_unpatched(script: str, *args: str) -> str:
    """Runs a script in a process where nothing of ours is loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *args],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_unpatched_torch_loads_the_file_with_constant_tensors(tmp_path):
    path, outputs = str(tmp_path / "p.pt2"), str(tmp_path / "out.pt")
    program = lifted_mask()
    torch.export.save(program, path)
    printed = run_unpatched(
        """
        import sys, torch
        from torch.export.graph_signature import InputKind
        assert not hasattr(InputKind, "SYNTHESIZED_CONSTANT")
        program = torch.export.load(sys.argv[1])
        x = torch.linspace(-2, 2, 64).reshape(8, 8)
        torch.save(program.module()(x), sys.argv[2])
        for spec in program.graph_signature.input_specs:
            if spec.kind == InputKind.CONSTANT_TENSOR:
                print(spec.arg.name, spec.target)
        """,
        path,
        outputs,
    )
    found = dict(line.split() for line in printed.splitlines())
    assert found == merged(program)
    assert torch.equal(torch.load(outputs, weights_only=True), expected())


def test_a_file_of_unpatched_torch_loads_here(tmp_path):
    path = str(tmp_path / "p.pt2")
    run_unpatched(
        """
        import sys, torch
        class Literal(torch.nn.Module):
            def forward(self, x):
                return x + torch.tensor([1.0, 2.0])
        program = torch.export.export(Literal(), (torch.ones(2),))
        torch.export.save(program, sys.argv[1])
        """,
        path,
    )
    program = torch.export.load(path)
    kinds = [spec.kind.name for spec in program.graph_signature.input_specs]
    assert kinds == ["CONSTANT_TENSOR", "USER_INPUT"]
    assert program.module()(torch.ones(2)).tolist() == [2.0, 3.0]


def test_a_file_without_the_kind_has_the_bytes_of_unpatched_torch(tmp_path):
    script = """
        import sys, torch
        if sys.argv[2] == "patched":
            import executorch.exir.synthesized_constants
        class Literal(torch.nn.Module):
            def forward(self, x):
                return x + torch.tensor([1.0, 2.0])
        program = torch.export.export(Literal(), (torch.ones(2),))
        torch.export.save(program, sys.argv[1])
        """
    ours, theirs = (tmp_path / name / "p.pt2" for name in ("a", "b"))
    for path, how in ((ours, "patched"), (theirs, "plain")):
        path.parent.mkdir()
        # The same file name, since the archive repeats it.
        run_unpatched(script, str(path), how)
    assert zip_records(ours) == zip_records(theirs)


def test_unpatched_executorch_loads_the_file_with_constant_tensors(tmp_path):
    path, outputs = str(tmp_path / "p.pt2"), str(tmp_path / "out.pt")
    edge = to_edge(mask_program(), compile_config=with_flag()).exported_program()
    save(edge, path)
    printed = run_unpatched(
        """
        import json, sys, torch
        from executorch.exir import load
        program = load(sys.argv[1])
        x = torch.linspace(-2, 2, 64).reshape(8, 8)
        torch.save(program.module()(x), sys.argv[2])
        print(json.dumps([
            [s.kind.name, s.arg.name, s.target]
            for s in program.graph_signature.input_specs
        ]))
        """,
        path,
        outputs,
    )
    specs = json.loads(printed.splitlines()[-1])
    constants = {name: target for kind, name, target in specs if "CONST" in kind}
    assert constants == merged(edge)
    assert {kind for kind, _, _ in specs} == {
        "PARAMETER",
        "CONSTANT_TENSOR",
        "USER_INPUT",
    }
    assert torch.equal(torch.load(outputs, weights_only=True), expected())


def test_an_edge_file_of_unpatched_executorch_loads_here(tmp_path):
    path = str(tmp_path / "p.pt2")
    run_unpatched(
        """
        import sys, torch
        from executorch.exir import save, to_edge
        class Literal(torch.nn.Module):
            def forward(self, x):
                return x + torch.tensor([1.0, 2.0])
        program = torch.export.export(Literal(), (torch.ones(2),))
        save(to_edge(program).exported_program(), sys.argv[1])
        """,
        path,
    )
    program = load(path)
    kinds = [spec.kind.name for spec in program.graph_signature.input_specs]
    assert kinds == ["CONSTANT_TENSOR", "USER_INPUT"]
    assert program.module()(torch.ones(2)).tolist() == [2.0, 3.0]


def test_module_checks_guards_as_without_the_patch(run):
    # torch.export leaves the check out if a frame's file name contains "executorch", be
    # it that of the environment.
    script = """
        import torch, executorch.exir
        module = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)).module()
        print(hasattr(module, "_guards_fn"))
    """
    assert run(script) == run(script, autoload=False)
