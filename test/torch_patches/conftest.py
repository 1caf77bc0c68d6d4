# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Processes of their own for tests of what happens at import."""

import os
import subprocess
import sys
import textwrap

import pytest
from sites import output, pip, ROOT

# What a child needs to show that the flag works and what the stock package does.
PRELUDE = """
import sys, warnings

def ours(caught):
    return [str(w.message) for w in caught if "synthesized constants" in str(w.message)]

def lifted():
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    class Model(torch.nn.Module):
        def forward(self, x):
            return x + torch.arange(4)

    config = EdgeCompileConfig(lift_synthesized_constants=True)
    program = torch.export.export(Model(), (torch.ones(4),))
    lowered = to_edge_transform_and_lower(program, compile_config=config)
    signature = lowered.exported_program().graph_signature
    return len(signature.synthesized_constants)

def is_stock():
    import executorch.exir
    from torch.export.graph_signature import ExportGraphSignature, InputKind

    try:
        executorch.exir.EdgeCompileConfig(lift_synthesized_constants=True)
    except TypeError:
        return not (
            hasattr(InputKind, "SYNTHESIZED_CONSTANT")
            or hasattr(ExportGraphSignature, "synthesized_constants")
        )
    return False
"""


@pytest.fixture(name="run", scope="session")
def run_fixture():
    """Returns ``_run``."""
    return _run


@pytest.fixture(name="wheel", scope="session")
def wheel_fixture(tmp_path_factory):
    """Builds the wheel from a copy of the tree: setuptools writes beside setup.py."""
    directory = tmp_path_factory.mktemp("wheel")
    tree = directory / "tree"
    listed = output("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard")
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(directory), str(tree))
    (found,) = directory.glob("*.whl")
    return found


def _run(code, *flags, autoload=True, python=sys.executable, cwd=None, **environment):
    """Runs ``code`` in a new interpreter and returns what it wrote to stdout.

    Args:
        code: follows ``PRELUDE``.
        flags: of the interpreter.
        autoload: whether ``import torch`` loads the packages that extend it.
        python: the interpreter.
        cwd: the directory that it runs in.
        environment: variables that differ from this process's.
    """
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload)),
        **environment,
    }
    child = subprocess.run(
        [python, *flags, "-c", PRELUDE + textwrap.dedent(code)],
        env=variables,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    return child.stdout
