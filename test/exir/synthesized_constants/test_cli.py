# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from executorch.exir.synthesized_constants import read_synthesized_constants
from executorch.exir.synthesized_constants.cli import main
from executorch.runtime import Runtime
from expecttest import TestCase
from torch.export import export, save


class Ramp(torch.nn.Module):
    def forward(self, x):
        return x * torch.full((4, 8), 2.0) + torch.arange(8.0)


class SigmoidSum(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).sum()


class CliTest(TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.pte = self.directory / "model.pte"

    def save(self, module, *inputs) -> Path:
        path = self.directory / "model.pt2"
        save(export(module, inputs), path)
        return path

    def run_main(self, *args):
        """Runs a command in this process; returns exit code, stdout and stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([str(arg) for arg in args])
            except SystemExit as stop:
                code = stop.code
        return code, out.getvalue(), err.getvalue()

    def assert_runs(self, *args) -> str:
        code, out, err = self.run_main(*args)
        self.assertEqual((code, err), (0, ""))
        return out

    def assert_fails(self, expected_code, pattern, *args):
        """Asserts that there is the exit code and one line that says why."""
        code, out, err = self.run_main(*args)
        self.assertEqual((code, out), (expected_code, ""))
        self.assertRegex(err, rf"\Aerror: [^\n]*{pattern}[^\n]*\n\Z")


class LowerTest(CliTest):
    def test_writes_a_program_that_runs_and_compares_it(self):
        model = self.save(Ramp(), torch.zeros(4, 8))
        out = self.assert_runs("lower", model, "-o", self.pte, "--backend", "none")
        report, _, table = out.partition("\n\n")
        self.assertIn("2 lifted, 36 bytes stored", report)
        for name in read_synthesized_constants(self.pte):
            self.assertIn(name, report)
        self.assertExpectedInline(
            "\n".join(line for line in table.splitlines() if "pte" not in line),
            """\
                         before    after
---------------------  --------  -------
instructions                  4        2
kernel calls                  4        2
delegates                     0        0
delegate calls                0        0
planned memory, bytes       384      256""",
        )
        x = torch.randn(4, 8)
        method = (
            Runtime.get().load_program(self.pte.read_bytes()).load_method("forward")
        )
        torch.testing.assert_close(method.execute([x])[0], Ramp()(x))

    def test_delegate_takes_constants_by_default(self):
        model = self.save(Ramp(), torch.zeros(4, 8))
        out = self.assert_runs("lower", model, "-o", self.pte)
        self.assertRegex(out, r"kernel calls +\d+ +0\n")
        self.assertEqual(read_synthesized_constants(self.pte), {})

    def test_backward_graph_of_issue_15505(self):
        model = self.save(SigmoidSum(), torch.zeros(1, 5, 8, requires_grad=True))
        out = self.assert_runs("lower", model, "--backward", "-o", self.pte)
        self.assertIn("2 lifted, 8 bytes stored", out)
        self.assertRegex(out, r"kernel calls +6 +3\n")

    def test_limits_decide_what_is_lifted(self):
        model = self.save(Ramp(), torch.zeros(4, 8))
        for limit, lifted in (("0", 0), ("4", 1), ("32", 2), ("none", 2)):
            with self.subTest(limit=limit):
                out = self.assert_runs(
                    *("lower", model, "-o", self.pte, "--backend", "none"),
                    *("--max-bytes", limit, "--max-total-bytes", "none"),
                )
                self.assertIn(f": {lifted} lifted", out)
                self.assertEqual(len(read_synthesized_constants(self.pte)), lifted)

    def test_kept_op_stays(self):
        model = self.save(Ramp(), torch.zeros(4, 8))
        self.assert_runs(
            *("lower", model, "-o", self.pte, "--backend", "none"),
            *("--keep", "aten.arange", "--keep", "aten.full"),
        )
        self.assertEqual(
            [n for n in read_synthesized_constants(self.pte) if "arange" in n], []
        )

    def test_errors_are_one_line(self):
        model = self.save(Ramp(), torch.zeros(4, 8))
        missing = self.directory / "missing.pt2"
        broken = self.directory / "broken.pt2"
        broken.write_bytes(model.read_bytes()[:1000])
        text = self.directory / "text.pt2"
        text.write_text("not a program")
        nowhere = self.directory / "nowhere" / "model.pte"
        for pattern, args in (
            ("missing.pt2: No such file", (missing, "-o", self.pte)),
            ("text.pt2 is not a program", (text, "-o", self.pte)),
            ("broken.pt2 is not a program", (broken, "-o", self.pte)),
            ("Is a directory", (self.directory, "-o", self.pte)),
            ("the directory of .*nowhere.* does not exist", (model, "-o", nowhere)),
            ("Is a directory", (model, "-o", self.directory)),
            ("cannot be lowered", (model, "-o", self.pte, "--backward")),
        ):
            with self.subTest(pattern=pattern):
                self.assert_fails(1, pattern, "lower", *args)
        self.assertFalse(self.pte.exists())

    def test_wrong_arguments_are_one_line(self):
        output = ("model.pt2", "-o", "model.pte")
        for pattern, args in (
            ("required", ()),
            ("-o", ("lower", "model.pt2")),
            ("'cuda' \\(choose from", ("lower", *output, "--backend", "cuda")),
            ("'many' is none of", ("lower", *output, "--max-bytes", "many")),
            ("'-1'", ("lower", *output, "--max-bytes=-1")),
            ("'auto' is none of", ("lower", *output, "--max-bytes", "auto")),
            ("'1.5' is none of", ("lower", *output, "--max-total-bytes", "1.5")),
            ("'big' is none of", ("lower", *output, "--max-uniform-bytes", "big")),
            ("'fold'", ("fold",)),
            ("--fast", ("inspect", "model.pte", "--fast")),
        ):
            with self.subTest(args=args):
                self.assert_fails(2, pattern, *args)


class InspectTest(CliTest):
    def setUp(self):
        super().setUp()
        model = self.save(Ramp(), torch.zeros(4, 8))
        self.assert_runs("lower", model, "-o", self.pte, "--backend", "none")

    def test_lists_constants(self):
        self.assertExpectedInline(
            self.assert_runs("inspect", self.pte),
            """\
name                   shape    dtype    bytes    fill
---------------------  -------  -------  -------  ------
arange_8_f32_47c4d89e  [8]      float32  32
full_1x1_f32_9b5466e6  [1, 1]   float32  4        2.0
""",
        )

    def test_lists_constants_as_json(self):
        listed = json.loads(self.assert_runs("inspect", self.pte, "--json"))
        expected = read_synthesized_constants(self.pte)
        self.assertEqual([row["name"] for row in listed], list(expected))
        for row in listed:
            tensor = expected[row["name"]]
            self.assertEqual(row["shape"], list(tensor.shape))
            self.assertEqual(row["bytes"], tensor.nbytes)
            self.assertEqual(row["dtype"], "float32")
        self.assertEqual([row["fill"] for row in listed], [None, 2.0])

    def test_fill_that_is_not_a_number_is_valid_json(self):
        class Infinite(torch.nn.Module):
            def forward(self, x):
                return x + torch.full((4, 8), float("-inf"))

        model = self.save(Infinite(), torch.zeros(4, 8))
        self.assert_runs("lower", model, "-o", self.pte, "--backend", "none")
        out = self.assert_runs("inspect", self.pte, "--json")
        (row,) = json.loads(out, parse_constant=self.fail)
        self.assertEqual(row["fill"], "-inf")

    def test_program_without_constants_says_so(self):
        class Add(torch.nn.Module):
            def forward(self, x):
                return x + x

        self.assert_runs("lower", self.save(Add(), torch.zeros(2)), "-o", self.pte)
        self.assertEqual(self.assert_runs("inspect", self.pte), "no named constants\n")
        self.assertEqual(
            json.loads(self.assert_runs("inspect", self.pte, "--json")), []
        )

    def test_errors_are_one_line(self):
        text = self.directory / "text.pte"
        text.write_text("not a program")
        broken = self.directory / "broken.pte"
        broken.write_bytes(self.pte.read_bytes()[:-1])
        for pattern, path in (
            ("missing.pte: No such file", self.directory / "missing.pte"),
            ("text.pte: not a .pte file", text),
            ("broken.pte: a damaged .pte file", broken),
        ):
            with self.subTest(path=path.name):
                self.assert_fails(1, pattern, "inspect", path)

    def test_verbose_shows_where_it_failed(self):
        code, _, err = self.run_main("inspect", self.directory / "missing.pte", "-v")
        self.assertEqual(code, 1)
        self.assertIn("Traceback", err)

    def test_module_runs_as_a_command(self):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "executorch.exir.synthesized_constants"),
                *("inspect", str(self.directory / "missing.pte")),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertNotIn("Traceback", done.stderr)
        self.assertRegex(done.stderr, r"(?m)^error: .*missing\.pte: No such file.*$")
