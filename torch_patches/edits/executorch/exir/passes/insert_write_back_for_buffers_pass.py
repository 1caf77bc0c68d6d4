# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="insert_write_back_for_buffers_pass",
        anchor="InputKind.CONSTANT_TENSOR,",
        replacement="InputKind.CONSTANT_TENSOR,\n            InputKind.SYNTHESIZED_CONSTANT,",
        why="A lifted input like the other constants.",
    ),
]
