# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.schema import Program\n",
        text="""from executorch.exir.synthesized_constants.lift import (
    lift_attributes_by_config,
    lift_by_config,
)
""",
        why="The pass.",
    ),
    Insert(
        owner="",
        anchor="from executorch.exir.tracer import _default_decomposition_table",
        text="""from executorch.exir.synthesized_constants.run_time_data import (
    add_input_names,
    add_named_constants,
)
""",
        before=True,
        why="What emission adds for the constants.",
        patch="emission",
    ),
    Replace(
        owner="_generate_edge_program",
        anchor="    edge_program = lift_constant_tensor_pass(edge_program)\n",
        replacement="""    lift_attributes_by_config(edge_program, config.lift_synthesized_constants)
    edge_program = lift_constant_tensor_pass(edge_program)
""",
        why="The scalars of `1 - x` and the like get the kind.",
    ),
    Replace(
        owner="_gen_edge_manager_for_partitioners",
        anchor="    # Merge ops_to_not_decompose into config",
        replacement="""    lift_by_config(edge_programs, config.lift_synthesized_constants)

    # Merge ops_to_not_decompose into config""",
        why="Runs before partitioning, so that delegates see the constants.",
    ),
    Replace(
        owner="to_edge",
        anchor="    epm = EdgeProgramManager(edge_programs, constant_methods, config)\n",
        replacement="""    lift_by_config(edge_programs, config.lift_synthesized_constants)
    epm = EdgeProgramManager(edge_programs, constant_methods, config)
""",
        why="The same for programs that are partitioned later.",
    ),
    Replace(
        owner="to_edge_transform_and_lower",
        anchor="        edge_manager = edge_manager.transform(transform_passes)\n",
        replacement="""        edge_manager = edge_manager.transform(transform_passes)
        lift_by_config(edge_manager._edge_programs, config.lift_synthesized_constants)
""",
        why="The user's passes may have made new creators, and new scalars.",
    ),
    Replace(
        owner="EdgeProgramManager.to_backend",
        anchor="EdgeCompileConfig(_check_ir_validity=False)",
        replacement="""EdgeCompileConfig(
            _check_ir_validity=False,
            lift_synthesized_constants=self.compile_config.lift_synthesized_constants,
        )""",
        why="The flag outlives the delegation.",
    ),
    Replace(
        owner="ExecutorchProgramManager.__init__",
        anchor="[Dict[str, Any]] = config_methods",
        replacement="""[Dict[str, Any]] = add_input_names(
            config_methods, execution_programs
        )""",
        why="An app asks the program for the names of its synthesized inputs.",
        patch="emission",
    ),
    Replace(
        owner="ExecutorchProgramManager.__init__",
        anchor="[NamedDataStoreOutput] = named_data",
        replacement="""[NamedDataStoreOutput] = add_named_constants(
            named_data, execution_programs
        )""",
        why="Default values of inputs, and names for constants that delegates took.",
        patch="emission",
    ),
]
