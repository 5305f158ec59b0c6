# SPDX-License-Identifier: Apache-2.0
from ramble.appkit import *


class Flotilla(ExecutableApplication):
    """The benchmarks of Flotilla: a training step, and the all-reduce. An experiment succeeds if they say that they are valid."""

    name = "flotilla"

    executable("step", "flotilla bench step {deck} --steps={steps}", use_mpi=True)
    executable("all_reduce", "flotilla bench all-reduce --in-place --bytes={bytes}", use_mpi=True)
    workload("step", executables=["step"])
    workload("all_reduce", executables=["all_reduce"])

    workload_variable("deck", default="inputs/mnist_mlp.toml", description="The run", workloads=["step"])
    workload_variable("steps", default="100", description="Steps measured", workloads=["step"])
    workload_variable("bytes", default="16M", description="Size of the sum", workloads=["all_reduce"])

    for figure, unit in [("samples_per_s", "1/s"), ("step_ms", "ms"), ("exposed_ms", "ms"), ("time_us", "us"), ("busbw_gb_s", "GB/s")]:
        figure_of_merit(figure, fom_regex=rf"^figure .*\b{figure}=(?P<value>\S+)", group_name="value", units=unit)

    success_criteria("valid", mode="string", match=r"valid: yes")
