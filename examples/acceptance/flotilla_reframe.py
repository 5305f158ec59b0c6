# SPDX-License-Identifier: Apache-2.0
"""ReFrame tests for Flotilla on a cluster: the step of a training, and the all-reduce, on 1, 2 and 4 nodes.

    reframe -C SETTINGS.py -c examples/acceptance/flotilla_reframe.py -r --performance-report
    reframe … -S TrainingStep.deck=$PWD/inputs/resnet50_synthetic.toml -S ranks_per_node=4 -n TrainingStep

SETTINGS.py describes the cluster (ReFrame's documentation); `flotilla` is on PATH, or `-S modules=flotilla`. A test passes if the
benchmark says "valid: yes"; references for its figures go into `reference`, by system.
"""
import os

import reframe as rfm
import reframe.utility.sanity as sn


class Benchmark(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "flotilla"
    ranks_per_node = variable(int, value=2)
    nodes = parameter([1, 2, 4])
    units = {}  # Of the figures that count

    @run_after("init")
    def set_size(self):
        self.num_tasks_per_node = self.ranks_per_node
        self.num_tasks = self.nodes * self.ranks_per_node

    @sanity_function
    def is_valid(self):
        return sn.assert_found(r"^valid: yes$", self.stdout)

    @run_before("performance")
    def read_figures(self):
        for name, unit in self.units.items():
            figure = sn.extractsingle(rf"^figure .*\b{name}=(\S+)", self.stdout, 1, float)
            self.perf_variables[name] = sn.make_performance_function(figure, unit)


@rfm.simple_test
class TrainingStep(Benchmark):
    deck = variable(str, value=os.path.abspath(os.path.join(os.path.dirname(__file__), "../../inputs/mnist_mlp.toml")))
    steps = variable(int, value=100)
    units = {"samples_per_s": "samples/s", "step_ms": "ms", "exposed_ms": "ms"}

    @run_before("run")
    def set_options(self):
        self.executable_opts = ["bench", "step", self.deck, f"--steps={self.steps}"]


@rfm.simple_test
class AllReduce(Benchmark):
    size = variable(str, value="16M")
    units = {"time_us": "us", "busbw_gb_s": "GB/s"}

    @run_before("run")
    def set_options(self):
        self.executable_opts = ["bench", "all-reduce", "--in-place", f"--bytes={self.size}"]
