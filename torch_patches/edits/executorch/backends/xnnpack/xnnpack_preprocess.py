# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.verification.verifier import EXIREdgeDialectVerifier\n",
        text="""from executorch.exir.synthesized_constants.table import separate_weights
""",
        before=True,
        why="What the delegate does for a synthesized constant.",
    ),
    Replace(
        owner="XnnpackBackend.preprocess",
        anchor="        named_data_store = NamedDataStore()\n",
        replacement="""        named_data_store = NamedDataStore()
        separate_weights(edge_program)
""",
        why="The passes replace weights one op at a time.",
    ),
]
