# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Environments of their own, into which pip installs wheels, without a network."""

import importlib.metadata
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Set, Tuple

ROOT = Path(__file__).resolve().parents[2]
OURS = "executorch-synthesized-constants"
NEW = ("executorch/exir/synthesized_constants/", "executorch/torch_patches/")

# What executorch needs to lower a program; there is no runtime in these environments.
_SUFFIXES = (".py", ".pyi", ".fbs", ".yaml")
_TESTS = {"test", "tests", "examples"}


def output(*command: str) -> str:
    """Runs a command and returns what it wrote to stdout; fails with its stderr."""
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    return child.stdout


def pip(*arguments: str, python: str = sys.executable) -> str:
    quiet = ("-q", "--disable-pip-version-check", "--no-input")
    return output(python, "-m", "pip", *quiet, *arguments)


class Site:
    """A virtual environment with all that is installed beside this test, except for
    executorch and this project."""

    def __init__(self, directory: Path) -> None:
        output(sys.executable, "-m", "venv", "--without-pip", str(directory))
        self.python = str(directory / "bin" / "python")
        (self.packages,) = directory.glob("lib/python*/site-packages")
        for entry in _site_entries():
            (self.packages / entry.name).symlink_to(entry)

    def install(self, wheel: Path, *flags: str) -> None:
        """Installs a wheel with pip, which finds what it requires in the site."""
        flags += ("--no-index", "--no-compile")
        pip("install", *flags, str(wheel), python=self.python)

    def uninstall(self, name: str) -> None:
        pip("uninstall", "-y", name, python=self.python)

    def files(self) -> Set[str]:
        """Returns all files, without the byte code of executorch."""
        return {p for p in self._paths() if not (self.packages / p).is_dir()}

    def directories(self) -> Set[str]:
        return {p for p in self._paths() if (self.packages / p).is_dir()}

    def _paths(self) -> Iterator[str]:
        for path in _walk(self.packages):
            name = path.relative_to(self.packages).as_posix()
            if "__pycache__" not in name or name.startswith(NEW):
                yield name


def _site_entries() -> Iterator[Path]:
    left_out = {"executorch", "__pycache__"}
    for name in ("executorch", OURS):
        metadata = importlib.metadata.distribution(name)._path  # type: ignore[attr-defined]
        left_out.add(metadata.name)
    for path in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in sorted(Path(path).iterdir()):
            if entry.name not in left_out and not entry.name.startswith("__editable__"):
                yield entry


def _walk(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def executorch_wheel(
    directory: Path,
    version: str,
    changes: Optional[Mapping[str, Tuple[str, str]]] = None,
) -> Path:
    """Makes a wheel of the sources of the installed executorch.

    Args:
        directory: where to.
        version: what the wheel calls itself.
        changes: path in the wheel -> text that is there, and what to put in its place.

    Returns:
        The path of the wheel.
    """
    path = directory / f"executorch-{version}-py3-none-any.whl"
    metadata = f"executorch-{version}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in _sources(changes or {}).items():
            wheel.writestr(name, text)
            record.append(f"{name},,\n")
        for name, text in {
            "METADATA": f"Metadata-Version: 2.1\nName: executorch\nVersion: {version}\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "".join(record),
        }.items():
            wheel.writestr(f"{metadata}/{name}", text)
    return path


def _sources(changes: Mapping[str, Tuple[str, str]]) -> Dict[str, bytes]:
    found = {}
    for file in importlib.metadata.files("executorch") or ():
        if file.suffix in _SUFFIXES and not _TESTS & set(file.parts):
            found[file.as_posix()] = Path(file.locate()).read_bytes()
    for name, (old, new) in changes.items():
        before = found[name].decode()
        assert before.count(old) == 1, (name, old)
        found[name] = before.replace(old, new).encode()
    return found
