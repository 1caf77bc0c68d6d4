# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The pass: analyse, select, rewrite, report.

Runs over an exported program in the ATen or the edge dialect.
"""

import dataclasses
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.analyse import (
    analyse,
    Analysis,
    is_plain_tensor,
    Keep,
    literal,
)
from executorch.exir.synthesized_constants.compact import CompactValue
from executorch.exir.synthesized_constants.place import place_constants
from executorch.exir.synthesized_constants.placement import Placement
from executorch.exir.synthesized_constants.policy import (
    resolve_flag,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.program_home import (
    ProgramHome,
    remove_unused_constants,
    sync_output_names,
)
from executorch.exir.synthesized_constants.regions import lift_bodies
from executorch.exir.synthesized_constants.report import Entry, publish, Report
from executorch.exir.synthesized_constants.rewrite import (
    describe,
    Home,
    PER_USER_BYTES,
    rewrite,
)
from executorch.exir.synthesized_constants.select import (
    Dims,
    exceeds,
    Forbids,
    Limits,
    select,
)
from executorch.exir.synthesized_constants.table import split_small_constants
from torch._export.verifier import _verify_exported_program_signature
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

#: max_total_bytes="auto"
_AUTO_FRACTION = 0.01
_AUTO_LEAST_BYTES = 64 << 10


def lift_synthesized_constants(
    exported_program: ExportedProgram,
    policy: Union[bool, SynthesizedConstantPolicy] = True,
) -> ExportedProgram:
    """Turns tensors that the graph makes although they are known into constants.

    Args:
        exported_program: in the ATen or the edge dialect. Modified in-place.
        policy: what to lift; True is the default policy, False lifts nothing.

    Returns:
        The same program, verified.

    Raises:
        TypeError: ``policy`` is neither a bool nor a policy.
    """
    chosen = resolve_flag(policy)
    if chosen is None:
        return exported_program
    _lift(exported_program, chosen, "", [exported_program])
    exported_program._validate()
    return exported_program


def lift_by_config(
    programs: Dict[str, ExportedProgram], flag: Union[bool, SynthesizedConstantPolicy]
) -> None:
    """Runs the pass over all methods of a program, if the flag says so.

    Args:
        programs: method name -> program. Modified in-place.
        flag: ``EdgeCompileConfig.lift_synthesized_constants``.
    """
    policy = resolve_flag(flag)
    if policy is None:
        return
    for method, program in programs.items():
        _lift(program, policy, method, list(programs.values()))
        # The graph is verified by the EdgeProgramManager that the program goes into:
        # running the verifier here too would take most of the pass's time.
        _verify_exported_program_signature(program)


def lift_attributes_by_config(
    exported_program: ExportedProgram, flag: Union[bool, SynthesizedConstantPolicy]
) -> None:
    """Turns tensors that the graph holds as attributes (scalars of ``1 - x``, made by a
    pass) into synthesized constants, if the flag says so.

    Args:
        exported_program: Modified in-place.
        flag: ``EdgeCompileConfig.lift_synthesized_constants``.
    """
    if resolve_flag(flag) is not None:
        _lift_attributes(exported_program)


def _lift_attributes(exported_program: ExportedProgram) -> None:
    graph_module = exported_program.graph_module
    home = ProgramHome(exported_program, [exported_program])
    changed = False
    for node in list(exported_program.graph.nodes):
        if node.op != "get_attr":
            continue
        tensor = getattr(graph_module, str(node.target), None)
        if not is_plain_tensor(tensor):
            continue
        assert isinstance(tensor, torch.Tensor)
        node.replace_all_uses_with(home.add_literal(tensor.detach(), node))
        exported_program.graph.erase_node(node)
        changed = True
    if changed:
        graph_module.recompile()


def mutated_buffers(programs: Any) -> Set[str]:
    """Returns the targets of the buffers that any of the programs mutates."""
    return {
        target
        for program in programs
        for target in program.graph_signature.buffers_to_mutate.values()
    }


def _lift(
    program: ExportedProgram,
    policy: SynthesizedConstantPolicy,
    method: str,
    programs: List[ExportedProgram],
) -> None:
    _lift_attributes(program)
    split_small_constants(program, PER_USER_BYTES)
    graph_module = program.graph_module
    literals = _literals(program, policy, mutated_buffers(programs))
    keep = _keep(policy)
    analysis = analyse(graph_module, literals, keep, policy.max_bytes)
    analysis.written_back = _written_back(program)
    home = ProgramHome(program, programs)
    report = Report(method)
    limits = Limits(
        policy.max_bytes,
        policy.max_uniform_bytes,
        _total_limit(program, policy),
        _stays_in_graph(policy, method),
    )
    unused_before = {n for n in program.graph.nodes if not n.users}
    limits = lift_bodies(graph_module, analysis, keep, limits, home, report)
    lift_region(graph_module, analysis, limits, home, report)
    sync_output_names(program)
    remove_unused_constants(program, except_for=unused_before)
    report.place(place_constants(program, policy, method, programs))
    graph_module.recompile()
    publish(report)


def _written_back(program: ExportedProgram) -> FrozenSet[int]:
    kinds = (
        OutputKind.BUFFER_MUTATION,
        OutputKind.PARAMETER_MUTATION,
        OutputKind.USER_INPUT_MUTATION,
    )
    specs = program.graph_signature.output_specs
    return frozenset(i for i, spec in enumerate(specs) if spec.kind in kinds)


def lift_region(
    graph_module: GraphModule,
    analysis: Analysis,
    limits: Limits,
    home: Home,
    report: Report,
) -> int:
    """Selects and rewrites in one analysed graph.

    Returns:
        The bytes stored.
    """
    graph = graph_module.graph
    plan = select(graph, analysis, limits)
    skipped = [
        _skipped(analysis, n, limits)
        for n in plan.computed
        if analysis.known[n].single and any(u not in analysis.known for u in n.users)
    ]
    done = rewrite(graph, analysis, plan, home)
    entries = [Entry(c, True, uses=len(nodes)) for c, nodes in done.placeholders]
    report.entries += entries + skipped
    report.folded += done.folded
    return sum({c.name: c.stored_bytes for c, _ in done.placeholders}.values())


_OVER_LIMIT = "storing it would exceed a limit, or saves nothing"
_IN_GRAPH = "its placement is GRAPH"


def _skipped(analysis: Analysis, node: Node, limits: Limits) -> Entry:
    fact = analysis.known[node]
    # A value that is not uniform is not computed again just to be reported.
    value = analysis.value(node) if fact.uniform else None
    constant = describe(analysis, node, fact.data_shape, value)
    in_graph = (
        limits.forbids is not None
        and not exceeds(constant.stored_bytes, limits.constant)
        and limits.forbids(analysis, node, fact.data_shape)
    )
    return Entry(constant, False, _IN_GRAPH if in_graph else _OVER_LIMIT)


def _stays_in_graph(
    policy: SynthesizedConstantPolicy, method: str
) -> Optional[Forbids]:
    """Returns what tells the forms that must not be stored, if there are any."""
    if policy.placement == Placement.GRAPH:
        return lambda analysis, node, dims: True
    if isinstance(policy.placement, Placement):
        return None
    answers: Dict[Tuple[Node, Dims], bool] = {}

    def forbids(analysis: Analysis, node: Node, dims: Dims) -> bool:
        if (node, dims) not in answers:
            constant = dataclasses.replace(
                describe(analysis, node, dims, analysis.value(node)), method=method
            )
            answers[node, dims] = policy.place(constant) == Placement.GRAPH
        return answers[node, dims]

    return forbids


def _literals(
    program: ExportedProgram, policy: SynthesizedConstantPolicy, mutated: Set[str]
) -> Dict[Node, CompactValue]:
    """Placeholders whose tensors may be folded through."""
    signature = program.graph_signature
    graded = {
        spec.target
        for spec in signature.output_specs
        if spec.kind == OutputKind.GRADIENT_TO_PARAMETER
    }
    kinds = {spec.arg.name: spec for spec in signature.input_specs}
    found = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = kinds[node.name]
        if spec.kind in (
            InputKind.CONSTANT_TENSOR,
            InputKind.SYNTHESIZED_CONSTANT,  # type: ignore[attr-defined]
        ):
            tensor: Any = program.constants.get(spec.target)
        elif not policy.through_parameters:
            continue
        elif spec.kind == InputKind.PARAMETER and spec.target not in graded:
            tensor = program.state_dict.get(spec.target)
        elif spec.kind == InputKind.BUFFER and spec.target not in mutated:
            tensor = program.state_dict.get(
                spec.target, program.constants.get(spec.target)
            )
        else:
            continue
        if is_plain_tensor(tensor):
            found[node] = literal(tensor)
    return found


def _keep(policy: SynthesizedConstantPolicy) -> Keep:
    keep = policy.keep
    if keep is None:
        return lambda node, value: False
    if not callable(keep):
        names = frozenset(keep)

        def by_name(node: Node, value: Optional[CompactValue]) -> bool:
            name = op_traits.op_name(node.target)
            return name in names or name.rpartition(".")[0] in names

        return by_name

    def by_predicate(node: Node, value: Optional[CompactValue]) -> bool:
        dims = value.data.shape if value is not None else node.meta["val"].shape
        return bool(keep(describe(Analysis(), node, tuple(dims), value)))

    return by_predicate


def _total_limit(
    program: ExportedProgram, policy: SynthesizedConstantPolicy
) -> Optional[int]:
    if policy.max_total_bytes != "auto":
        assert not isinstance(policy.max_total_bytes, str)
        return policy.max_total_bytes
    unsaved = program.graph_signature.non_persistent_buffers
    tensors = [
        *program.state_dict.values(),
        *(t for name, t in program.constants.items() if name in unsaved),
    ]
    weights = sum(
        t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor)
    )
    return max(int(weights * _AUTO_FRACTION), _AUTO_LEAST_BYTES)
