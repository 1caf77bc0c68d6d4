# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The same from a shell: lower a saved program, look into a .pte file."""

import argparse
import contextlib
import json
import logging
import math
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Callable,
    Dict,
    Iterator,
    List,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import torch
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.synthesized_constants.compact import fill_value
from executorch.exir.synthesized_constants.measure import compare, measure
from executorch.exir.synthesized_constants.policy import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.reader import (
    InvalidProgramError,
    read_synthesized_constants,
)
from executorch.exir.synthesized_constants.report import collect_reports, Report
from tabulate import tabulate
from torch.export import ExportedProgram

PROG = "python -m executorch.exir.synthesized_constants"


class CommandError(Exception):
    """A command cannot be carried out; the message is one line for the user."""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        Exit code: 0, or 1 after an error, which is one line on stderr.

    Raises:
        SystemExit: with code 2 for wrong arguments, with 0 after ``--help``.
    """
    args = _parser().parse_args(argv)
    try:
        with _quiet(not args.verbose):
            args.command(args)
        return 0
    except CommandError as error:
        return _fail(str(error), args.verbose)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", args.verbose)


def _fail(message: str, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROG, description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    lower = commands.add_parser("lower", help="lower a program to a .pte file")
    lower.set_defaults(command=_lower)
    lower.add_argument("program", type=Path, help="a .pt2 file of torch.export.save")
    lower.add_argument("-o", "--output", type=Path, required=True, metavar="PTE")
    lower.add_argument(
        "--backend",
        choices=sorted(_BACKENDS),
        default="xnnpack",
        help="default: xnnpack",
    )
    lower.add_argument(
        "--backward",
        action="store_true",
        help="make the backward graph of the program, whose first output is a loss",
    )
    _add_policy(lower)
    inspect = commands.add_parser("inspect", help="list the named constants of a .pte")
    inspect.set_defaults(command=_inspect)
    inspect.add_argument("program", type=Path, help="a .pte file")
    inspect.add_argument("--json", action="store_true", help="print a JSON list")
    for command in (lower, inspect):
        command.add_argument(
            "-v", "--verbose", action="store_true", help="show logs and tracebacks"
        )
    return parser


def _add_policy(parser: argparse.ArgumentParser) -> None:
    policy = SynthesizedConstantPolicy()
    group = parser.add_argument_group("policy", "see SynthesizedConstantPolicy")
    for name, words in (
        ("max_bytes", ("none",)),
        ("max_total_bytes", ("auto", "none")),
        ("max_uniform_bytes", ("none",)),
    ):
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=_limit(words),
            default=getattr(policy, name),
            metavar="|".join(("N", *words)),
            help="default: %(default)s",
        )
    group.add_argument(
        "--keep",
        action="append",
        metavar="OP",
        help="an op that must stay in the graph, e.g. aten.full; may be repeated",
    )
    group.add_argument("--through-parameters", action="store_true")


def _limit(words: Tuple[str, ...]) -> Callable[[str], Union[int, str, None]]:
    """Parser of a number of bytes or one of ``words``."""

    def parse(text: str) -> Union[int, str, None]:
        if text in words:
            return None if text == "none" else text
        if text.isascii() and text.isdigit():
            return int(text)
        expected = ", ".join(("a number of bytes", *words))
        raise argparse.ArgumentTypeError(f"{text!r} is none of: {expected}")

    return parse


def _xnnpack() -> List[Partitioner]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackPartitioner,
    )

    return [XnnpackPartitioner()]


_BACKENDS: Dict[str, Callable[[], List[Partitioner]]] = {
    "none": list,
    "xnnpack": _xnnpack,
}


def _lower(args: argparse.Namespace) -> None:
    if not args.output.absolute().parent.is_dir():
        raise CommandError(f"the directory of {args.output} does not exist")
    policy = SynthesizedConstantPolicy(
        max_bytes=args.max_bytes,
        max_total_bytes=args.max_total_bytes,
        max_uniform_bytes=args.max_uniform_bytes,
        keep=args.keep,
        through_parameters=args.through_parameters,
    )
    before, _ = _lower_file(args, False)
    after, reports = _lower_file(args, policy)
    with open(args.output, "wb") as file:
        after.write_to_file(file)
    for report in reports:
        print(report, end="\n\n")
    print(compare(measure(before), measure(after)))


def _lower_file(
    args: argparse.Namespace, flag: Union[bool, SynthesizedConstantPolicy]
) -> Tuple[ExecutorchProgramManager, List[Report]]:
    """Loads the program anew, because lowering may change it, and lowers it."""
    program = _load(args.program)
    try:
        if args.backward:
            from torch.export.experimental import _export_forward_backward

            program = _export_forward_backward(program)
        with collect_reports() as reports:
            edge = to_edge_transform_and_lower(
                program,
                partitioner=_BACKENDS[args.backend](),
                compile_config=EdgeCompileConfig(
                    lift_synthesized_constants=flag  # type: ignore[call-arg]
                ),
            )
            return edge.to_executorch(), reports
    except Exception as error:
        raise CommandError(
            f"{args.program} cannot be lowered{' with the flag off' if not flag else ''}"
            f" (-v shows where): {_one_line(error)}"
        ) from error


def _load(path: Path) -> ExportedProgram:
    with open(path, "rb"):
        pass  # the loader has an error of its own for a file that cannot be read
    try:
        return torch.export.load(path)
    except Exception as error:
        raise CommandError(
            f"{path} is not a program of torch.export.save, or a damaged one: "
            + _one_line(error)
        ) from error


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@dataclass(frozen=True)
class _Row:
    """One constant in the listing."""

    name: str
    shape: List[int]
    dtype: str
    bytes: int
    fill: Union[bool, int, float, str, None]


def _inspect(args: argparse.Namespace) -> None:
    try:
        constants = read_synthesized_constants(args.program)
    except InvalidProgramError as error:
        raise CommandError(f"{args.program}: {error}") from error
    rows = [_describe(name, tensor) for name, tensor in constants.items()]
    if args.json:
        print(json.dumps([vars(row) for row in rows], indent=2))
    elif rows:
        print(
            tabulate(
                [
                    ("" if v is None else str(v) for v in vars(row).values())
                    for row in rows
                ],
                headers=list(vars(rows[0])),
                disable_numparse=True,
            )
        )
    else:
        print("no named constants")


def _describe(name: str, tensor: torch.Tensor) -> _Row:
    return _Row(
        name=name,
        shape=list(tensor.shape),
        dtype=str(tensor.dtype).replace("torch.", ""),
        bytes=tensor.nbytes,
        fill=_fill(tensor),
    )


def _fill(tensor: torch.Tensor) -> Union[bool, int, float, str, None]:
    """The element if all are equal; as text where JSON has no number for it."""
    fill = fill_value(tensor)
    if isinstance(fill, complex):
        return str(fill)
    if isinstance(fill, float) and not math.isfinite(fill):
        return str(fill)
    return fill


@contextlib.contextmanager
def _quiet(quiet: bool) -> Iterator[None]:
    """Hides what upstream says below an error, if ``quiet``."""
    if not quiet:
        yield
        return
    with warnings.catch_warnings():
        for category in (FutureWarning, DeprecationWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(disabled)
