# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What tests of lowering share: lower, emit, run on the stock runtime, equal to eager."""

import copy
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.schema import DelegateCall, ExecutionPlan, KernelCall
from executorch.exir.synthesized_constants import (
    collect_reports,
    Report,
    SynthesizedConstant,
    SynthesizedConstantPolicy,
)
from executorch.runtime import Runtime
from torch.export import export, ExportedProgram
from torch.utils._pytree import tree_leaves

Flag = Union[bool, SynthesizedConstantPolicy]


@dataclass
class Lowered:
    """A program at both stages, and what the pass said about it."""

    edge: EdgeProgramManager
    executorch: ExecutorchProgramManager
    reports: List[Report]

    @property
    def lifted(self) -> List[SynthesizedConstant]:
        """The constants that were made, of all methods."""
        return [c for report in self.reports for c in report.lifted]

    def plan(self, method: str = "forward") -> ExecutionPlan:
        """The emitted method."""
        plans = self.executorch.executorch_program.execution_plan
        return next(plan for plan in plans if plan.name == method)

    def instructions(self, method: str = "forward") -> List[str]:
        """What the emitted method runs, in order: names of ops, ids of delegates."""
        plan = self.plan(method)
        names = []
        for chain in plan.chains:
            for instruction in chain.instructions:
                call = instruction.instr_args
                if isinstance(call, KernelCall):
                    names.append(plan.operators[call.op_index].name)
                elif isinstance(call, DelegateCall):
                    names.append(plan.delegates[call.delegate_index].id)
                else:
                    names.append(type(call).__name__)
        return names

    def run(self, *inputs: Any, method: str = "forward") -> List[Any]:
        """Outputs of the stock runtime, flat; tensors outlive it."""
        pte = bytes(self.executorch.buffer)
        loaded = Runtime.get().load_program(pte).load_method(method)
        assert loaded is not None
        outputs = loaded.execute(tree_leaves(inputs))
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in outputs]


def lower(
    programs: Union[ExportedProgram, Mapping[str, ExportedProgram]],
    flag: Flag = True,
    partitioner: Optional[Sequence[Partitioner]] = None,
) -> Lowered:
    """Lowers and emits one program or several methods; leaves ``programs`` alone."""
    if isinstance(programs, ExportedProgram):
        programs = {"forward": programs}
    with collect_reports() as reports:
        edge = to_edge_transform_and_lower(
            {name: copy.deepcopy(program) for name, program in programs.items()},
            partitioner=list(partitioner) if partitioner else None,
            compile_config=EdgeCompileConfig(
                lift_synthesized_constants=flag  # type: ignore[call-arg]
            ),
        )
        # Emission changes the graphs that it is given.
        executorch = copy.deepcopy(edge).to_executorch()
    return Lowered(edge, executorch, reports)


def assert_runs_like(
    lowered: Lowered,
    expected: Any,
    inputs: Sequence[Any],
    method: str = "forward",
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Asserts that the method gives ``expected`` on the stock runtime.

    Args:
        lowered: the program.
        expected: what eager gives: a tensor or a pytree of them.
        inputs: of the method.
        method: its name.
        rtol: relative tolerance; equal in all bits but NaN by default.
        atol: absolute tolerance.
    """
    actual = lowered.run(*inputs, method=method)
    leaves = tree_leaves(expected)
    assert len(actual) == len(leaves)
    for a, e in zip(actual, leaves):
        torch.testing.assert_close(
            a, e, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
        )


def lower_and_run(
    module: torch.nn.Module,
    inputs: Tuple[Any, ...],
    flag: Flag = True,
    partitioner: Optional[Sequence[Partitioner]] = None,
    dynamic_shapes: Any = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Lowered:
    """Exports ``module``, lowers and emits it, runs it on the stock runtime and asserts
    that the outputs are those of eager.

    Args:
        module: in eager mode.
        inputs: to export with and to run with.
        flag: ``EdgeCompileConfig.lift_synthesized_constants``.
        partitioner: for delegation; none by default.
        dynamic_shapes: as for ``torch.export.export``.
        rtol, atol: tolerances; equal in all bits by default.
    """
    program = export(module, inputs, dynamic_shapes=dynamic_shapes)
    lowered = lower(program, flag, partitioner)
    with torch.no_grad():
        expected = module(*copy.deepcopy(inputs))
    assert_runs_like(lowered, expected, inputs, rtol=rtol, atol=atol)
    return lowered
