# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Programs with values that are known and large, as modules that export."""

from typing import Callable, Dict, Optional, Tuple

import torch
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy

Case = Tuple[torch.nn.Module, Tuple[torch.Tensor, ...], SynthesizedConstantPolicy]

DEFAULT = SynthesizedConstantPolicy()
NO_TOTAL = SynthesizedConstantPolicy(max_total_bytes=None)
UNLIMITED = SynthesizedConstantPolicy(
    max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
)


class CausalMask(torch.nn.Module):
    """A causal mask of f32[size, size], and what is made of it.

    Args:
        size: of a side; the mask takes ``4 * size**2`` bytes.
        use: what of the mask the input is added to; all of it by default.
    """

    def __init__(
        self,
        size: int,
        use: Optional[Callable[[torch.Tensor], torch.Tensor]] = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.use = use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (1.0 - torch.ones(self.size, self.size).tril()) * -1e9
        return x + (self.use(mask) if self.use else mask)


class Fills(torch.nn.Module):
    """Adds ``count`` uniform values of f32[1, size, size]."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.count = count
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.count):
            x = x + torch.full((1, self.size, self.size), float(i))
        return x


class RotaryTable(torch.nn.Module):
    """Rotates by a table of f32[positions, width], cosines and sines."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.positions = positions
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(0.0, self.width, 2.0) / self.width
        angles = torch.outer(torch.arange(float(self.positions)), 1e4**-steps)
        angles = torch.cat((angles, angles), -1)
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-right, left), -1) * angles.sin()


class ResizedPositions(torch.nn.Module):
    """Adds a trained table of ``old`` x ``old`` positions, resized to ``new`` x ``new``
    as vision transformers do for images of another size."""

    def __init__(self, old: int, new: int, width: int) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, old * old, width))
        self.old = old
        self.new = new

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = self.table.reshape(1, self.old, self.old, -1).permute(0, 3, 1, 2)
        grid = torch.nn.functional.interpolate(
            grid, size=(self.new, self.new), mode="bicubic", align_corners=False
        )
        return x + grid.permute(0, 2, 3, 1).flatten(1, 2)


def _mask() -> Case:
    return CausalMask(4096), (torch.zeros(4096, 4096),), DEFAULT


def _mask_row() -> Case:
    use = lambda mask: mask[128]  # noqa: E731
    return CausalMask(4096, use), (torch.zeros(4096),), DEFAULT


def _mask_stored() -> Case:
    return CausalMask(4096), (torch.zeros(4096, 4096),), UNLIMITED


def _fills() -> Case:
    return Fills(100, 4096), (torch.zeros(1, 1, 1),), DEFAULT


def _rotary() -> Case:
    return RotaryTable(4096, 64), (torch.zeros(1, 4096, 64),), NO_TOTAL


def _positions() -> Case:
    policy = SynthesizedConstantPolicy(max_total_bytes=None, through_parameters=True)
    return ResizedPositions(14, 20, 192), (torch.zeros(1, 400, 192),), policy


CASES: Dict[str, Callable[[], Case]] = {
    "mask": _mask,
    "mask_row": _mask_row,
    "mask_stored": _mask_stored,
    "fills": _fills,
    "rotary": _rotary,
    "positions": _positions,
}
