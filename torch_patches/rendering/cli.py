# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""``python -m executorch.torch_patches render``: the edits and the new files, in source
trees of pytorch and executorch."""

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, NoReturn, Optional, Sequence

from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering.git import (
    is_checkout,
    Repository,
    Revision,
    scratch_repository,
)
from executorch.torch_patches.rendering.render import merge, render, Step
from executorch.torch_patches.rendering.series import EXECUTORCH, new_files, PYTORCH
from executorch.torch_patches.rendering.tree import (
    Directory,
    interruptible,
    Tree,
    write,
)

PROG = "python -m executorch.torch_patches"

# A file by which a tree is known.
_MARKERS = {PYTORCH: "torch/export/__init__.py", EXECUTORCH: "exir/__init__.py"}


@dataclass(frozen=True)
class _Job:
    """What there is to do for one repository."""

    repository: str
    root: Path
    tree: Tree
    steps: Sequence[Step]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs one command.

    Args:
        argv: the arguments; those of the process by default.

    Returns:
        Exit code: 0, or 1 after an error, or 130 after an interrupt. What was wrong is
        on stderr.

    Raises:
        SystemExit: with code 2 for wrong arguments, with 0 after ``--help``.
    """
    args = _parse(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of directories
    try:
        with interruptible():
            _run(args)
        return 0
    except KeyboardInterrupt:
        print("error: interrupted, nothing was changed", file=sys.stderr)
        return 130
    except PatchError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
    return 1


def _run(args: argparse.Namespace) -> None:
    jobs = _plan(args)
    for job in jobs:
        _describe(job)
    if args.branch is not None:
        _make_branches(jobs, args.branch)
    elif args.patches is not None:
        _write_patches(jobs, args.patches)
    elif not args.check:
        write({job.root / p: c for job in jobs for p, c in merge(job.steps).items()})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def _parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _Parser(prog=PROG, description="The changes as patches for upstream.")
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser(
        "render",
        help="make the changes in source trees",
        description="Makes the changes in source trees of pytorch and executorch: in "
        "their files, unless --branch, --patches or --check is given. If something does "
        "not fit, nothing is changed; a second run changes nothing.",
    )
    command.add_argument("--executorch", metavar="DIR", help="the directory with exir/")
    command.add_argument("--pytorch", metavar="DIR", help="the directory with torch/")
    how = command.add_mutually_exclusive_group()
    how.add_argument(
        "--check", action="store_true", help="only say whether the changes would fit"
    )
    how.add_argument(
        "--branch",
        metavar="NAME",
        help="commit them on a new branch from HEAD; work tree and index stay as they "
        "are",
    )
    how.add_argument(
        "--patches",
        metavar="DIR",
        help="write files for git am --keep-non-patch to DIR/pytorch and DIR/executorch",
    )
    command.add_argument(
        "--replace",
        action="store_true",
        help="replace new files that are there in another form, by an older rendering or "
        "changed since",
    )
    command.add_argument(
        "--source",
        metavar="DIR",
        default=str(Path(__file__).parents[2]),
        help="a checkout of this project. Needed for the tests where the package is "
        "installed from a wheel",
    )
    args = parser.parse_args(argv)
    for name in ("executorch", "pytorch", "patches", "source"):
        if getattr(args, name) == "":
            command.error(f"--{name} is empty")
        elif getattr(args, name) is not None:
            setattr(args, name, Path(getattr(args, name)))
    if not (args.executorch or args.pytorch):
        command.error("give --executorch, --pytorch or both")
    return args


def _plan(args: argparse.Namespace) -> List[_Job]:
    """Computes everything. What does not fit is told for both repositories at once."""
    new = new_files(args.source)
    if not new["tests"] and args.executorch:
        print(f"without tests: {args.source} has none (see --source)")
    jobs, problems = [], []
    for repository, root in ((PYTORCH, args.pytorch), (EXECUTORCH, args.executorch)):
        if root is None:
            continue
        marker = _MARKERS[repository]
        if not (root / marker).is_file():
            raise PatchError(f"{root} has no {marker}: it is no tree of {repository}")
        try:
            committed = args.branch is not None or args.patches is not None
            tree = _tree(root, committed)
            steps = render(tree, repository, new, replace=args.replace)
            jobs.append(_Job(repository, root, tree, steps))
        except PatchError as error:
            problems.append(f"{root}\n{error}")
    if problems:
        raise PatchError("it does not fit, nothing was changed\n" + "\n".join(problems))
    return jobs


def _tree(root: Path, committed: bool) -> Tree:
    """Commits and patches are made of what is committed, if anything is."""
    if committed and is_checkout(root):
        repository = Repository(root)
        return Revision(repository, repository.line("rev-parse", "HEAD"))
    return Directory(root)


def _describe(job: _Job) -> None:
    if not job.steps:
        print(f"{job.repository}: nothing to do, {job.root} has all changes")
    for count, step in enumerate(job.steps, 1):
        number = f"{count}/{len(job.steps)}"
        files = f"{len(step.files)} files"
        print(f"{job.repository} {number} {step.patch.subject}: {files}")


def _make_branches(jobs: Sequence[_Job], name: str) -> None:
    tips = {}
    for job in jobs:
        if not isinstance(job.tree, Revision):
            raise PatchError(f"{job.root} is no git checkout; leave out --branch")
        if not job.steps:
            continue
        repository, base = job.tree.repository, job.tree.commit
        tip = repository.commit(base, job.steps, repository.seconds(base))
        known = repository.branch(name)
        if known == tip:
            print(f"{job.repository}: branch {name} is there already")
        elif known:
            raise PatchError(f"{job.root} has another branch {name}")
        else:
            tips[repository] = tip
    with contextlib.ExitStack() as undo:
        for repository, tip in tips.items():
            repository.set_branch(name, tip)
            undo.callback(repository.delete_branch, name)
        undo.pop_all()


def _write_patches(jobs: Sequence[_Job], directory: Path) -> None:
    files: Dict[Path, bytes] = {}
    for job in jobs:
        if job.steps:
            folder = directory / job.repository
            patches = {folder / n: c for n, c in _format_patches(job).items()}
            others = set(folder.glob("*")) - patches.keys()
            if others:
                raise PatchError(f"there are other files in {folder}")
            files.update(patches)
    write(files)


def _format_patches(job: _Job) -> Dict[str, bytes]:
    if isinstance(job.tree, Revision):
        repository, base = job.tree.repository, job.tree.commit
        tip = repository.commit(base, job.steps, repository.seconds(base))
        return repository.format_patches(base, tip)
    changed = [path for path in merge(job.steps) if (job.root / path).exists()]
    times = [int(os.stat(job.root / path).st_mtime) for path in changed]
    seconds = max(times, default=0)
    with tempfile.TemporaryDirectory() as scratch:
        for path in changed:
            copy = Path(scratch, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(job.root / path, copy)
        repository = scratch_repository(Path(scratch))
        base = repository.commit_directory("The files before the series", seconds)
        tip = repository.commit(base, job.steps, seconds)
        return repository.format_patches(base, tip)
