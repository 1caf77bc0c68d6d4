# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Lowers and runs one of the situations in ``cases.py``, and compares with eager."""

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import executorch.kernels.quantized  # noqa: F401
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.schema import KernelCall
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.test.cases import CASES, Spec
from torch.export import export, ExportedProgram
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import OutputKind
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Figures:
    """What an emitted program costs."""

    delegates: int
    kernel_calls: int
    planned_bytes: int
    pte_bytes: int


@dataclass
class Outcome:
    """What came of a situation.

    Attributes:
        stage: how far it got; "done" if all is well.
        error: what went wrong, "" if nothing.
        program: the emitted program, if it got that far.
    """

    stage: str = "export"
    error: str = ""
    program: Optional[ExecutorchProgramManager] = None

    @property
    def figures(self) -> Figures:
        """What the emitted program costs."""
        assert self.program is not None
        plans = self.program.executorch_program.execution_plan
        calls = [i.instr_args for p in plans for c in p.chains for i in c.instructions]
        return Figures(
            sum(len(plan.delegates) for plan in plans),
            sum(isinstance(call, KernelCall) for call in calls),
            sum(sum(plan.non_const_buffer_sizes) for plan in plans),
            len(self.program.buffer),
        )


def run_case(
    name: str,
    xnnpack: bool,
    flag: "bool | SynthesizedConstantPolicy",
    execute: bool = True,
) -> Outcome:
    """Lowers, emits and runs a situation.

    Args:
        name: in ``CASES``.
        xnnpack: whether to delegate to XNNPACK.
        flag: ``EdgeCompileConfig.lift_synthesized_constants``.
        execute: whether to run it and compare with eager.
    """
    torch.manual_seed(0)
    outcome = Outcome()
    try:
        spec = CASES[name][0]()
        eager = {k: copy.deepcopy(m) for k, (m, _, _) in spec.methods.items()}
        programs = _export(spec, eager)
        joint = {k: list(p.graph_signature.output_specs) for k, p in programs.items()}
        outcome.stage = "to_edge_transform_and_lower"
        edge = to_edge_transform_and_lower(
            programs,
            partitioner=[XnnpackPartitioner()] if xnnpack else None,
            generate_etrecord=spec.etrecord,
            compile_config=EdgeCompileConfig(
                **spec.edge_cfg,
                lift_synthesized_constants=flag,  # type: ignore[call-arg]
            ),
        )
        outcome.stage = "to_executorch"
        program = edge.to_executorch(spec.et_cfg() if spec.et_cfg else None)
        outcome.program = program
        if spec.etrecord:
            outcome.stage = "etrecord"
            _save_etrecord(program)
        if execute:
            outcome.stage = "run"
            with tempfile.TemporaryDirectory() as folder:
                call = _loaded(program, spec, Path(folder))
                faults = _compare(name, spec, eager, joint, call)
            outcome.stage = "compare" if faults else "done"
            outcome.error = "; ".join(faults[:3])
        else:
            outcome.stage = "done"
    except Exception as error:
        outcome.error = f"{type(error).__name__}: {error}"
    return outcome


def _export(
    spec: Spec, eager: Dict[str, torch.nn.Module]
) -> Dict[str, ExportedProgram]:
    programs = {}
    for k, (model, inputs, dynamic) in spec.methods.items():
        if spec.quant:
            eager[k] = model = _quantize(copy.deepcopy(model), inputs)
        if spec.joint:
            model.train()
        program = export(model, inputs, dynamic_shapes=dynamic, strict=spec.strict)
        if spec.joint:
            program = _export_forward_backward(program)
        if spec.roundtrip:
            with tempfile.TemporaryDirectory() as folder:
                torch.export.save(program, Path(folder) / "model.pt2")
                program = torch.export.load(Path(folder) / "model.pt2")
        programs[k] = program
    return programs


def _quantize(model: torch.nn.Module, inputs: Tuple[Any, ...]) -> torch.nn.Module:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        get_symmetric_quantization_config,
        XNNPACKQuantizer,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(export(model, inputs).module(), quantizer)
    for _ in range(3):
        prepared(*inputs)
    return convert_pt2e(prepared)


def _save_etrecord(program: ExecutorchProgramManager) -> None:
    from executorch.devtools import parse_etrecord

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "case.etrecord")
        program.get_etrecord().save(path)
        parse_etrecord(path)


def _loaded(
    program: ExecutorchProgramManager, spec: Spec, folder: Path
) -> Callable[[str, Tuple[Any, ...]], Any]:
    from executorch.extension.pybindings.portable_lib import (
        _load_for_executorch_from_buffer,
    )

    buffers = [bytes(program.buffer)]
    if spec.ptd:
        program.write_tensor_data_to_file(str(folder))
        buffers += [path.read_bytes() for path in sorted(folder.glob("*.ptd"))]
    loaded = _load_for_executorch_from_buffer(*buffers)

    def call(method: str, inputs: Tuple[Any, ...]) -> Any:
        assert buffers  # must outlive the module
        return loaded.run_method(method, inputs)

    return call


def _compare(
    name: str,
    spec: Spec,
    eager: Dict[str, torch.nn.Module],
    joint: Dict[str, List[Any]],
    call: Callable[[str, Tuple[Any, ...]], Any],
) -> List[str]:
    faults = []
    previous: List[Any] = []
    for i, (method, inputs) in enumerate(_calls(spec)):
        copies = tree_map(_copy, inputs)
        got = tree_leaves(call(method, tuple(tree_leaves(copies))))
        model = eager[method]
        if spec.nondeterministic:
            if i and all(torch.equal(a, b) for a, b in zip(got, previous)):
                faults.append("two runs gave the same random values")
            previous = [x.clone() for x in got]
            continue
        if spec.joint:
            wanted = _loss_and_gradients(model, inputs, joint[method])
            got = got[: len(wanted)]
        else:
            fresh = model if spec.stateful or spec.quant else copy.deepcopy(model)
            with torch.set_grad_enabled(name == "grad_in_forward"):
                wanted = tree_leaves(fresh(*inputs))
        if len(got) != len(wanted):
            faults.append(f"call {i}: {len(got)} outputs, not {len(wanted)}")
        for j, (a, b) in enumerate(zip(got, wanted)):
            fault = _differ(a, b, spec.atol)
            if fault:
                faults.append(f"call {i}, output {j}: {fault}")
        if spec.reuse_out:
            for x in got:
                if isinstance(x, torch.Tensor) and x.is_floating_point():
                    x.fill_(-77.0)
    return faults


def _copy(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


def _calls(spec: Spec) -> List[Tuple[str, Tuple[Any, ...]]]:
    by_method = {
        k: [(k, inputs), *((k, more) for more in spec.more.get(k, []))]
        for k, (_, inputs, _) in spec.methods.items()
    }
    if spec.interleave:
        calls = [c for together in zip(*by_method.values()) for c in together]
    else:
        calls = [c for calls in by_method.values() for c in calls]
    return calls * 2 if spec.reuse_out else calls


def _loss_and_gradients(
    model: torch.nn.Module, inputs: Tuple[Any, ...], outputs: List[Any]
) -> List[Any]:
    model.train()
    model.zero_grad(set_to_none=True)
    loss = model(*inputs)
    loss.backward()
    parameters = dict(model.named_parameters())
    return [
        (
            parameters[spec.target].grad
            if spec.kind == OutputKind.GRADIENT_TO_PARAMETER
            else loss.detach()
        )
        for spec in outputs
    ]


def _differ(got: Any, wanted: Any, atol: float) -> str:
    if not isinstance(wanted, torch.Tensor):
        return "" if got == wanted else f"{got!r}, not {wanted!r}"
    wanted = wanted.detach()
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if got.numel() and not torch.allclose(
        got.double(), wanted.double(), atol=atol, rtol=1e-3, equal_nan=True
    ):
        return f"off by {(got.double() - wanted.double()).abs().max().item():.3g}"
    return ""
