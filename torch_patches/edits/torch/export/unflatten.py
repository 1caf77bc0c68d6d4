# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="UnflattenedModule.__init__",
        anchor="or s.kind == InputKind.CONSTANT_TENSOR",
        replacement="or s.kind == InputKind.CONSTANT_TENSOR\n                or s.kind == InputKind.SYNTHESIZED_CONSTANT",
        why="The unflattened module holds it as a constant.",
    ),
]
