# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What the emitter does for a synthesized constant."""

from typing import Dict

import torch
from executorch.exir.error import ExportError, ExportErrorType
from executorch.exir.schema import EValue, ExtraTensorInfo, Tensor, TensorDataLocation
from executorch.exir.synthesized_constants.recipe import description_of
from executorch.exir.tensor import TensorSpec
from torch.export import ExportGraphSignature


def restore_dim_order(node: torch.fx.Node, spec: TensorSpec) -> None:
    """Sets the dim order that the pass decided on. Strides of a dimension of size 1
    mean nothing, so the emitter cannot tell ``[1, 1, 1, 1]`` in channels_last from
    the default, but kernels compare dim orders literally."""
    known = description_of(node)
    if known is not None and tuple(spec.shape) == known.stored_shape:
        spec.dim_order = known.dim_order


def name_synthesized_constant(
    signature: ExportGraphSignature,
    node: torch.fx.Node,
    evalue: EValue,
    named: Dict[str, int],
) -> None:
    """Gives the emitted tensor of a synthesized constant its name.

    Args:
        signature: of the method.
        node: the placeholder.
        evalue: what was emitted for it. Modified in-place.
        named: name -> index into the constant buffer, of the whole program. Modified
            in-place.

    Raises:
        ExportError: the name stands for other bytes in another method.
    """
    names = signature.inputs_to_synthesized_constants  # type: ignore[attr-defined]
    name = names.get(node.name)
    tensor = evalue.val
    if name is None or not isinstance(tensor, Tensor) or tensor.extra_tensor_info:
        return  # not one, or stored outside of the program
    tensor.extra_tensor_info = ExtraTensorInfo(
        fully_qualified_name=name, location=TensorDataLocation.SEGMENT
    )
    index = named.setdefault(name, tensor.data_buffer_idx)
    if index != tensor.data_buffer_idx:
        raise ExportError(
            ExportErrorType.VIOLATION_OF_SPEC,
            f"two methods have a synthesized constant {name} with different bytes",
        )
