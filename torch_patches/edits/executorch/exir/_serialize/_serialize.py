# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Replace

EDITS = [
    Replace(
        owner="serialize_for_executorch",
        anchor="            named_data=pte_named_data,\n",
        replacement="""            named_data=pte_named_data,
            named_constants=emitter_output.named_constant_map,
""",
        why="Hands the names on to the PTE file.",
    ),
]
