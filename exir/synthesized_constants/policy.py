# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The value of ``EdgeCompileConfig.lift_synthesized_constants``.

Light on purpose: the config module imports it, and it must not import the pass.
"""

import contextlib
import contextvars
import os
from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterator, Optional, TYPE_CHECKING, Union

from executorch.exir.synthesized_constants.placement import Placement

if TYPE_CHECKING:
    from executorch.exir.synthesized_constants.recipe import SynthesizedConstant

#: ``keep``: names of ops (``"aten.full"`` or ``"aten.full.default"``), or a predicate.
Keep = Union[Collection[str], Callable[["SynthesizedConstant"], bool]]

#: ``placement``: one for all, or a function of the description.
PlacementRule = Union[Placement, Callable[["SynthesizedConstant"], Placement]]


@dataclass(frozen=True)
class SynthesizedConstantPolicy:
    """Says which compile-time values become constants.

    A limit of ``None`` is no limit. All sizes are in bytes and are those of the stored
    form, after shrinking.

    Attributes:
        max_bytes: the most that one constant may take.
        max_total_bytes: the most that the constants of one method may take together,
            after de-duplication and less the constants that nothing uses any more.
            ``"auto"``: 1 % of the bytes of the method's parameters and buffers, at
            least 64 KiB.
        max_uniform_bytes: the most that a value with all elements equal may take when
            some user needs it in full. Above, it stays an op: a fill is cheap.
        placement: where constants are put: a ``Placement``, or a function from the
            description of a constant to one. It is asked for the first placeholder of
            each name in a method; GRAPH for a form in which a value might be stored
            means that it is not stored in that form. A scalar that has no op
            (``1 - x``) is stored without a name then.
        keep: what must stay an op, for instance because a backend matches a pattern:
            a collection of op names, or a predicate on the description of the
            constant that would be made.
        through_parameters: whether to fold ops whose operands are parameters and
            buffers too. Never through parameters that get a gradient, nor through
            buffers that any method mutates.

    Raises:
        TypeError, ValueError: at construction; the message names the field.
    """

    max_bytes: Optional[int] = 1 << 20
    max_total_bytes: Union[int, str, None] = "auto"
    max_uniform_bytes: Optional[int] = 4096
    placement: PlacementRule = Placement.PROGRAM
    keep: Optional[Keep] = None
    through_parameters: bool = False

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_uniform_bytes"):
            _check_limit(name, getattr(self, name))
        if self.max_total_bytes != "auto":
            if isinstance(self.max_total_bytes, str):
                raise ValueError(
                    "SynthesizedConstantPolicy.max_total_bytes must be a number of "
                    f"bytes, None or 'auto', got {self.max_total_bytes!r}"
                )
            _check_limit("max_total_bytes", self.max_total_bytes)
        if isinstance(self.keep, str) or not (
            self.keep is None or callable(self.keep) or _all_names(self.keep)
        ):
            raise TypeError(
                "SynthesizedConstantPolicy.keep must be a collection of op names, a "
                f"predicate or None, got {self.keep!r}"
            )
        if not isinstance(self.placement, Placement) and not callable(self.placement):
            raise TypeError(
                "SynthesizedConstantPolicy.placement must be a Placement or a function "
                f"that returns one, got {self.placement!r}"
            )
        if not isinstance(self.through_parameters, bool):
            raise TypeError(
                "SynthesizedConstantPolicy.through_parameters must be a bool, got "
                f"{self.through_parameters!r}"
            )

    def place(self, constant: "SynthesizedConstant") -> Placement:
        """Returns where a constant is put.

        Raises:
            TypeError: the function in ``placement`` returned something else.
        """
        if isinstance(self.placement, Placement):
            return self.placement
        chosen = self.placement(constant)
        if not isinstance(chosen, Placement):
            raise TypeError(
                "SynthesizedConstantPolicy.placement must return a Placement, but for "
                f"{constant.name} it returned {chosen!r}"
            )
        return chosen


def _check_limit(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"SynthesizedConstantPolicy.{name} must be a number of bytes or None, got "
            f"{value!r}"
        )
    if value < 0:
        raise ValueError(
            f"SynthesizedConstantPolicy.{name} must not be negative, got {value}"
        )


def _all_names(keep: Any) -> bool:
    return isinstance(keep, Collection) and all(isinstance(op, str) for op in keep)


Flag = Union[bool, SynthesizedConstantPolicy]

#: ``1`` makes lifting the default of a whole process.
ENVIRONMENT_VARIABLE = "EXECUTORCH_LIFT_SYNTHESIZED_CONSTANTS"

_default: contextvars.ContextVar[Optional[Flag]] = contextvars.ContextVar(
    "default_synthesized_constant_policy", default=None
)


@contextlib.contextmanager
def default_policy(policy: Flag) -> Iterator[None]:
    """Makes ``policy`` the value of ``lift_synthesized_constants`` in every
    ``EdgeCompileConfig`` that is made inside the ``with`` block, in the same thread,
    without saying otherwise. It counts for more than the environment variable.

    Args:
        policy: True is the default policy, False lifts nothing.

    Raises:
        TypeError: ``policy`` is neither a bool nor a policy.
    """
    validate_flag(policy)
    token = _default.set(policy)
    try:
        yield
    finally:
        _default.reset(token)


def default_flag() -> Flag:
    """Returns what a config that says nothing gets.

    Raises:
        ValueError: the environment variable is set to something else than 0 or 1.
    """
    said = _default.get()
    return _flag_of_environment() if said is None else said


def _flag_of_environment() -> bool:
    value = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise ValueError(
            f"the environment variable {ENVIRONMENT_VARIABLE} must be 0 or 1, got "
            f"{value!r}"
        )
    return value == "1"


def validate_flag(flag: Any) -> None:
    """Checks a value of ``EdgeCompileConfig.lift_synthesized_constants``.

    Raises:
        TypeError: it is neither a bool nor a policy.
    """
    if not isinstance(flag, (bool, SynthesizedConstantPolicy)):
        raise TypeError(
            "EdgeCompileConfig.lift_synthesized_constants must be a bool or a "
            f"SynthesizedConstantPolicy, got {flag!r}"
        )


def resolve_flag(flag: Optional[Flag]) -> Optional[SynthesizedConstantPolicy]:
    """Returns the policy that a flag stands for, None for False.

    Args:
        flag: None stands for the default: it is what a config has that was made before
            the field was added to its class.

    Raises:
        TypeError: as ``validate_flag``.
        ValueError: as ``default_flag``.
    """
    if flag is None:
        flag = default_flag()
    validate_flag(flag)
    if isinstance(flag, SynthesizedConstantPolicy):
        return flag
    return SynthesizedConstantPolicy() if flag else None
