# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Constants of a whole program: placeholders, signature and constants table."""

import copy
import dataclasses
from typing import AbstractSet, Sequence, Tuple

import torch
from executorch.exir.synthesized_constants.inputs import value_key
from executorch.exir.synthesized_constants.recipe import (
    describe_tensor,
    META_KEY,
    SynthesizedConstant,
)
from executorch.exir.synthesized_constants.rewrite import (
    constant_name,
    inherited_meta,
    placeholder_name,
)
from executorch.exir.synthesized_constants.select import content_digest
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)
from torch.fx import Node


class ProgramHome:
    """Takes in constants for the graph of a program.

    Args:
        program: Modified in-place.
        programs: all methods, it among them; a name stands for the same bytes in all.
    """

    def __init__(
        self, program: ExportedProgram, programs: Sequence[ExportedProgram]
    ) -> None:
        # The tables may be those of the program that this one was made from.
        program._constants = copy.copy(program.constants)
        program._state_dict = copy.copy(program.state_dict)
        self._program = program
        self._programs = programs
        self._fake_mode = _fake_mode(program)
        self._position, self._before = _place(program)

    def add(
        self, tensor: torch.Tensor, constant: SynthesizedConstant, like: Node
    ) -> Tuple[Node, SynthesizedConstant]:
        """See ``rewrite.Home``."""
        name = self._free_name(tensor, constant)
        if name != constant.name:
            constant = dataclasses.replace(constant, name=name)
        program = self._program
        program.constants[name] = tensor
        with program.graph.inserting_before(self._before):
            node = program.graph.placeholder(placeholder_name(constant))
        node.target = node.name  # exir looks inputs up by either
        node.meta = inherited_meta(like)
        node.meta["val"] = self._fake_mode.from_tensor(tensor, static_shapes=True)
        if tensor.numel() == 1:
            # As for the constants that exir makes of scalars: passes that look for the
            # epsilon of a norm, say, ask for the value.
            node.meta["val"].constant = tensor
        node.meta[META_KEY] = constant
        program.graph_signature.input_specs.insert(
            self._position,
            InputSpec(
                InputKind.SYNTHESIZED_CONSTANT,  # type: ignore[attr-defined]
                TensorArgument(node.name),
                target=name,
            ),
        )
        self._position += 1
        return node, constant

    def add_literal(self, tensor: torch.Tensor, like: Node) -> Node:
        """Stores a tensor as it is and returns its placeholder."""
        order = tuple(range(tensor.dim()))
        name = constant_name("aten.lifted", tensor, tuple(tensor.shape), order)
        constant = describe_tensor(name, tensor, like)
        return self.add(tensor.contiguous().clone(), constant, like)[0]

    def _free_name(self, tensor: torch.Tensor, constant: SynthesizedConstant) -> str:
        """The constant's name, or a longer one if other bytes have it."""
        name, digits = constant.name, 8
        while not self._fits(name, tensor):
            digits += 8
            longer = constant_name(
                constant.op,
                tensor,
                constant.stored_shape,
                constant.dim_order,
                digits,
            )
            name = longer if longer != name else name + "_"
        return name

    def _fits(self, name: str, tensor: torch.Tensor) -> bool:
        return not any(
            name in program.state_dict
            or key in program.constants
            and not _same_tensor(program.constants[key], tensor)
            for program in self._programs
            for key in (name, value_key(name))
        )


def _place(program: ExportedProgram) -> Tuple[int, Node]:
    """Where constants go: before the first user input, or after all placeholders if
    there is none. Returns the index among the inputs and the node there."""
    specs = program.graph_signature.input_specs
    position = next(
        (i for i, s in enumerate(specs) if s.kind == InputKind.USER_INPUT),
        len(specs),
    )
    nodes = iter(program.graph.nodes)
    for _ in range(position):
        next(nodes)
    return position, next(nodes)


def remove_unused_constants(
    program: ExportedProgram, except_for: AbstractSet[Node]
) -> None:
    """Removes weights and constants that nothing uses any more.

    Args:
        program: Modified in-place.
        except_for: placeholders that had no user before; they stay.
    """
    signature = program.graph_signature
    kept_targets = {
        spec.target
        for spec in signature.output_specs
        if spec.kind
        in (
            OutputKind.BUFFER_MUTATION,
            OutputKind.GRADIENT_TO_PARAMETER,
            OutputKind.PARAMETER_MUTATION,
        )
    }
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    removable = (
        InputKind.PARAMETER,
        InputKind.BUFFER,
        InputKind.CONSTANT_TENSOR,
        InputKind.SYNTHESIZED_CONSTANT,  # type: ignore[attr-defined]
    )
    removed = []
    for node in list(program.graph.nodes):
        if node.op != "placeholder" or node.users or node in except_for:
            continue
        spec = specs[node.name]
        if spec.kind in removable and spec.target not in kept_targets:
            program.graph.erase_node(node)
            removed.append(spec)
    gone = {id(spec) for spec in removed}
    signature.input_specs[:] = [s for s in signature.input_specs if id(s) not in gone]
    in_use = {spec.target for spec in signature.input_specs}
    for spec in removed:
        if spec.target not in in_use:
            program.state_dict.pop(spec.target, None)
            program.constants.pop(spec.target, None)


def sync_output_names(program: ExportedProgram) -> None:
    """Makes the output specs name the nodes that the graph returns."""
    (outputs,) = program.graph.output_node().args
    specs = program.graph_signature.output_specs
    for node, spec in zip(outputs, specs):  # type: ignore[arg-type]
        if isinstance(node, Node):
            spec.arg.name = node.name


def _fake_mode(program: ExportedProgram) -> FakeTensorMode:
    values = [
        n.meta["val"]
        for n in program.graph.nodes
        if isinstance(n.meta.get("val"), torch.Tensor)
    ]
    return detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)


def _same_tensor(a: object, b: torch.Tensor) -> bool:
    return (
        isinstance(a, torch.Tensor)
        and a.stride() == b.stride()
        and content_digest(a) == content_digest(b)
    )
