# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Commits and patch files, made beside the user's work tree and index, which stay as
they are."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence

from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering.render import Step

# Where git's own variables point is not where it is told to work here.
_OWN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIFF_OPTS",
)

# Patches are the same, and git am can apply them, whatever the user's configuration is.
_FORMAT = (
    "-c",
    "diff.mnemonicPrefix=false",
    "format-patch",
    "--no-signature",
    "--zero-commit",
    "--no-stat",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--unified=3",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-attach",
    "--no-thread",
    "--no-base",
    "--no-cover-letter",
    "--no-signoff",
    "--subject-prefix=PATCH",
    "--numbered",
    "--suffix=.patch",
    f"-O{os.devnull}",
)


class Repository:
    """A git repository.

    Args:
        root: its directory.

    Raises:
        PatchError: by every method, with the message of git, if git fails.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(
        self, *args: str, stdin: bytes = b"", env: Optional[Mapping[str, str]] = None
    ) -> bytes:
        environment = {k: v for k, v in os.environ.items() if k not in _OWN}
        environment["LC_ALL"] = "C"  # messages are read here
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *args],
                input=stdin,
                env={**environment, **(env or {})},
                capture_output=True,
            )
        except FileNotFoundError:
            raise PatchError("git was not found") from None
        if done.returncode:
            message = done.stderr.decode(errors="replace").strip()
            raise PatchError(f"git {args[0]} fails in {self.root}: {message}")
        return done.stdout

    def line(self, *args: str, **options: Mapping[str, str]) -> str:
        made = os.fsdecode(self.run(*args, **options))  # type: ignore[arg-type]
        return made.removesuffix("\n")

    def find(self, name: str) -> Optional[str]:
        """Returns the hash of a revision, or of a file as ``revision:path``, or None if
        there is none."""
        found = self.run("cat-file", "--batch-check", stdin=f"{name}\n".encode())
        first, second, *_ = found.decode().split()
        return None if second in ("missing", "ambiguous") else first

    def branch(self, name: str) -> Optional[str]:
        """Returns the commit that a branch points to, or None if there is no branch."""
        return self.find(f"refs/heads/{name}")

    def commit(self, base: str, steps: Sequence[Step], seconds: int) -> str:
        """Makes a commit of each step.

        Args:
            base: the commit that the first one follows.
            steps: what to commit.
            seconds: time of the commits, since the epoch. With the same time, base and
                author they have the same hashes.

        Returns:
            The hash of the last commit, which no branch points to yet.
        """
        with tempfile.TemporaryDirectory() as directory:
            index = {"GIT_INDEX_FILE": os.path.join(directory, "index")}
            self.run("read-tree", base, env=index)
            for step in steps:
                self._add(step.files, index)
                tree = self.line("write-tree", env=index)
                base = self._commit_tree(tree, base, step.patch.message, seconds)
        return base

    def commit_directory(self, message: str, seconds: int) -> str:
        """Makes a first commit of all files in the directory, and returns its hash."""
        as_they_are = ("core.autocrlf=false", f"core.attributesFile={os.devnull}")
        options = [part for setting in as_they_are for part in ("-c", setting)]
        self.run(*options, "add", "--all", "--force")
        return self._commit_tree(self.line("write-tree"), None, message, seconds)

    def _commit_tree(
        self, tree: str, parent: Optional[str], message: str, seconds: int
    ) -> str:
        when = f"{seconds} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        parents = ["-p", parent] if parent else []
        made = self.run(
            "commit-tree", tree, *parents, stdin=message.encode(), env=dates
        )
        return made.decode().strip()

    def _add(self, files: Mapping[str, bytes], index: Mapping[str, str]) -> None:
        """Puts files into the index; those that are there keep their modes."""
        with tempfile.TemporaryDirectory() as directory:
            names = [os.path.join(directory, str(n)) for n in range(len(files))]
            for name, content in zip(names, files.values()):
                Path(name).write_bytes(content)
            made = self.run(
                "hash-object",
                "-w",
                "--no-filters",
                "--stdin-paths",
                stdin="\n".join(names).encode(),
            )
        staged = self.run("ls-files", "--stage", "-z", "--", *files, env=index).decode()
        modes = {
            path: entry.split()[0]
            for entry, _, path in (e.partition("\t") for e in staged.split("\0") if e)
        }
        entries = "".join(
            f"{modes.get(path, '100644')} {blob}\t{path}\n"
            for path, blob in zip(files, made.decode().split())
        )
        self.run("update-index", "--index-info", stdin=entries.encode(), env=index)

    def set_branch(self, name: str, commit: str) -> None:
        """Makes a branch, which must not exist yet."""
        self.run("check-ref-format", "--branch", name)
        self.run("update-ref", f"refs/heads/{name}", commit, "0" * len(commit))

    def delete_branch(self, name: str) -> None:
        self.run("update-ref", "-d", f"refs/heads/{name}")

    def seconds(self, commit: str) -> int:
        """Returns when a commit was made, in seconds since the epoch."""
        head, _, _ = self.run("cat-file", "commit", commit).partition(b"\n\n")
        (line,) = (li for li in head.split(b"\n") if li.startswith(b"committer "))
        return int(line.split()[-2])

    def format_patches(self, base: str, tip: str) -> Dict[str, bytes]:
        """Returns file name -> content, for ``git am``."""
        with tempfile.TemporaryDirectory() as directory:
            self.run(*_FORMAT, f"--output-directory={directory}", f"{base}..{tip}")
            return {p.name: p.read_bytes() for p in sorted(Path(directory).iterdir())}


class Revision:
    """The files of a commit, as a ``Tree``."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self.repository = repository
        self.commit = commit
        listed = os.fsdecode(repository.run("ls-tree", "-r", "-z", commit))
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        # path -> hash of the file
        self._blobs = {path: entry.split()[2] for entry, _, path in entries}
        self._read: Dict[str, bytes] = {}

    def read(self, path: str) -> Optional[bytes]:
        if path not in self._blobs:
            return None
        if path not in self._read:
            blob = self._blobs[path]
            self._read[path] = self.repository.run("cat-file", "blob", blob)
        return self._read[path]


def is_checkout(root: Path) -> bool:
    """Whether ``root`` is the top of a git work tree with a commit.

    Raises:
        PatchError: git refuses to say, for the owner of the files, for instance.
    """
    repository = Repository(root)
    try:
        top = repository.line("rev-parse", "--show-toplevel")
    except PatchError as error:
        if "not a git repository" in str(error):
            return False
        raise
    return Path(top).resolve() == root.resolve() and bool(repository.find("HEAD"))


def scratch_repository(directory: Path) -> Repository:
    """Makes a repository for patches of what is under no version control."""
    repository = Repository(directory)
    repository.run("init", "--quiet")
    known = repository.line("config", "--list", "--name-only").split()
    for key in ("user.name", "user.email"):
        if key not in known:
            repository.run("config", key, "unknown")
    return repository
