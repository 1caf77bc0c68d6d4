# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Counts the memory of tensors, exactly and without a look at the machine."""

from typing import Any, Callable, Tuple, TypeVar

from torch.profiler import profile, ProfilerActivity

T = TypeVar("T")


def peak_tensor_bytes(run: Callable[[], T]) -> Tuple[int, T]:
    """Runs something and counts the bytes of CPU tensors.

    What kernels allocate for themselves counts too; what was allocated before does not,
    even if it is freed meanwhile.

    Args:
        run: what to run, on this thread.

    Returns:
        The most bytes that were allocated at once by what ran, and its result.
    """
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        result = run()
    trace: Any = profiler.profiler
    held = most = 0
    for event in trace.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most, result
