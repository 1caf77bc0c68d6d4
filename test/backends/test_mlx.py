# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""MLX's passes, which need none of what its package looks for when it is imported (the
wheels for Linux have no compiled schema): where it cannot be imported, the packages on
their way are empty here."""

import importlib
import sys
import types
from pathlib import Path
from typing import Iterator, Tuple

import pytest
import torch
from executorch import backends
from executorch.exir import EdgeCompileConfig, to_edge
from torch.export import export


@pytest.fixture(scope="module")
def passes() -> Iterator[types.ModuleType]:
    stubs: Tuple[str, ...] = ()
    try:
        importlib.import_module("executorch.backends.mlx")
    except ImportError:
        stubs = ("mlx", "mlx.builder")
    root = Path(next(iter(backends.__path__)))
    with pytest.MonkeyPatch.context() as patch:
        for stub in stubs:
            package = types.ModuleType(f"executorch.backends.{stub}")
            package.__path__ = [str(root.joinpath(*stub.split(".")))]
            patch.setitem(sys.modules, package.__name__, package)
        yield importlib.import_module("executorch.backends.mlx.passes")


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * (x * scale)


@pytest.mark.parametrize("flag", [False, True])
def test_the_epsilon_of_a_norm_is_found(passes, flag: bool) -> None:
    program = to_edge(
        export(Norm(), (torch.randn(4, 8),)),
        compile_config=EdgeCompileConfig(
            lift_synthesized_constants=flag, _check_ir_validity=False
        ),
    ).exported_program()
    assert passes.FuseRMSNormPass()(program.graph_module).modified
    (norm,) = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.rms_norm.default
    )
    assert norm.args[3] == pytest.approx(1e-6)
