# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.backend.compile_spec_schema import CompileSpec\n",
        text="""from executorch.exir.synthesized_constants.table import all_become_plain
""",
        why="For the converter.",
    ),
    Replace(
        owner="CoreMLBackend._convert_to_mlmodel",
        anchor="        mlmodel = ct.convert(\n",
        replacement="""        all_become_plain(edge_program)
        mlmodel = ct.convert(
""",
        why="coremltools refuses a kind of input that it does not know.",
    ),
]
