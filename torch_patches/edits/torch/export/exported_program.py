# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="ExportedProgram._graph_module_flat_inputs",
        anchor="InputKind.CONSTANT_TENSOR,",
        replacement="InputKind.CONSTANT_TENSOR,\n                InputKind.SYNTHESIZED_CONSTANT,",
        why="A call passes the tensor from the constants table.",
    ),
]
