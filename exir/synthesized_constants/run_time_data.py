# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What a program carries beside its methods so that constants are found at run time:
default values of inputs, and names for the constants that delegates took."""

import hashlib
from typing import (
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TYPE_CHECKING,
)

import torch
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.error import ExportError, ExportErrorType
from executorch.exir.graph_module import get_control_flow_submodules
from executorch.exir.synthesized_constants.inputs import (
    NAMES_METHOD_PREFIX,
    synthesized_inputs,
)
from executorch.exir.synthesized_constants.layout import (
    bytes_in_order,
    emittable_orders,
)
from executorch.exir.synthesized_constants.manifest import (
    DELEGATE,
    MANIFEST_KEY,
    ManifestEntry,
    write_manifest,
)
from executorch.exir.synthesized_constants.names import parse_name
from executorch.exir.synthesized_constants.placement import Placement, Where
from executorch.exir.synthesized_constants.recipe import (
    describe_tensor,
    description_of,
    get_synthesized_constant,
    placed_constants,
    SynthesizedConstant,
)
from executorch.exir.tensor import scalar_type_enum
from executorch.exir.tensor_layout import TensorLayout
from torch.export import ExportedProgram
from torch.fx import GraphModule

if TYPE_CHECKING:
    from executorch.exir._serialize._cord import CordBuffer

#: Bytes. What a tensor's data needs at run time, whichever type it has.
_ALIGNMENT = 16


def add_input_names(
    constant_methods: Optional[Dict[str, object]],
    programs: Mapping[str, ExportedProgram],
) -> Optional[Dict[str, object]]:
    """Returns the constant methods with one more for each method that has synthesized
    inputs: it returns their names in order."""
    names: Dict[str, object] = {
        NAMES_METHOD_PREFIX + method: list(inputs)
        for method, program in programs.items()
        if (inputs := synthesized_inputs(program))
    }
    return {**(constant_methods or {}), **names} if names else constant_methods


def add_named_constants(
    named_data: Optional[NamedDataStoreOutput],
    programs: Mapping[str, ExportedProgram],
) -> Optional[NamedDataStoreOutput]:
    """Returns the named data with the default values of inputs and with the names of
    the constants that delegates took.

    Args:
        named_data: of the delegates. Not modified.
        programs: method name -> program.

    Raises:
        ExportError: other bytes have the name of one of them.
    """
    store = _Store(named_data)
    emitted = {key for program in programs.values() for key in _emitted(program)}
    for program in programs.values():
        for constant, value in input_values(program):
            placement = constant.placement or Placement.INPUT
            if placement.named:
                store.add(constant, value, placement)
        for constant, tensor in delegated_constants(program):
            if (constant.name, _tag(constant)) not in emitted:
                store.add_alias(constant, tensor)
        for constant in placed_constants(program):
            if constant.placement and constant.placement.where is Where.EXTERNAL:
                store.list_external(constant)
    return store.output(named_data)


def _emitted(program: ExportedProgram) -> Iterator[Tuple[str, Optional[str]]]:
    """Yields names and files of the constants that the emitter puts there. The copy that
    a delegate has of one may be in another layout, and needs no name."""
    names = program.graph_signature.inputs_to_synthesized_constants
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in names:
            constant = get_synthesized_constant(program, node)
            assert constant is not None
            yield constant.name, _tag(constant)


def _tag(constant: SynthesizedConstant) -> Optional[str]:
    """The data file that a constant is in, None for the program."""
    return (constant.placement or Placement.PROGRAM).tag


def delegated_constants(
    program: ExportedProgram,
) -> Iterator[Tuple[SynthesizedConstant, torch.Tensor]]:
    """Yields the constants that the delegates of a program took with them."""
    modules: List[GraphModule] = [program.graph_module]
    while modules:
        module = modules.pop()
        modules += [inner for _, inner, _ in get_control_flow_submodules(module)]
        for node in module.graph.find_nodes(
            op="call_function", target=executorch_call_delegate
        ):
            inner_program = getattr(module, node.args[0].target).original_module
            targets = inner_program.graph_signature.inputs_to_synthesized_constants
            for placeholder in inner_program.graph.find_nodes(op="placeholder"):
                if placeholder.name in targets:
                    tensor = inner_program.constants[targets[placeholder.name]]
                    constant = get_synthesized_constant(inner_program, placeholder)
                    assert constant is not None
                    yield constant, tensor


def input_values(
    program: ExportedProgram,
) -> Iterator[Tuple[SynthesizedConstant, torch.Tensor]]:
    """Yields the constants that are inputs of a program, with their default values."""
    placeholders = program.graph.find_nodes(op="placeholder")
    values = synthesized_inputs(program)
    for node, (name, value) in zip(placeholders[-len(values) :], values.items()):
        known = description_of(node)
        yield known or describe_tensor(name, value, node), value


class _Store:
    """Adds to named data without a second copy of bytes that are there."""

    def __init__(self, named_data: Optional[NamedDataStoreOutput]) -> None:
        external = named_data.external_data if named_data else {}
        self._buffers = list(named_data.buffers) if named_data else []
        self._pte = dict(named_data.pte_data) if named_data else {}
        self._external = {tag: dict(entries) for tag, entries in external.items()}
        self._manifest: Dict[str, ManifestEntry] = {}
        self._changed = False

    def output(
        self, unchanged: Optional[NamedDataStoreOutput]
    ) -> Optional[NamedDataStoreOutput]:
        if self._manifest:
            text = write_manifest(self._manifest)
            self._put(self._pte, MANIFEST_KEY, text, 1, None)
        if not self._changed:
            return unchanged
        return NamedDataStoreOutput(self._buffers, self._pte, self._external)

    def add(
        self, constant: SynthesizedConstant, value: torch.Tensor, placement: Placement
    ) -> None:
        """Adds a tensor under the name of a constant, to the file of its placement."""
        tag = placement.tag
        entries = self._pte if tag is None else self._external.setdefault(tag, {})
        data = bytes_in_order(value, constant.dim_order)
        if data:  # the runtime refuses to look up an empty segment
            layout = _layout(value, constant.dim_order)
            self._put(entries, constant.name, data, _ALIGNMENT, layout)
            self._list(constant.name, layout, str(placement))

    def list_external(self, constant: SynthesizedConstant) -> None:
        """Lists a constant whose bytes the emitter puts in a data file."""
        layout = TensorLayout(
            scalar_type_enum(constant.dtype),
            list(constant.stored_shape),
            list(constant.dim_order),
        )
        self._list(constant.name, layout, str(constant.placement))

    def add_alias(self, constant: SynthesizedConstant, tensor: torch.Tensor) -> None:
        """Names the copy that a delegate has of a constant, if it has one in the file of
        its placement. Backends may store it in another dim order, or only as a part of
        something else."""
        placement = constant.placement or Placement.PROGRAM
        if not placement.named:
            return
        tag = _tag(constant)
        entries = self._external.get(tag, {}) if tag else self._pte
        for order in emittable_orders(constant.dim_order):
            data = bytes_in_order(tensor, order)
            twin = self._find(entries, data)
            if twin is not None:
                layout = _layout(tensor, order)
                self._put(entries, constant.name, data, twin.alignment, layout)
                if tag:
                    self._list(constant.name, layout, str(placement))
                elif not _name_tells(constant.name, layout):
                    self._list(constant.name, layout, DELEGATE)
                return

    def _list(self, name: str, layout: TensorLayout, where: str) -> None:
        self._manifest.setdefault(
            name,
            ManifestEntry(
                int(layout.scalar_type),
                tuple(layout.sizes),
                tuple(layout.dim_order),
                where,
            ),
        )

    def _put(
        self,
        entries: Dict[str, DataEntry],
        key: str,
        data: bytes,
        alignment: int,
        layout: Optional[TensorLayout],
    ) -> None:
        for others in (self._pte, *self._external.values()):
            if key in others and not self._holds(others[key], data):
                raise ExportError(
                    ExportErrorType.VIOLATION_OF_SPEC,
                    f"the synthesized constant {key} has the name of other named data; "
                    "give that another key, or leave the constant's name out with "
                    "Placement.program(named=False)",
                )
        if key in entries:
            return
        self._changed = True
        twin = self._find(entries, data)
        if twin is None:
            self._buffers.append(data)
        index = twin.buffer_index if twin else len(self._buffers) - 1
        entries[key] = DataEntry(index, alignment, layout)

    def _find(self, entries: Dict[str, DataEntry], data: bytes) -> Optional[DataEntry]:
        return next((e for e in entries.values() if self._holds(e, data)), None)

    def _holds(self, entry: DataEntry, data: bytes) -> bool:
        buffer = self._buffers[entry.buffer_index]
        return len(buffer) == len(data) and digest(buffer) == digest(data)


def _name_tells(name: str, layout: TensorLayout) -> bool:
    """Whether a reader of the name needs nothing else: it assumes the default order."""
    parts = parse_name(name)
    default = list(range(len(layout.sizes)))
    return (
        parts is not None
        and list(parts.shape) == layout.sizes
        and layout.dim_order == default
    )


def digest(buffer: "CordBuffer") -> bytes:
    """Returns the SHA-256 of bytes in memory or on disk."""
    if isinstance(buffer, bytes):
        return hashlib.sha256(buffer).digest()
    return buffer.sha256()


def _layout(tensor: torch.Tensor, dim_order: Sequence[int]) -> TensorLayout:
    return TensorLayout(
        scalar_type_enum(tensor.dtype), list(tensor.shape), list(dim_order)
    )
