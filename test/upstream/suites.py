# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Which of the tests that executorch ships are run, and which share a process."""

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class Suite:
    """Tests that share a process.

    Attributes:
        name: names the files of results.
        paths: files, folders or test ids below the package ``executorch``.
    """

    name: str
    paths: Tuple[str, ...]

    @staticmethod
    def of(path: str) -> "Suite":
        """The suite of one path."""
        return Suite(path.strip("/").replace("/", "."), (path.strip("/"),))


#: All that a lowering goes through, and what reads its results. Test modules register
#: ops under the same names, and pass only if others of other folders are not around;
#: a process for each folder keeps them apart. Left out: backends whose compilers or
#: run times the wheel does not have, and examples, which need checkpoints.
ALL = tuple(
    Suite.of(path)
    for path in (
        "backends/native/test",
        "backends/test/harness/tests",
        "backends/transforms/test",
        "backends/xnnpack/test/fragments",
        "backends/xnnpack/test/ops",
        "backends/xnnpack/test/passes",
        "backends/xnnpack/test/quantizer",
        "backends/xnnpack/test/recipes",
        "backends/xnnpack/test/serialization",
        "backends/xnnpack/test/test_xnnpack_partitioner.py",
        "devtools/backend_debug",
        "devtools/bundled_program",
        "devtools/etdump",
        "devtools/etrecord",
        "devtools/inspector",
        "devtools/intermediate_output_tap",
        "devtools/pte_tool",
        "devtools/size_analysis_tool",
        "devtools/visualization",
        "exir/_serialize",
        "exir/backend",
        "exir/dialects/backend",
        "exir/dialects/edge",
        "exir/dialects/test",
        "exir/emit",
        "exir/native",
        "exir/operator",
        "exir/program",
        "exir/tests",
        "exir/verification",
        "export/tests",
        "extension/flat_tensor/test",
        "extension/pybindings/test",
        "extension/training",
        "kernels/quantized/test",
        "runtime/test",
        "schema/test",
    )
)

#: What ``make test`` runs.
COMPACT = Suite(
    "compact",
    (
        "exir/_serialize",
        "exir/backend/test/test_backend_with_named_data_map.py",
        "exir/program",
        "exir/tests/test_joint_graph.py",
        "exir/verification",
    ),
)
