# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What upstream's passes do to synthesized constants of a program: copy their
placeholders, remove one of several, replace a tensor.

Several placeholders may have one target and thus one tensor. Whoever removes a
placeholder or replaces its tensor must leave the others as they are.

Kinds: a pass that copies a constant, or stores the same values in another layout, keeps
the kind. What a pass computes from synthesized constants (constant propagation, quant
fusion, a backend's folding) is a plain CONSTANT_TENSOR: its name does not follow from
its content, so nothing could be promised to who looks it up by name.
"""

import dataclasses
from typing import Dict, Set

import torch
from executorch.exir.synthesized_constants import op_traits
from executorch.exir.synthesized_constants.recipe import description_of, META_KEY
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node


def is_shared(program: ExportedProgram, node: Node) -> bool:
    """Whether ``node`` is a synthesized constant and another placeholder that is still
    in the graph has the same target."""
    targets = program.graph_signature.inputs_to_synthesized_constants
    return node.name in targets and any(
        other is not node and targets.get(other.name) == targets[node.name]
        for other in program.graph.find_nodes(op="placeholder")
    )


def set_synthesized_tensor(
    program: ExportedProgram, name: str, tensor: torch.Tensor
) -> bool:
    """Replaces the tensor of the synthesized constant whose placeholder is ``name``;
    see ``become_plain``.

    Args:
        program: Modified in-place.
        name: of a placeholder.
        tensor: the new tensor.

    Returns:
        Whether there is such a constant.
    """
    if name not in program.graph_signature.inputs_to_synthesized_constants:
        return False
    (node,) = (n for n in program.graph.find_nodes(op="placeholder") if n.name == name)
    become_plain(program, node)
    program.constants[_spec_of(program, node).target] = tensor
    return True


def all_become_plain(program: ExportedProgram) -> None:
    """Turns all synthesized constants into CONSTANT_TENSORs, for a converter that gets
    the program and knows no other kind.

    Args:
        program: of a delegate. Modified in-place.
    """
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.SYNTHESIZED_CONSTANT:  # type: ignore[attr-defined]
            spec.kind = InputKind.CONSTANT_TENSOR


def become_plain(program: ExportedProgram, node: Node) -> None:
    """Turns a synthesized constant into a CONSTANT_TENSOR with a tensor of its own, for
    a pass that is about to replace the tensor; does nothing to any other node.

    Args:
        program: Modified in-place.
        node: a placeholder.
    """
    if node.name not in program.graph_signature.inputs_to_synthesized_constants:
        return
    spec = _spec_of(program, node)
    old = spec.target
    last = not is_shared(program, node)
    spec.target = _free_target(program, f"{old}_{node.name}")
    spec.kind = InputKind.CONSTANT_TENSOR
    node.meta.pop(META_KEY, None)
    program.constants[spec.target] = program.constants[old]
    if last:
        del program.constants[old]


def duplicate_placeholder(program: ExportedProgram, node: Node) -> Set[str]:
    """Gives each user of a synthesized constant a placeholder of its own. All have the
    same target, so that no tensor is copied.

    Args:
        program: Modified in-place.
        node: a placeholder; its first user keeps it.

    Returns:
        The names of the new placeholders.
    """
    names = {_give_placeholder(program, node, u).name for u in list(node.users)[1:]}
    program.graph_module.recompile()
    program._validate()
    return names


def _give_placeholder(program: ExportedProgram, node: Node, user: Node) -> Node:
    """Gives one user of a constant a new placeholder with the same target."""
    specs = program.graph_signature.input_specs
    spec = _spec_of(program, node)
    with program.graph.inserting_before(node):
        copy = program.graph.placeholder(f"{node.name}_copy")
    copy.target = copy.name
    copy.meta = dict(node.meta)
    user.replace_input_with(node, copy)
    specs.insert(
        specs.index(spec),
        InputSpec(spec.kind, TensorArgument(copy.name), spec.target),
    )
    return copy


def separate_weights(program: ExportedProgram) -> None:
    """Gives each user of a synthesized constant that does more with it than broadcast a
    placeholder and a target of its own, as for weights. Passes of XNNPACK replace the
    weight of one op (to fuse a batch norm, or to make a conv1d a conv2d), name the new
    one after the old, and store it in the layout that this op wants. No tensor is
    copied.

    Args:
        program: of a delegate. Modified in-place.
    """
    targets = program.graph_signature.inputs_to_synthesized_constants
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name not in targets:
            continue
        for user in list(node.users):
            if user.op == "call_function" and not op_traits.broadcasts(user.target):
                alone = len(node.users) == 1
                own = node if alone else _give_placeholder(program, node, user)
                if is_shared(program, own):
                    _give_target(program, own)
    program.graph_module.recompile()


def _give_target(program: ExportedProgram, node: Node) -> None:
    spec = _spec_of(program, node)
    tensor = program.constants[spec.target]
    spec.target = _free_target(program, f"{spec.target}_{node.name}")
    program.constants[spec.target] = tensor


def split_small_constants(program: ExportedProgram, limit: int) -> None:
    """Gives each user of a small synthesized constant a placeholder of its own again,
    as the pass did: retracing and saving leave one per constant.

    Args:
        program: Modified in-place.
        limit: bytes up to which a constant is small.
    """
    targets = program.graph_signature.inputs_to_synthesized_constants
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in targets and len(node.users) > 1:
            tensor = program.constants[targets[node.name]]
            if tensor.numel() * tensor.element_size() <= limit:
                duplicate_placeholder(program, node)


def mark_contiguous(program: ExportedProgram, target: str) -> bool:
    """Makes the graph say that the tensor of a synthesized constant is contiguous, after
    a pass has made it so.

    Args:
        program: Modified in-place.
        target: of the constant.

    Returns:
        Whether there is a synthesized constant of this target.
    """
    names = program.graph_signature.inputs_to_synthesized_constants
    nodes = [
        n
        for n in program.graph.find_nodes(op="placeholder")
        if names.get(n.name) == target
    ]
    for node in nodes:
        value = node.meta["val"]
        node.meta["val"] = value.contiguous()
        known = description_of(node)
        if known is not None:
            node.meta[META_KEY] = dataclasses.replace(
                known, dim_order=tuple(range(value.dim()))
            )
    return bool(nodes)


def unsqueeze_scalar(program: ExportedProgram, node: Node) -> bool:
    """Makes a synthesized constant of rank 0 one of rank 1, which some backends want.

    Args:
        program: Modified in-place.
        node: a placeholder of rank 0.

    Returns:
        Whether it was a synthesized constant.
    """
    target = program.graph_signature.inputs_to_synthesized_constants.get(node.name)
    if target is None:
        return False
    program.constants[target] = program.constants[target].reshape(1)
    node.meta["val"] = node.meta["val"].reshape(1)
    known = description_of(node)
    if known is not None:
        node.meta[META_KEY] = dataclasses.replace(
            known, stored_shape=(1,), dim_order=(0,)
        )
    return True


def synthesized_tensors(program: ExportedProgram) -> Dict[str, torch.Tensor]:
    """Returns placeholder name -> tensor for the synthesized constants."""
    names = program.graph_signature.inputs_to_synthesized_constants
    return {name: program.constants[target] for name, target in names.items()}


def _spec_of(program: ExportedProgram, node: Node) -> InputSpec:
    return next(
        spec
        for spec in program.graph_signature.input_specs
        if spec.arg.name == node.name
    )


def _free_target(program: ExportedProgram, target: str) -> str:
    while target in program.constants or target in program.state_dict:
        target += "_"
    return target
