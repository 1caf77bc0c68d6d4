# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Fourth step: puts each constant of a program where the policy says.

Placing is apart from lifting: it treats the scalars of ``1 - x``, which were never
selected, as it treats all others. It decides once for a name in a method; a constant
that has its place keeps it when the pass runs again.
"""

import dataclasses
import re
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from executorch.exir.synthesized_constants.inputs import make_input
from executorch.exir.synthesized_constants.placement import Placement, Where
from executorch.exir.synthesized_constants.policy import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.recipe import (
    describe_tensor,
    description_of,
    META_KEY,
    placed_constants,
    SynthesizedConstant,
)
from torch.export import ExportedProgram
from torch.fx import Node

#: Key in meta["custom"] under which a backend that can leave constants in a file (XNNPACK)
#: looks for the file's name.
_DELEGATE_TAG = "delegate_constant_tag"


def place_constants(
    program: ExportedProgram,
    policy: SynthesizedConstantPolicy,
    method: str,
    programs: Iterable[ExportedProgram],
) -> Dict[str, SynthesizedConstant]:
    """Decides on the place of the constants that have none yet, and puts them there.

    Args:
        program: Modified in-place.
        policy: says where.
        method: the program's name, for the descriptions.
        programs: all methods, whose names must not clash in a file.

    Returns:
        Name that a constant had -> its description now.

    Raises:
        TypeError: as ``SynthesizedConstantPolicy.place``.
    """
    done: Dict[str, SynthesizedConstant] = {}
    settled = {c.name: c.placement for c in placed_constants(program)}
    files = _files_of_names(other for other in programs if other is not program)
    for name, nodes in _unplaced(program).items():
        constant = description_of(nodes[0]) or describe_tensor(
            name, program.constants[name], nodes[0]
        )
        constant = dataclasses.replace(constant, method=method)
        placement = settled.get(name) or policy.place(constant)
        if placement.where is Where.GRAPH:  # there is no op that could stay
            placement = Placement.program(named=False)
        new_name = _free_name(name, placement, files)
        constant = dataclasses.replace(constant, name=new_name, placement=placement)
        _rename(program, name, new_name, nodes)
        for node in nodes:
            known = description_of(node) or constant
            node.meta[META_KEY] = dataclasses.replace(
                known, name=new_name, method=method, placement=placement
            )
        if placement.where is Where.INPUT:
            make_input(program, nodes)
        done[name] = constant
    _tell_delegates(program)
    return done


def _unplaced(program: ExportedProgram) -> Dict[str, List[Node]]:
    """Placeholders without a place, by the target of the constant."""
    targets = program.graph_signature.inputs_to_synthesized_constants
    found: Dict[str, List[Node]] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in targets:
            constant = description_of(node)
            if constant is None or constant.placement is None:
                found.setdefault(targets[node.name], []).append(node)
    return found


def _tell_delegates(program: ExportedProgram) -> None:
    """Repeats the name of the file where backends look for it. It is done at every run,
    since a saved program does not keep it there. The emitter needs no help."""
    targets = program.graph_signature.inputs_to_synthesized_constants
    for node in program.graph.find_nodes(op="placeholder"):
        constant = description_of(node) if node.name in targets else None
        placement = constant and constant.placement
        if placement and placement.where is Where.EXTERNAL:
            custom = node.meta.get("custom") or {}  # shared with other nodes
            node.meta["custom"] = {**custom, _DELEGATE_TAG: placement.tag}


# --- Names --------------------------------------------------------------------------


#: Name of a data file in a tuple of its own; ``(None,)`` is the .pte.
File = Tuple[Optional[str]]


def _free_name(name: str, placement: Placement, files: Mapping[str, File]) -> str:
    """The name, or a longer one if another method has it in another file: the runtime
    refuses to open a program and data files that share a key."""
    file = _file_of(placement)
    if file is None:
        return name
    while files.get(name, file) != file:
        name += "_" + re.sub(r"\W", "_", file[0] or "program")
    return name


def _files_of_names(programs: Iterable[ExportedProgram]) -> Dict[str, File]:
    return {
        constant.name: file
        for program in programs
        for constant in placed_constants(program)
        if constant.placement and (file := _file_of(constant.placement))
    }


def _file_of(placement: Placement) -> Optional[File]:
    """The file in which the name is a key, None if it is a key in no file."""
    return (placement.tag,) if placement.named else None


def _rename(
    program: ExportedProgram, name: str, new_name: str, nodes: List[Node]
) -> None:
    if new_name == name:
        return
    renamed = {node.name for node in nodes}
    for spec in program.graph_signature.input_specs:
        if spec.arg.name in renamed:
            spec.target = new_name
    program.constants[new_name] = program.constants.pop(name)
