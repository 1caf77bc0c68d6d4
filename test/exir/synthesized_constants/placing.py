# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What tests of placement share: models, lowering with a placement, running with data
files."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.schema import Program
from executorch.exir.synthesized_constants import (
    collect_reports,
    Placement,
    synthesized_inputs,
    SynthesizedConstant,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.policy import PlacementRule
from executorch.extension.pybindings.portable_lib import (
    _load_for_executorch_from_buffer,
)
from torch.export import export, ExportedProgram
from torch.utils._pytree import tree_leaves

X = torch.linspace(-2, 2, 64).reshape(8, 8)


class Positions(torch.nn.Module):
    """A causal mask, positions and a scalar, beside a weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((8, 8), float("-inf")).triu(1)
        scores = self.linear(x) + mask
        return 1 - scores.softmax(-1) + torch.arange(8) * 3.0


class Scaled(torch.nn.Module):
    """The same mask as ``Positions`` in another method, with a keyword."""

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        mask = torch.full((8, 8), float("-inf")).triu(1)
        return (x * scale + mask).softmax(-1) + torch.arange(8) * 5.0


@dataclass
class Placed:
    """A lowered program."""

    edge: EdgeProgramManager
    constants: List[SynthesizedConstant]
    config: Optional[ExecutorchBackendConfig]

    @cached_property
    def program(self) -> ExecutorchProgramManager:
        """What is emitted; that can be done once."""
        return self.edge.to_executorch(self.config)

    @property
    def pte(self) -> bytes:
        return bytes(self.program.buffer)

    @property
    def ptd(self) -> Dict[str, bytes]:
        return {tag: bytes(cord) for tag, cord in self.program._tensor_data.items()}

    def read(self) -> Program:
        """The program as it is in the file, its segments not yet taken apart."""
        from executorch.exir.synthesized_constants.reader import read_program

        return read_program(self.pte)[0]

    def named(self) -> Dict[str, bytes]:
        """The named data of the .pte, as upstream's reader gives it."""
        data = deserialize_pte_binary(self.pte).named_data
        if data is None:
            return {}
        buffers: List[Any] = data.buffers
        return {k: buffers[e.buffer_index] for k, e in data.pte_data.items()}

    def run(
        self, *inputs: Any, method: str = "forward", data: bool = True
    ) -> List[Any]:
        """Outputs of the stock runtime, with the default values of synthesized inputs
        and with the data file if there is one."""
        files = list(self.ptd.values()) if data else []
        module = _load_for_executorch_from_buffer(self.pte, *files)
        defaults = synthesized_inputs(self.program, method).values()
        outputs = module.run_method(method, [*tree_leaves(inputs), *defaults])
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in outputs]


def lower(
    programs: Union[ExportedProgram, Mapping[str, ExportedProgram], torch.nn.Module],
    placement: Optional[PlacementRule] = Placement.PROGRAM,
    delegate: bool = False,
    config: Optional[ExecutorchBackendConfig] = None,
    partitioner: Any = None,
    constant_methods: Optional[Dict[str, Any]] = None,
    **policy: Any,
) -> Placed:
    """Lowers to a .pte; a module is exported with ``X`` first; a placement of None is
    the flag off."""
    if isinstance(programs, torch.nn.Module):
        programs = export(programs, (X,))
    if isinstance(programs, ExportedProgram):
        programs = {"forward": programs}
    flag: Any = placement is not None and SynthesizedConstantPolicy(
        placement=placement, **policy
    )
    if delegate:
        partitioner = [XnnpackPartitioner()]
    with collect_reports() as reports:
        edge = to_edge_transform_and_lower(
            dict(programs),
            partitioner=partitioner,
            compile_config=EdgeCompileConfig(
                lift_synthesized_constants=flag  # type: ignore[call-arg]
            ),
            constant_methods=constant_methods,
        )
    constants = [c for report in reports for c in report.lifted]
    return Placed(edge, constants, config)


def assert_same(actual: Sequence[Any], expected: Any, atol: float = 1e-5) -> None:
    """Asserts that outputs are those of eager."""
    leaves = tree_leaves(expected)
    assert len(actual) == len(leaves)
    for a, e in zip(actual, leaves):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=atol, check_stride=False)


def two_methods() -> Dict[str, ExportedProgram]:
    """``Positions`` and ``Scaled``, which have a mask in common."""
    return {
        "first": export(Positions(), (X,)),
        "second": export(Scaled(), (X,), {"scale": torch.ones(1, 8)}),
    }


def two_expected() -> Tuple[torch.Tensor, torch.Tensor]:
    """What the methods give in eager for ``X`` and a scale of ones."""
    with torch.no_grad():
        return Positions()(X), Scaled()(X, scale=torch.ones(1, 8))
