# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="_verify_exported_program_signature",
        anchor="input_spec.kind == InputKind.CONSTANT_TENSOR",
        replacement="""input_spec.kind in (
            InputKind.CONSTANT_TENSOR,
            InputKind.SYNTHESIZED_CONSTANT,
        )""",
        why="The kind is held to what holds for a constant tensor.",
    ),
]
