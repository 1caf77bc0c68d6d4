# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What the emitter does for a synthesized constant."""

from dataclasses import dataclass
from typing import Dict, Mapping, Optional

import torch
from executorch.exir.error import ExportError, ExportErrorType
from executorch.exir.schema import EValue, ExtraTensorInfo, Tensor, TensorDataLocation
from executorch.exir.synthesized_constants.layout import lie_alike
from executorch.exir.synthesized_constants.placement import Where
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature


@dataclass(frozen=True)
class Home:
    """Where the emitter put the bytes of a constant.

    Attributes:
        tag: name of the .ptd file; None is the .pte.
        index: of the buffer among those of the file's kind.
    """

    tag: Optional[str]
    index: int


def file_of_constant(node: torch.fx.Node) -> Optional[str]:
    """Returns the name of the file that the constant of a placeholder goes to, None for
    the .pte."""
    known = description_of(node)
    placement = known and known.placement
    if placement and placement.where is Where.EXTERNAL:
        return placement.tag
    return node.meta.get("constant_tag")


def restore_dim_order(node: torch.fx.Node, spec: object) -> None:
    """Sets the dim order that the pass decided on. Strides of a dimension of size 1
    mean nothing, so the emitter cannot tell ``[1, 1, 1, 1]`` in channels_last from
    the default, but kernels compare dim orders literally. Does nothing if other
    dimensions are in another order: somebody laid the tensor out anew since."""
    known = description_of(node)
    if not isinstance(spec, TensorSpec) or known is None:
        return
    wanted, now = known.dim_order, tuple(map(int, spec.dim_order))
    shape = tuple(spec.shape)
    if shape == known.stored_shape and lie_alike(shape, wanted, now):
        spec.dim_order = wanted  # type: ignore[assignment]


def name_synthesized_constant(
    signature: ExportGraphSignature,
    node: torch.fx.Node,
    evalue: EValue,
    homes: Dict[str, Home],
) -> None:
    """Gives the emitted tensor of a synthesized constant its name.

    Args:
        signature: of the method.
        node: the placeholder.
        evalue: what was emitted for it. Modified in-place.
        homes: where the bytes of each name are, in the whole program. Modified
            in-place.

    Raises:
        ExportError: the name stands for other bytes in another method, or for the same
            in another file.
    """
    names = signature.inputs_to_synthesized_constants  # type: ignore[attr-defined]
    name = names.get(node.name)
    tensor = evalue.val
    if name is None or not isinstance(tensor, Tensor) or not _is_named(node):
        return
    if tensor.extra_tensor_info is None:
        tensor.extra_tensor_info = ExtraTensorInfo(
            fully_qualified_name=name, location=TensorDataLocation.SEGMENT
        )
    home = Home(file_of_constant(node), tensor.data_buffer_idx)
    if homes.setdefault(name, home) != home:
        raise _clash(name)


def names_in_program(
    homes: Mapping[str, Home], external: Mapping[str, Mapping[str, int]]
) -> Dict[str, int]:
    """Returns the names of the constants in the .pte, with their indices.

    Args:
        homes: where the bytes of each name are.
        external: the emitter's external constants: file -> name -> index.

    Raises:
        ExportError: a weight in a .ptd has the name of a constant there.
    """
    for name, home in homes.items():
        if home.tag is not None and external[home.tag][name] != home.index:
            raise _clash(name)
    return {name: home.index for name, home in homes.items() if home.tag is None}


def _is_named(node: torch.fx.Node) -> bool:
    known = description_of(node)
    return known is None or known.placement is None or known.placement.named


def _clash(name: str) -> ExportError:
    return ExportError(
        ExportErrorType.VIOLATION_OF_SPEC,
        f"the synthesized constant {name} has the name of other data in another method, "
        "or is in two files; lower all methods in one call, or give the constants "
        "another placement",
    )
