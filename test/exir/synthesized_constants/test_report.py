# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import unittest

import torch
from executorch.exir.synthesized_constants import (
    collect_reports,
    lift_synthesized_constants,
    Report,
    SynthesizedConstant,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.report import Entry, publish
from executorch.exir.synthesized_constants.test.helpers import lower
from expecttest import TestCase
from torch.export import export


def constant(name: str, **changes) -> SynthesizedConstant:
    fields = {
        "name": name,
        "op": "aten.full.default",
        "steps": (),
        "shape": (2, None),
        "dtype": torch.float32,
        "stored_shape": (1, 1),
        "dim_order": (0, 1),
        "value_bytes": None,
        "stored_bytes": 4,
        "fill_value": 1.0,
        "source": "model.py:3 in forward",
        "module": "",
    }
    return SynthesizedConstant(**{**fields, **changes})


class Ramp(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(8)


class ReportTest(TestCase):
    def test_prints_as_a_table(self):
        report = Report(
            "forward",
            [
                Entry(constant("full_1x1_f32_0"), lifted=True, uses=2),
                Entry(constant("", fill_value=None), lifted=False, reason="too large"),
            ],
            folded=3,
        )
        self.assertExpectedInline(
            str(report),
            """\
Synthesized constants of forward: 1 lifted, 4 bytes stored, 3 ops folded
name               value          stored    bytes    fill    uses    where    source                 not lifted
-----------------  -------------  --------  -------  ------  ------  -------  ---------------------  ------------
full_1x1_f32_0     float32[2, ?]  [1, 1]    4        1.0     2                model.py:3 in forward
aten.full.default  float32[2, ?]                                              model.py:3 in forward  too large""",
        )

    def test_report_of_nothing_is_one_line(self):
        self.assertExpectedInline(
            str(Report()),
            """Synthesized constants: 0 lifted, 0 bytes stored, 0 ops folded""",
        )

    def test_counts_a_name_once(self):
        same = constant("full_1x1_f32_0")
        entries = [
            Entry(same, lifted=True),
            Entry(same, lifted=True),
            Entry(constant("arange_8_f32_1", stored_bytes=32), lifted=True),
            Entry(constant("other", stored_bytes=64), lifted=False, reason="kept"),
        ]
        report = Report("forward", entries)
        self.assertEqual(
            [c.name for c in report.lifted], ["full_1x1_f32_0", "arange_8_f32_1"]
        )
        self.assertEqual(report.stored_bytes, 36)


class CollectReportsTest(unittest.TestCase):
    def test_collects_one_report_for_each_method(self):
        program = export(Ramp(), (torch.zeros(8),))
        lowered = lower({"first": program, "second": program})
        lifting = [r for r in lowered.reports if r.lifted]
        self.assertEqual([r.method for r in lifting], ["first", "second"])
        self.assertEqual(lifting[0].lifted[0].shape, (8,))
        self.assertIn("test_report.py", lifting[0].lifted[0].source)

    def test_says_why_a_value_was_not_lifted(self):
        program = export(Ramp(), (torch.zeros(8),))
        with collect_reports() as reports:
            lift_synthesized_constants(program, SynthesizedConstantPolicy(max_bytes=4))
        (report,) = reports
        self.assertEqual(report.lifted, [])
        self.assertTrue(report.entries)
        for entry in report.entries:
            self.assertNotEqual(entry.reason, "")

    def test_flag_off_reports_nothing(self):
        self.assertEqual(lower(export(Ramp(), (torch.zeros(8),)), False).reports, [])

    def test_inner_block_keeps_its_reports_to_itself(self):
        with collect_reports() as outer:
            publish(Report("outer"))
            with collect_reports() as inner:
                publish(Report("inner"))
            publish(Report("outer again"))
        publish(Report("after"))
        self.assertEqual([r.method for r in outer], ["outer", "outer again"])
        self.assertEqual([r.method for r in inner], ["inner"])
