# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Constants that are inputs of a method: how they become one, and what they are called.

They come after the inputs of the user's own, as keyword arguments, so that they never
change what a positional argument means: ``program.module()(x, arange_8_i64_3f2a9c10=t)``.
A runtime passes all inputs by position, with these last, in the order in which
``synthesized_inputs`` and the constant method ``__et_synthesized_inputs_<method>`` list
them. The default value stays in the program's constants.
"""

import dataclasses
from typing import Any, Dict, List, Optional

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.utils import _pytree as pytree

#: A constant method of this name returns the names of a method's synthesized inputs.
NAMES_METHOD_PREFIX = "__et_synthesized_inputs_"


def synthesized_inputs(
    program: Any, method: str = "forward"
) -> Dict[str, torch.Tensor]:
    """Returns the constants that are inputs of a method.

    Args:
        program: an ``ExportedProgram``, an ``EdgeProgramManager`` or an
            ``ExecutorchProgramManager``.
        method: which method of a manager.

    Returns:
        Name -> default value, in the order of the inputs; they are the last ones.

    Raises:
        KeyError: there is no such method.
    """
    if not isinstance(program, ExportedProgram):
        program = program.exported_program(method)
    return {
        name: program.constants[value_key(name)]
        for name in _keywords(program)
        if value_key(name) in program.constants
    }


def value_key(name: str) -> str:
    """Key of an input's default value in the table of constants. It is no name that a
    constant has, so that it marks the input: a program keeps it when it is decomposed,
    saved or lowered, where placeholders lose what they carry."""
    return f"__synthesized_input__{name}"


def make_input(program: ExportedProgram, nodes: List[Node]) -> None:
    """Turns a synthesized constant into the last input of a program, or into one that
    is there if an earlier run made it.

    Args:
        program: Modified in-place.
        nodes: all placeholders of the constant; the first becomes the input.
    """
    specs = program.graph_signature.input_specs
    by_name = {spec.arg.name: spec for spec in specs}
    name = by_name[nodes[0].name].target
    assert name is not None
    gone = {node.name for node in nodes}
    specs[:] = [spec for spec in specs if spec.arg.name not in gone]
    input_node = _input_node(program, name)
    if input_node is None:
        input_node, *nodes = nodes
        argument = TensorArgument(input_node.name)
        specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
        _move_to_end(program, input_node)
        _extend_call(program, name, input_node.name)
    for node in nodes:
        node.replace_all_uses_with(input_node)
        program.graph.erase_node(node)
    program.constants[value_key(name)] = program.constants.pop(name)


def _input_node(program: ExportedProgram, name: str) -> Optional[Node]:
    names = list(synthesized_inputs(program))
    if name not in names:
        return None
    placeholders = program.graph.find_nodes(op="placeholder")
    return placeholders[names.index(name) - len(names)]


def _move_to_end(program: ExportedProgram, node: Node) -> None:
    *_, last = program.graph.find_nodes(op="placeholder")
    if last is not node:
        last.append(node)


def _extend_call(program: ExportedProgram, name: str, node_name: str) -> None:
    """Adds a keyword to all that says how the program is called. Other programs may
    hold the same objects, so they are replaced and not changed."""
    root, *rest = program.module_call_graph
    signature = root.signature
    if signature is not None:
        inputs = list(signature.inputs)
        if inputs:  # torch.export leaves them out for the root
            inputs.append(TensorArgument(node_name))
        forward_arg_names = signature.forward_arg_names
        if forward_arg_names is not None:
            forward_arg_names = [*forward_arg_names, name]
        signature = dataclasses.replace(
            signature,
            inputs=inputs,
            in_spec=_with_keyword(signature.in_spec, name),
            forward_arg_names=forward_arg_names,
        )
        root = dataclasses.replace(root, signature=signature)
        program._module_call_graph = [root, *rest]
    if program.example_inputs is not None:
        args, kwargs = program.example_inputs
        program._example_inputs = (args, {**kwargs, name: program.constants[name]})


def _with_keyword(in_spec: pytree.TreeSpec, name: str) -> pytree.TreeSpec:
    args, kwargs = in_spec.children()
    kwargs = pytree.TreeSpec(
        dict,
        [*(kwargs.context or []), name],
        [*kwargs.children(), pytree.treespec_leaf()],
    )
    return pytree.TreeSpec(tuple, None, [args, kwargs])


def _keywords(program: ExportedProgram) -> List[str]:
    in_spec = program.call_spec.in_spec
    if in_spec is None or in_spec.num_children != 2:
        return []
    return list(in_spec.child(1).context or [])
