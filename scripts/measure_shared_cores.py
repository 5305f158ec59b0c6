#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training's rate where its processors are not its own: beside busy processes, and under a limit of processor time.

    python3 scripts/measure_shared_cores.py build/before/flotilla build/after/flotilla --mnist ~/mnist

Every case is trained for some seconds by each executable in turn, in as many rounds as asked for; printed are the medians of
samples/s, and the last one's share of the first one's. --case takes only those whose names contain the text; --list names all.

The limits need root and the control group "cpu" of version 1 or 2 (/sys/fs/cgroup); without, these cases are left out.
"""
import argparse
import itertools
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Open MPI 4 and 5: ranks unbound, root allowed.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
RESNET = ["inputs/resnet18_photos.toml", "data.kind=random", "data.shape=[3,64,64]", "data.train.samples=4096",
          "model.classes=10", "run.log_every=1"]
PERIOD_US = 100_000
LONGEST_START_S = 30


def cases(mnist):
    """name: (ranks, threads of each, nice value, busy processes, processors' time allowed or None, arguments of train)"""
    mlp = ["inputs/mnist_mlp.toml", "run.log_every=20"]
    for key, name in (("train", "train"), ("validation", "t10k")) if mnist else ():
        mlp += [f"data.{key}.images={mnist}/{name}-images-idx3-ubyte.gz", f"data.{key}.labels={mnist}/{name}-labels-idx1-ubyte.gz"]
    shapes = ((1, 2), (2, 1))
    for (model, deck), (ranks, threads) in itertools.product((("mlp", mlp), ("resnet", RESNET)), shapes):
        batch = 64 if model == "mlp" else 32 // ranks
        train = deck + [f"train.batch_size={batch}", f"device.threads={threads}"]
        name = f"{model} {ranks}x{threads}"
        yield f"{name} alone", (ranks, threads, 0, 0, None, train)
        for nice in (0, 5):
            yield f"{name} beside 1, nice {nice}", (ranks, threads, nice, 1, None, train)
        for limit in (1.0, 1.5):
            yield f"{name} limit {limit}", (ranks, threads, 0, 0, limit, train)


class Group:
    """A control group with a limit of processor time, as a context."""

    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        self.folder = None
        if self.limit is None:
            return self
        for top, files in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": int(self.limit * PERIOD_US)}),
                           ("/sys/fs/cgroup", {"cpu.max": f"{int(self.limit * PERIOD_US)} {PERIOD_US}"})):
            folder = pathlib.Path(top) / f"flotilla-{os.getpid()}"
            try:
                folder.mkdir()
                self.folder = folder
                for name, value in files.items():
                    (folder / name).write_text(str(value))
                return self
            except OSError:
                self.__exit__()
        raise OSError("no control group")

    def __exit__(self, *_):
        for _ in range(100) if self.folder else ():
            try:
                self.folder.rmdir()
                break
            except OSError:  # processes that have ended may be there for a moment
                time.sleep(0.02)
        self.folder = None

    def enter(self):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def reports(folder):
    """The reports of steps so far, each with the samples of a step."""
    path = pathlib.Path(folder) / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    samples = lines[0]["global_batch_size"] if lines else 0
    return [{**line, "samples": samples} for line in lines if line["event"] == "step"]


def rate(executable, case, seconds, mpirun):
    """samples/s of one run, from its first report on; 0 where there was no second one."""
    ranks, _, nice, busy, limit, train = case
    with tempfile.TemporaryDirectory() as folder, Group(limit) as group:
        command = [*mpirun, "-n", str(ranks)] * (ranks > 1) + [executable, "train", *train, f"run.output={folder}/run",
                                                               "validation.every=0"]

        def enter():
            group.enter()
            os.nice(nice)

        neighbours = [subprocess.Popen(["dd", "if=/dev/zero", "of=/dev/null"], stderr=subprocess.DEVNULL) for _ in range(busy)]
        run = subprocess.Popen(command, cwd=ROOT, env={**ENVIRONMENT, **os.environ}, preexec_fn=enter, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + LONGEST_START_S
            while run.poll() is None and not reports(folder) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(seconds)
            run.send_signal(signal.SIGUSR1)
            errors = run.communicate(timeout=60)[1]
        finally:
            for process in (run, *neighbours):
                process.kill()
                process.wait()
        if run.returncode not in (0, 75):
            sys.exit(f"{' '.join(command)}: exit code {run.returncode}\n{errors.decode()}")
        steps = reports(folder)
    if len(steps) < 2:
        return 0.0
    # The last report is left out: it came with the stop.
    last = steps[-2] if len(steps) > 2 else steps[-1]
    return steps[0]["samples"] * (last["step"] - steps[0]["step"]) / (last["time"] - steps[0]["time"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", nargs="+", type=lambda path: str(pathlib.Path(path).resolve()), metavar="FLOTILLA")
    parser.add_argument("--mnist", type=lambda path: str(pathlib.Path(path).resolve()), help="folder of the four files of all of MNIST")
    parser.add_argument("--case", default="", help="only those whose names contain this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run, from its first report on")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [(name, case) for name, case in cases(arguments.mnist) if arguments.case in name]
    if arguments.list:
        print(*(name for name, _ in chosen), sep="\n")
        return
    for name, case in chosen:
        rates = [[] for _ in arguments.executables]
        try:
            for _ in range(arguments.rounds):
                for own, executable in zip(rates, arguments.executables):
                    own.append(rate(executable, case, arguments.seconds, arguments.mpirun.split()))
        except OSError as error:
            print(f"{name:28}  left out: {error}")
            continue
        medians = [statistics.median(own) for own in rates]
        share = f"  {medians[-1] / medians[0]:7.3f}" if len(medians) > 1 and medians[0] > 0 else ""
        print(f"{name:28}", *(f"{median:10,.1f}" for median in medians), share, flush=True)


if __name__ == "__main__":
    main()
