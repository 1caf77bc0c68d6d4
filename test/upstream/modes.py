# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The ways in which upstream's tests are run."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence

PLUGINS = Path(__file__).parent

#: Would change what pytest does in a process that a test of ours starts.
_OF_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")


@dataclass(frozen=True)
class Mode:
    """How executorch is set up in a process.

    Attributes:
        name: what the user calls it.
        live: whether ``import torch`` may apply the edits to the process.
        rendered: whether a tree that the edits were written to is used.
        flag: the default of ``EdgeCompileConfig.lift_synthesized_constants``.
        same: whether every test must give what it gives unpatched. If not, the
            differences are those of ``expected_differences.yaml``.
    """

    name: str
    live: bool = False
    rendered: bool = False
    flag: bool = False
    same: bool = True

    @property
    def expected_flag(self) -> Optional[bool]:
        """What a new ``EdgeCompileConfig`` has; None: no such field."""
        return self.flag if self.live or self.rendered else None

    def environment(
        self, base: Mapping[str, str], tree: Optional[Path] = None
    ) -> Dict[str, str]:
        """Returns the variables of a process.

        Args:
            base: those of this process.
            tree: folder of the rendered package ``executorch``.
        """
        paths = [str(tree)] if self.rendered else []
        return {
            **{k: v for k, v in base.items() if k not in _OF_PYTEST},
            "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(self.live)),
            "EXECUTORCH_LIFT_SYNTHESIZED_CONSTANTS": str(int(self.flag)),
            "PYTHONPATH": os.pathsep.join([*paths, str(PLUGINS)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            # Other plug-ins than those that are asked for would record differently.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }


UNPATCHED = Mode("unpatched")
OFF = Mode("off", live=True)
FORCED = Mode("forced", live=True, flag=True, same=False)
RENDERED = Mode("rendered", rendered=True)
RENDERED_FORCED = Mode("rendered-forced", rendered=True, flag=True, same=False)

LIVE: Sequence[Mode] = (UNPATCHED, OFF, FORCED)
MODES = {m.name: m for m in (*LIVE, RENDERED, RENDERED_FORCED)}
