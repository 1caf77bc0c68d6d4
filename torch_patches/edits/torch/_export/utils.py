# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert

EDITS = [
    Insert(
        owner="",
        anchor='    InputKind.TOKEN: "token",\n',
        text='    InputKind.SYNTHESIZED_CONSTANT: "c_",\n',
        live='placeholder_prefixes[InputKind.SYNTHESIZED_CONSTANT] = "c_"',
        why="Placeholders are named as those of other constants.",
    ),
]
