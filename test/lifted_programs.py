# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Models whose programs have synthesized constants, and how to look at them."""

import zipfile
from typing import Any, Dict, List, Tuple

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchProgramManager
from executorch.exir.synthesized_constants import lift_synthesized_constants
from executorch.runtime import Runtime
from torch.export import export, ExportedProgram


class Mask(torch.nn.Module):
    """A weight, a mask, an ``arange`` and a small constant with two users, which gets
    two placeholders of one target."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((8, 8), float("-inf")).triu(1)
        two = torch.ones(1) * 2
        scores = self.linear(x) + mask
        return torch.cat([scores + two, x * two]).sigmoid() + torch.arange(8) * 3


ARGS: Tuple[torch.Tensor, ...] = (torch.linspace(-2, 2, 64).reshape(8, 8).clone(),)


def mask_program() -> ExportedProgram:
    """The program of ``Mask``, not lifted; its weights are the same at each call."""
    torch.manual_seed(0)
    return export(Mask().eval(), ARGS)


def lifted_mask() -> ExportedProgram:
    """The program of ``Mask``, lifted at ATen level."""
    return lift_synthesized_constants(mask_program())


def expected() -> torch.Tensor:
    """What ``Mask`` gives in eager mode."""
    torch.manual_seed(0)
    with torch.no_grad():
        return Mask().eval()(*ARGS)


def with_flag(**others: Any) -> EdgeCompileConfig:
    """A config with the flag on."""
    others["lift_synthesized_constants"] = True
    return EdgeCompileConfig(**others)


def synthesized(program: ExportedProgram) -> Dict[str, str]:
    """Placeholder name -> target of the constants of the kind."""
    return {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "SYNTHESIZED_CONSTANT"
    }


def run_on_runtime(program: ExecutorchProgramManager, *args: Any) -> List[Any]:
    """Loads a program into the runtime and calls ``forward``."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    return list(method.execute(list(args)))


def merged(program: ExportedProgram) -> Dict[str, str]:
    """Placeholder name -> target as a file has them: one of those with one target."""
    kept: Dict[str, str] = {}
    for name, target in synthesized(program).items():
        kept.setdefault(target, name)
    return {name: target for target, name in kept.items()}


def zip_records(path: Any) -> Dict[str, bytes]:
    """Record name -> bytes of a file of torch.export.save, without its random id."""
    with zipfile.ZipFile(path) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if "serialization_id" not in name
        }
