# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import unittest

import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.synthesized_constants import SynthesizedConstantPolicy
from executorch.exir.synthesized_constants.policy import resolve_flag

BAD_FIELDS = [
    ("max_bytes", -1, ValueError),
    ("max_bytes", 1.5, TypeError),
    ("max_bytes", True, TypeError),
    ("max_bytes", "auto", TypeError),
    ("max_total_bytes", -1, ValueError),
    ("max_total_bytes", 1.5, TypeError),
    ("max_total_bytes", False, TypeError),
    ("max_total_bytes", "some", ValueError),
    ("max_uniform_bytes", -1, ValueError),
    ("max_uniform_bytes", "4096", TypeError),
    ("keep", "aten.full", TypeError),
    ("keep", 3, TypeError),
    ("keep", [torch.ops.aten.full.default, 3], TypeError),
    ("through_parameters", 1, TypeError),
    ("through_parameters", None, TypeError),
]


class PolicyTest(unittest.TestCase):
    def test_bad_field_is_refused_by_name(self):
        for name, value, error in BAD_FIELDS:
            with self.subTest(field=name, value=value):
                with self.assertRaisesRegex(error, rf"Policy\.{name}\b"):
                    SynthesizedConstantPolicy(**{name: value})

    def test_unknown_field_is_refused_by_name(self):
        with self.assertRaisesRegex(TypeError, "max_byte"):
            SynthesizedConstantPolicy(max_byte=1)

    def test_none_is_no_limit(self):
        policy = SynthesizedConstantPolicy(
            max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
        )
        self.assertIsNone(policy.max_bytes)

    def test_keep_takes_names_and_predicates(self):
        for keep in (["aten.full"], {"aten.full.default"}, (), lambda constant: True):
            with self.subTest(keep=keep):
                self.assertEqual(SynthesizedConstantPolicy(keep=keep).keep, keep)

    def test_policies_with_equal_fields_are_equal(self):
        self.assertEqual(SynthesizedConstantPolicy(), SynthesizedConstantPolicy())
        self.assertNotEqual(
            SynthesizedConstantPolicy(), SynthesizedConstantPolicy(max_bytes=4)
        )


class FlagTest(unittest.TestCase):
    def test_config_refuses_other_types_by_name(self):
        for flag in (3, None, "on", 1.0, SynthesizedConstantPolicy):
            with self.subTest(flag=flag):
                with self.assertRaisesRegex(TypeError, "lift_synthesized_constants"):
                    EdgeCompileConfig(lift_synthesized_constants=flag)

    def test_flag_is_off_by_default(self):
        self.assertIs(EdgeCompileConfig().lift_synthesized_constants, False)

    def test_flag_shows_in_the_repr_of_the_config(self):
        config = EdgeCompileConfig(lift_synthesized_constants=True)
        self.assertIn("lift_synthesized_constants=True", repr(config))

    def test_flag_stands_for_a_policy(self):
        policy = SynthesizedConstantPolicy(max_bytes=4)
        self.assertIsNone(resolve_flag(False))
        self.assertEqual(resolve_flag(True), SynthesizedConstantPolicy())
        self.assertIs(resolve_flag(policy), policy)
