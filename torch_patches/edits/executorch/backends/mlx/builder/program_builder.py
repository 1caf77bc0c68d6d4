# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="MLXProgramBuilder._make_io_slots",
        anchor="elif kind == InputKind.CONSTANT_TENSOR:",
        replacement="""elif kind in (
                    InputKind.CONSTANT_TENSOR,
                    InputKind.SYNTHESIZED_CONSTANT,
                ):""",
        why="A slot like that of a constant tensor.",
    ),
]
