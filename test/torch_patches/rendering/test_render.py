# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Rendering of small made-up repositories, and onto the installed packages."""

import ast
import contextlib
import io
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from executorch.torch_patches import edits
from executorch.torch_patches.edit import Insert, Replace
from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering import cli, series, tree
from executorch.torch_patches.rendering.git import Repository

EXIR = """\
KINDS = {
    "a": 1,
}


def ask(kind):
    return kind == "a"
"""

EDITED = """\
KINDS = {
    "a": 1,
    "b": 2,
}


def ask(kind):
    return kind in ("a", "b")
"""

ASK = Replace(
    owner="ask",
    anchor='kind == "a"',
    replacement='kind in ("a", "b")',
    why="It knows both.",
)
KINDS = Insert(owner="", anchor='    "a": 1,\n', text='    "b": 2,\n', why="It is new.")
PATH = "exir/kinds.py"
NEW = "exir/synthesized_constants/lift.py"


@pytest.fixture(name="root")
def root_fixture(tmp_path, monkeypatch):
    """A tree of executorch that has one file with two edits, of two patches."""
    emission = Insert(**{**vars(KINDS), "patch": "emission"})
    monkeypatch.setattr(
        edits, "by_module", lambda: {"executorch.exir.kinds": (ASK, emission)}
    )
    root = tmp_path / "root"
    (root / "exir").mkdir(parents=True)
    (root / "exir" / "__init__.py").touch()
    (root / PATH).write_text(EXIR)
    (root / PATH).chmod(0o755)
    return root


@pytest.fixture(name="checkout")
def checkout_fixture(root, monkeypatch, tmp_path):
    """The same under git."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.com")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def git(root, *args):
    done = subprocess.run(
        ["git", "-C", str(root), *args], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*args):
    """Returns exit code, stdout and stderr of the command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(["render", *map(str, args)])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


def state(root):
    """Path -> content, mode and identity of all files."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def contents(root):
    return {path: content for path, (content, _) in state(root).items()}


# In the files


def test_files_get_edits_new_files_and_tests(root):
    code, out, err = run("--executorch", root)
    assert (code, err) == (0, "")
    assert (root / PATH).read_text() == EDITED
    assert (root / PATH).stat().st_mode & 0o777 == 0o755
    assert (root / NEW).read_text() == project(NEW).read_text()
    init = (root / NEW).with_name("__init__.py").read_text()
    assert "torch_patches" not in init and "read_synthesized_constants" in init
    tests = {p.name for p in (root / "exir/synthesized_constants/test").iterdir()}
    assert {"test_lift.py", "helpers.py", "cases.py", "golden.json"} <= tests
    assert not {"conftest.py", "test_render.py", "test_live.py"} & tests
    assert [line.split(":")[0].split("]")[1] for line in out.splitlines()] == [
        " Lift tensors that the compiler knows to synthesized constants",
        " Emit synthesized constants under their names",
        " Test synthesized constants",
    ]


def project(path):
    return Path(__file__).parents[3] / path


def test_a_second_run_changes_nothing(root):
    run("--executorch", root)
    before = state(root)
    code, out, _ = run("--executorch", root)
    assert code == 0
    assert out == f"executorch: nothing to do, {root} has all changes\n"
    assert state(root) == before


def test_what_is_there_in_part_is_completed(root):
    run("--executorch", root)
    (root / PATH).write_text(EXIR.replace(ASK.anchor, ASK.replacement))
    (root / NEW).unlink()
    code, out, _ = run("--executorch", root)
    assert code == 0 and len(out.splitlines()) == 2
    assert (root / PATH).read_text() == EDITED
    assert (root / NEW).exists()


def test_new_files_that_were_changed_are_replaced_if_that_is_asked_for(root):
    run("--executorch", root)
    (root / NEW).write_text("changed")
    code, _, err = run("--executorch", root)
    assert code == 1 and f"{NEW}: there is another file of this name" in err
    assert (root / NEW).read_text() == "changed"
    assert run("--executorch", root, "--replace")[0] == 0
    assert (root / NEW).read_text() == project(NEW).read_text()


def test_an_insertion_that_was_changed_is_not_made_again(root, monkeypatch):
    method = Insert(
        owner="Kind",
        anchor="    a = 1\n",
        text="\n    @property\n    def b(self):\n        # Two.\n        return 2\n",
        why="It is new.",
    )
    monkeypatch.setattr(
        edits, "by_module", lambda: {"executorch.exir.kinds": (method,)}
    )
    (root / PATH).write_text(
        "class Kind:\n    a = 1\n\n    def c(self):\n        pass\n"
    )
    assert run("--executorch", root)[0] == 0
    changed = (root / PATH).read_text().replace("# Two.", "# It is two.")
    (root / PATH).write_text(changed)
    code, _, err = run("--executorch", root)
    assert code == 1 and err.endswith(f"{PATH}: b: added already, and changed since\n")
    assert (root / PATH).read_text() == changed


def test_files_that_are_not_utf_8_are_named(root):
    (root / PATH).write_bytes(EXIR.encode() + b"# caf\xe9\n")
    code, _, err = run("--executorch", root)
    assert code == 1 and f"{PATH}: invalid continuation byte (it is not UTF-8)" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_writing_leaves_everything_as_it_was(root, monkeypatch, number):
    before, handler = contents(root), signal.getsignal(number)
    done, replace_file = [], os.replace

    def interrupted(source, target):
        done.append(target)
        if len(done) in (3, 5):  # the latter while it is undone
            os.kill(os.getpid(), number)
        replace_file(source, target)

    monkeypatch.setattr(tree.os, "replace", interrupted)
    code, _, err = run("--executorch", root)
    assert (code, err) == (130, "error: interrupted, nothing was changed\n")
    assert contents(root) == before
    assert signal.getsignal(number) == handler


def test_two_names_of_one_file_leave_no_copy(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").symlink_to("a")
    tree.write({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_the_ends_of_lines_stay(root):
    (root / PATH).write_bytes(EXIR.replace("\n", "\r\n").encode())
    assert run("--executorch", root)[0] == 0
    assert (root / PATH).read_bytes() == EDITED.replace("\n", "\r\n").encode()
    assert "nothing to do" in run("--executorch", root)[1]


def test_a_link_stays_and_other_names_of_a_file_keep_it(root, tmp_path):
    other = tmp_path / "other.py"
    os.link(root / PATH, other)
    (root / "exir/real.py").write_text(EXIR)
    (root / PATH).unlink()
    (root / PATH).symlink_to("real.py")
    assert run("--executorch", root)[0] == 0
    assert (root / PATH).is_symlink()
    assert (root / "exir/real.py").read_text() == EDITED
    assert other.read_text() == EXIR


def test_check_says_so_and_writes_nothing(root):
    before = state(root)
    code, out, _ = run("--executorch", root, "--check")
    assert code == 0 and len(out.splitlines()) == 3
    assert state(root) == before


@pytest.mark.parametrize("failing", [1, 2, 5, 30])
def test_a_write_that_fails_leaves_everything_as_it_was(root, monkeypatch, failing):
    before = state(root)
    replace, calls = os.replace, []

    def fail(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(tree.os, "replace", fail)
    code, _, err = run("--executorch", root)
    monkeypatch.undo()
    assert (code, err) == (1, f"error: {calls[failing - 1]}: No space left on device\n")
    after = state(root)
    assert {p: c for p, (c, _) in after.items()} == {
        p: c for p, (c, _) in before.items()
    }
    assert not (root / "exir/synthesized_constants").exists()


def test_a_failure_in_one_tree_leaves_the_other_as_it_was(root, tmp_path, monkeypatch):
    package = tmp_path / "torch/export"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(EXIR)
    both = {"executorch.exir.kinds": (KINDS,), "torch.export.__init__": (ASK,)}
    monkeypatch.setattr(edits, "by_module", lambda: both)
    before, replace, written = state(tmp_path), os.replace, []

    def fail(source, target):
        if target == root / PATH:
            raise OSError(5, "Input/output error", str(target))
        written.append(target)
        replace(source, target)

    monkeypatch.setattr(tree.os, "replace", fail)
    code, _, err = run("--executorch", root, "--pytorch", tmp_path)
    monkeypatch.undo()
    assert code == 1 and "Input/output error" in err
    assert package / "__init__.py" in written
    assert contents(tmp_path) == {p: c for p, (c, _) in before.items()}


# What does not fit


def test_drifted_anchors_are_listed_with_the_nearest_candidates(root):
    text = EXIR.replace('kind == "a"', "kind == 'a'").replace('"a": 1,', '"a": 1, # x')
    (root / PATH).write_text(text)
    before = state(root)
    for more in ((), ("--check",), ("--branch", "b"), ("--patches", root / "p")):
        code, _, err = run("--executorch", root, *more)
        assert code == 1
        assert err == (
            f"error: it does not fit, nothing was changed\n{root}\n"
            f"{PATH}: anchor 'kind == \"a\"' in 'ask' was found 0 times instead of once\n"
            "   62% like line 7: return kind == 'a'\n"
            f"{PATH}: anchor '\"a\": 1,' in 'the module' was found 0 times instead of "
            'once\n   78% like line 2: "a": 1, # x\n'
        )
        assert state(root) == before


def test_an_owner_that_is_gone_is_looked_for_in_the_whole_file(root):
    (root / PATH).write_text(EXIR.replace("def ask", "def asks"))
    _, _, err = run("--executorch", root)
    assert "0 definitions of 'ask' instead of one" in err
    assert 'like line 7: return kind == "a"' in err


def test_a_missing_file_and_one_that_is_in_the_way_are_named(root):
    (root / "exir/synthesized_constants").mkdir()
    (root / NEW).write_text("something else")
    code, _, err = run("--executorch", root)
    assert code == 1 and f"{NEW}: there is another file of this name" in err
    assert (root / PATH).read_text() == EXIR
    (root / PATH).unlink()
    assert f"{PATH}: there is no such file" in run("--executorch", root)[2]


def test_a_file_that_a_tree_may_lack_is_edited_where_it_is_there(root, monkeypatch):
    optional = replace(ASK, optional=True)
    both = {"executorch.exir.kinds": (KINDS,), "executorch.exir.other": (optional,)}
    monkeypatch.setattr(edits, "by_module", lambda: both)
    assert run("--executorch", root)[0] == 0
    assert not (root / "exir/other.py").exists()
    (root / "exir/other.py").write_text(EXIR)
    assert run("--executorch", root)[0] == 0
    assert ASK.replacement in (root / "exir/other.py").read_text()


@pytest.mark.parametrize("flag", ["--executorch", "--pytorch"])
def test_a_directory_of_something_else_is_refused(tmp_path, flag):
    code, _, err = run(flag, tmp_path)
    assert code == 1 and err.startswith(f"error: {tmp_path} has no ")
    assert f"it is no tree of {flag[2:]}" in err


@pytest.mark.parametrize(
    "args, message",
    [
        ([], "give --executorch, --pytorch or both"),
        (["--executorch", ".", "--check", "--branch", "b"], "not allowed with"),
        (["--executorch"], "expected one argument"),
        (["--executorch", ""], "--executorch is empty"),
        (["--executorch", ".", "--patches", ""], "--patches is empty"),
    ],
)
def test_wrong_arguments(args, message):
    code, _, err = run(*args)
    assert code == 2 and message in err


def test_without_a_checkout_of_this_project_there_are_no_tests(root, tmp_path):
    installed = tmp_path / "site/executorch/exir/synthesized_constants"
    installed.mkdir(parents=True)
    for file in project("exir/synthesized_constants").glob("*.py"):
        (installed / file.name).write_text(file.read_text())
    source = installed.parents[1]
    code, out, _ = run("--executorch", root, "--source", source)
    assert code == 0 and out.startswith(f"without tests: {source} has none")
    assert not (root / "exir/synthesized_constants/test").exists()
    code, _, err = run("--executorch", root, "--source", tmp_path)
    assert (code, err) == (1, f"error: {tmp_path} has no exir/synthesized_constants\n")


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("version.txt", "1.4.0a0\n", EXIR.replace(ASK.anchor, ASK.replacement)),
        ("version.txt", "1.5.0a0\n", EDITED),
        (
            "version.py",
            '__version__ = "1.4.1"\n',
            EXIR.replace(ASK.anchor, ASK.replacement),
        ),
        ("other.txt", "1.4", EDITED),
    ],
)
def test_an_older_tree_does_without_what_it_lacks(
    root, monkeypatch, name, text, expected
):
    newer = Insert(**{**vars(KINDS), "since": (1, 5)})
    monkeypatch.setattr(
        edits, "by_module", lambda: {"executorch.exir.kinds": (ASK, newer)}
    )
    (root / name).write_text(text)
    assert run("--executorch", root)[0] == 0
    assert (root / PATH).read_text() == expected


# Under git


def test_a_branch_has_a_commit_for_each_patch(checkout):
    before = state(checkout)
    (checkout / PATH).write_text("# not committed\n")
    code, _, err = run("--executorch", checkout, "--branch", "kinds")
    assert (code, err) == (0, "")
    subjects = git(checkout, "log", "--format=%s", "kinds").splitlines()
    names = [patch.subject for patch in series.patches(series.EXECUTORCH)]
    assert subjects == [*reversed(names), "first"]
    assert git(checkout, "show", f"kinds:{PATH}") == EDITED
    assert git(checkout, "ls-tree", "kinds", PATH).startswith("100755")
    first = git(checkout, "show", f"kinds~2:{PATH}")
    assert first == EXIR.replace(ASK.anchor, ASK.replacement)
    # The work tree, the index and the branch that is checked out stay.
    assert (checkout / PATH).read_text() == "# not committed\n"
    assert git(checkout, "status", "--short") == f" M {PATH}\n"
    assert git(checkout, "log", "--format=%s") == "first\n"
    assert state(checkout).keys() >= before.keys()


def test_each_commit_has_what_its_modules_import(checkout):
    run("--executorch", checkout, "--branch", "kinds")
    package = "exir/synthesized_constants"
    for commit in ("kinds~2", "kinds~1", "kinds"):
        files = git(checkout, "ls-tree", "--name-only", f"{commit}:{package}").split()
        for name in files:
            if name.endswith(".py"):
                text = git(checkout, "show", f"{commit}:{package}/{name}")
                missing = modules_imported(text) - {Path(f).stem for f in files}
                assert not missing, (commit, name)


def modules_imported(text):
    """Returns which modules of the package the text imports, or may import."""
    package = "executorch.exir.synthesized_constants"
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            modules = {p.stem for p in project(NEW).parent.glob("*.py")}
            found |= modules & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.startswith(package + "."):
                found.add(node.module[len(package) + 1 :])
    return found


def test_build_files_follow_patch_by_patch(checkout, monkeypatch):
    package = "executorch.exir.synthesized_constants"
    imports = [
        Insert(
            "", "KINDS", f"from {package}.{m} import x\n", "", before=True, patch=patch
        )
        for m, patch in (("lift", "lifting"), ("named_data", "emission"))
    ]
    # Two anchors that do not overlap.
    imports[1] = replace(imports[1], anchor="\n\ndef ask")
    monkeypatch.setattr(
        edits, "by_module", lambda: {"executorch.exir.kinds": tuple(imports)}
    )
    target = """f(
    srcs = ["kinds.py"],
    deps = [
        "//caffe2:torch",
    ],
)
"""
    (checkout / "exir" / "BUCK").write_text(target)
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "second")
    assert run("--executorch", checkout, "--branch", "kinds")[::2] == (0, "")
    lib, names = (
        f'        "//{package}:{name}",\n'.replace(".", "/")
        for name in ("lib", "names")
    )
    at = target.index("    ],\n)")
    for commit, deps in (("kinds~2", lib), ("kinds~1", lib + names)):
        text = git(checkout, "show", f"{commit}:exir/BUCK")
        assert text == target[:at] + deps + target[at:]
        text = git(checkout, "show", f"{commit}:exir/synthesized_constants/BUCK")
        assert ('"named_data.py"' in text) is (deps != lib)
    assert git(checkout, "show", "--name-only", "--format=", "kinds").count("BUCK") == 0
    # In the files it is the same, and once is enough.
    assert run("--executorch", checkout)[0] == 0
    assert (checkout / "exir/BUCK").read_text() == git(
        checkout, "show", "kinds:exir/BUCK"
    )
    assert "nothing to do" in run("--executorch", checkout)[1]


def test_the_same_branch_again_is_no_change_and_another_an_error(checkout):
    run("--executorch", checkout, "--branch", "kinds")
    tip = git(checkout, "rev-parse", "kinds")
    code, out, _ = run("--executorch", checkout, "--branch", "kinds")
    assert code == 0 and "branch kinds is there already" in out
    assert git(checkout, "rev-parse", "kinds") == tip
    git(checkout, "branch", "-f", "kinds", "main")
    code, _, err = run("--executorch", checkout, "--branch", "kinds")
    assert (code, err) == (1, f"error: {checkout} has another branch kinds\n")
    git(checkout, "switch", "-q", "--detach", tip.strip())
    assert "nothing to do" in run("--executorch", checkout, "--branch", "more")[1]
    assert "more" not in git(checkout, "branch")


@pytest.mark.parametrize("name", ["a b", "-x", "a..b"])
def test_a_name_that_is_none_for_a_branch(checkout, name):
    code, _, err = run("--executorch", checkout, f"--branch={name}")
    assert code == 1 and name in err
    assert git(checkout, "branch", "--format=%(refname:short)") == "main\n"


def test_a_branch_needs_git(root):
    code, _, err = run("--executorch", root, "--branch", "b")
    assert (code, err) == (1, f"error: {root} is no git checkout; leave out --branch\n")


def test_patches_apply_and_are_the_same_with_git_and_without(checkout, tmp_path):
    out, plain = tmp_path / "out", tmp_path / "plain"
    assert run("--executorch", checkout, "--patches", out)[0] == 0
    assert git(checkout, "branch", "--format=%(refname:short)") == "main\n"
    patches = sorted((out / "executorch").iterdir())
    assert [p.name[:5] for p in patches] == ["0001-", "0002-", "0003-"]
    git(checkout, "am", "-q", *map(str, patches))
    assert (checkout / PATH).read_text() == EDITED
    assert "nothing to do" in run("--executorch", checkout)[1]

    git(checkout, "reset", "-q", "--hard", "main~3")
    (checkout / ".git").rename(tmp_path / "git")
    assert run("--executorch", checkout, "--patches", plain)[0] == 0
    for one, other in zip(patches, sorted((plain / "executorch").iterdir())):
        assert without_dates(one) == without_dates(other)


def without_dates(path):
    lines = path.read_text().splitlines()
    return [line for line in lines if not line.startswith("Date: ")]


def test_an_empty_name_of_a_branch_changes_nothing(checkout):
    before = contents(checkout)
    code, _, err = run("--executorch", checkout, "--branch", "")
    assert code == 1 and "git check-ref-format fails" in err
    assert contents(checkout).keys() >= before.keys()
    assert git(checkout, "status", "--short") == ""


@pytest.mark.parametrize(
    "key, value",
    [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.context", "0"),
        ("diff.orderFile", "missing"),
        ("format.coverLetter", "true"),
        ("format.useAutoBase", "true"),
        ("format.attach", "true"),
        ("log.showSignature", "true"),
    ],
)
def test_patches_do_not_depend_on_the_configuration(checkout, tmp_path, key, value):
    run("--executorch", checkout, "--patches", tmp_path / "plain")
    git(checkout, "config", key, value)
    code, _, err = run("--executorch", checkout, "--patches", tmp_path / "other")
    assert (code, err) == (0, "")
    assert contents(tmp_path / "other") == contents(tmp_path / "plain")


def test_each_patch_may_be_there_already(checkout, tmp_path):
    run("--executorch", checkout, "--patches", tmp_path)
    names = [patch.subject for patch in series.patches(series.EXECUTORCH)]
    run("--executorch", checkout, "--branch", "whole")
    for count, path in enumerate(sorted((tmp_path / "executorch").iterdir()), 1):
        git(checkout, "am", "--quiet", "--keep-non-patch", str(path))
        assert git(checkout, "log", "-1", "--format=%s").strip() == names[count - 1]
        code, out, err = run("--executorch", checkout, "--branch", f"after{count}")
        assert (code, err) == (0, "")
        assert len(out.splitlines()) == max(len(names) - count, 1)
    assert git(checkout, "diff", "HEAD", "whole") == ""


def test_a_checkout_that_git_refuses_is_not_taken_for_none(checkout, monkeypatch):
    def refuse(self, *args, **options):
        raise PatchError("git rev-parse fails: detected dubious ownership")

    monkeypatch.setattr(Repository, "line", refuse)
    for how in ("--branch", "--patches"):
        code, _, err = run("--executorch", checkout, how, "x")
        assert code == 1 and "dubious ownership" in err


def test_names_of_other_files_need_not_be_utf_8(checkout):
    (checkout / os.fsdecode(b"caf\xe9.txt")).touch()
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "second")
    assert run("--executorch", checkout, "--branch", "kinds")[::2] == (0, "")


def test_a_folder_of_patches_is_written_again_or_refused(root, tmp_path):
    out = tmp_path / "out"
    run("--executorch", root, "--patches", out)
    before = contents(out)
    assert run("--executorch", root, "--patches", out)[0] == 0
    assert contents(out) == before
    (out / "executorch" / "note.txt").write_text("mine")
    code, _, err = run("--executorch", root, "--patches", out)
    assert (code, err) == (1, f"error: there are other files in {out}/executorch\n")
