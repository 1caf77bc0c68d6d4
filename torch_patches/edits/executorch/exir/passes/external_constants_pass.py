# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.tensor import TensorSpec\n",
        text="from executorch.exir.synthesized_constants.recipe import is_synthesized_node\n",
        before=True,
        why="The kind, as far as a graph without signature tells.",
    ),
    Replace(
        owner="external_constants_pass",
        anchor="isinstance(spec, TensorSpec) and spec.const:",
        replacement="""(
                    isinstance(spec, TensorSpec)
                    and spec.const
                    and not is_synthesized_node(node)
                ):""",
        why="By kind: a synthesized constant is closer to code than to data.",
    ),
]
