# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="_create_stateful_graph_module",
        anchor="in ep.graph_signature.lifted_tensor_constants:",
        replacement="in dict.fromkeys(ep.graph_signature.lifted_tensor_constants):",
        why="Several placeholders may have one target; it is one attribute.",
    ),
    Replace(
        owner="_unlift_exported_program_lifted_states",
        anchor="InputKind.CONSTANT_TENSOR,",
        replacement="InputKind.CONSTANT_TENSOR,\n                InputKind.SYNTHESIZED_CONSTANT,",
        why="module() makes an attribute of it.",
    ),
]
