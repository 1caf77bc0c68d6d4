# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert

EDITS = [
    Insert(
        owner="",
        anchor="    InputKind.CONSTANT_TENSOR: SchemaInputKind.CONSTANT_TENSOR,\n",
        text="    InputKind.SYNTHESIZED_CONSTANT: SchemaInputKind.CONSTANT_TENSOR,\n",
        live="_INPUT_KIND_MAP[InputKind.SYNTHESIZED_CONSTANT] = SchemaInputKind.CONSTANT_TENSOR",
        why="Its file has no such kind; without an entry the constant would be left out.",
        since=(1, 5),
    ),
]
