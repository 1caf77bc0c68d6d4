# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What a synthesized constant is: the description that travels on its placeholder."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Tuple, Union

import torch
from executorch.exir.synthesized_constants.placement import Placement, Where
from torch.export import ExportedProgram

#: Key of the description in ``placeholder.meta``.
META_KEY = "synthesized_constant"

#: Set on the placeholder of a control-flow op's body that a constant is handed to.
BODY_META_KEY = "synthesized_constant_operand"

#: Longer chains are cut, the last ops kept: the recipe is for reading and matching.
MAX_CHAIN = 64


@dataclass(frozen=True)
class Step:
    """One op of the chain that made the value.

    Attributes:
        op: e.g. ``"aten.arange.start_step"``.
        args: its arguments as text; ``%3`` is the result of step 3, ``%name`` a
            placeholder.
    """

    op: str
    args: str


@dataclass(frozen=True)
class SynthesizedConstant:
    """Describes one constant, for backends, placement functions and reports.

    Attributes:
        name: target (FQN) of the constant, equal for equal constants; "" for a value
            that was not lifted and not computed.
        op: the op that made the value, e.g. ``"aten.full.default"``.
        steps: the chain of ops that leads to it, in order; the last is ``op``. At most
            the last ``MAX_CHAIN`` of them.
        shape: shape of the value in the original graph; a dimension that was not
            static is None.
        dtype: dtype of value and stored form.
        stored_shape: shape of the stored form; it broadcasts to ``shape``.
        dim_order: dim order of the stored form, outermost first.
        value_bytes: size of the value in bytes; None if its shape was not static.
        stored_bytes: size of the stored form in bytes.
        fill_value: the element if all elements are equal in all bits, else None.
        source: line of the model that the op came from, "" if unknown.
        module: path of the module that it came from, "" for the root or if unknown.
        method: name of the method, "" if unknown.
        placement: where it is put; None until that is decided.
    """

    name: str
    op: str
    steps: Tuple[Step, ...]
    shape: Tuple[Optional[int], ...]
    dtype: torch.dtype
    stored_shape: Tuple[int, ...]
    dim_order: Tuple[int, ...]
    value_bytes: Optional[int]
    stored_bytes: int
    fill_value: Union[bool, int, float, complex, None]
    source: str
    module: str
    method: str = ""
    placement: Optional[Placement] = None

    def __str__(self) -> str:
        """The description as text, as saved programs hold it; see ``parse``."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["steps"] = [[step.op, step.args] for step in self.steps]
        values["dtype"] = str(self.dtype).removeprefix("torch.")
        if isinstance(self.fill_value, complex):
            values["fill_value"] = [self.fill_value.real, self.fill_value.imag]
        values["placement"] = self.placement and str(self.placement)
        return json.dumps(values)

    @classmethod
    def parse(cls, text: str) -> "SynthesizedConstant":
        """Returns the description that ``str`` made a text of. Fields that a later
        version may have added are ignored.

        Raises:
            ValueError: the text is not one.
        """
        try:
            values = json.loads(text)
            values["steps"] = tuple(Step(*step) for step in values["steps"])
            values["dtype"] = getattr(torch, values["dtype"])
            for name in ("shape", "stored_shape", "dim_order"):
                values[name] = tuple(values[name])
            if isinstance(values["fill_value"], list):
                values["fill_value"] = complex(*values["fill_value"])
            if values["placement"] is not None:
                values["placement"] = Placement.parse(values["placement"])
            return cls(**{f.name: values[f.name] for f in dataclasses.fields(cls)})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"not the description of a synthesized constant: {text[:80]!r}"
            ) from error


def description_of(node: torch.fx.Node) -> Optional[SynthesizedConstant]:
    """Returns the description that a placeholder carries, None if it carries none, or
    one that somebody else made: torch.export leaves it to who made the constant."""
    known = node.meta.get(META_KEY)
    if isinstance(known, str):
        try:
            known = node.meta[META_KEY] = SynthesizedConstant.parse(known)
        except ValueError:
            return None
    return known if isinstance(known, SynthesizedConstant) else None


def is_synthesized_node(node: torch.fx.Node) -> bool:
    """Whether a placeholder was made by the pass, as far as its meta tells. Where
    there is a signature, ask ``is_synthesized_constant``."""
    return META_KEY in node.meta


def is_constant_node(node: torch.fx.Node) -> bool:
    """Whether a placeholder is a synthesized constant and not one that became an input
    of the method, as far as its meta tells."""
    constant = description_of(node)
    if constant is None:
        return False
    return constant.placement is None or constant.placement.where is not Where.INPUT


def is_bound_to_constant(node: torch.fx.Node) -> bool:
    """Whether a node is the placeholder, in a body of a control-flow op, of a constant
    that is handed in: the emitter binds it to the constant itself."""
    return node.op == "placeholder" and BODY_META_KEY in node.meta


def is_synthesized_constant(
    exported_program: ExportedProgram, node: torch.fx.Node
) -> bool:
    """Whether ``node`` is a placeholder of kind ``SYNTHESIZED_CONSTANT``."""
    names = exported_program.graph_signature.inputs_to_synthesized_constants
    return node.op == "placeholder" and node.name in names


def get_synthesized_constant(
    exported_program: ExportedProgram, node: torch.fx.Node
) -> Optional[SynthesizedConstant]:
    """Returns the description of the constant at ``node``, or None if ``node`` is not
    one. A constant that came from a file without its description gets one without
    history.
    """
    if not is_synthesized_constant(exported_program, node):
        return None
    known = description_of(node)
    if known is not None:
        return known
    target = exported_program.graph_signature.inputs_to_synthesized_constants[node.name]
    return describe_tensor(target, exported_program.constants[target], node)


def placed_constants(program: ExportedProgram) -> Iterator[SynthesizedConstant]:
    """Yields the descriptions of the constants that have their place, also of those
    that have become inputs, once for each placeholder."""
    for node in program.graph.find_nodes(op="placeholder"):
        constant = description_of(node)
        if constant is not None and constant.placement is not None:
            yield constant


def describe_tensor(
    name: str, tensor: torch.Tensor, node: torch.fx.Node
) -> SynthesizedConstant:
    """Describes a constant that is stored as it is: a lifted scalar, for instance."""
    from executorch.exir.synthesized_constants.compact import fill_value
    from executorch.exir.tensor import dim_order_from_stride

    shape = tuple(tensor.shape)
    size = tensor.numel() * tensor.element_size()
    return SynthesizedConstant(
        name=name,
        op="",
        steps=(),
        shape=shape,
        dtype=tensor.dtype,
        stored_shape=shape,
        dim_order=tuple(int(d) for d in dim_order_from_stride(tensor.stride())),  # type: ignore[arg-type]
        value_bytes=size,
        stored_bytes=size,
        fill_value=fill_value(tensor),
        source=source_line(node),
        module=module_path(node),
    )


def source_line(node: torch.fx.Node) -> str:
    """Returns the innermost line of the node's stack trace that names a file, as
    ``file:line in function``; "" without one. Code that was generated while tracing
    (the graph that a backward was made from) is in no file."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    for line in reversed(lines):
        line = line.strip()
        if (
            line.startswith('File "')
            and not line.startswith('File "<')
            and '", line ' in line
        ):
            path, _, rest = line[len('File "') :].partition('", line ')
            return f"{path}:{rest.replace(', in ', ' in ')}"
    return ""


def module_path(node: torch.fx.Node) -> str:
    """Returns the path of the innermost module that the node came from, "" for the
    root."""
    stack: Any = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return str(paths[-1]) if paths else ""
