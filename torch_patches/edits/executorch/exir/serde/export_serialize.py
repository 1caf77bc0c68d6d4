# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="GraphModuleSerializer.serialize_input_spec",
        anchor="elif spec.kind == ep.InputKind.CONSTANT_TENSOR:",
        replacement="""elif spec.kind in (
            ep.InputKind.CONSTANT_TENSOR,
            ep.InputKind.SYNTHESIZED_CONSTANT,
        ):""",
        why="It is stored as a constant tensor; the kind is with its user (serialize.py).",
    ),
]
