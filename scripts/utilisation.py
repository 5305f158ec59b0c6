#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Utilisation (computing / time) against bandwidth, over links that run.emulate_link makes, beside what latency and rate predict.

    python3 scripts/utilisation.py inputs/mnist_mlp.toml [--flotilla build/cpu/flotilla] [--gbit 0.01 0.1 1 10] [KEY=VALUE ...]

Each mode is trained on --ranks workers of this machine, each with a link of its own. Computing is the step of workers that never
average. Printed are utilisations, measured and predicted, and the bandwidth that each mode needs for 95 %, predicted.
"""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile

PAYLOAD = 1448 / (1514 + 66 / 2)  # Of packets, as the program has it
SCALED_BITS = {"float32": 32.0, "int8": 8.125, "fp4": 4.125}  # With a float32 scale for 256 values
LOCAL = ["strategy.kind=local-sgd"]
DILOCO = LOCAL + ["strategy.outer.kind=nesterov", "strategy.outer.learning_rate=0.7", "strategy.outer.momentum=0.9"]


def modes(period):
    """Name, keys, steps between two sums, parts of the model, steps that a sum travels, wire."""
    fragments, overlap = 4, max(1, period // 5)
    streaming = DILOCO + [f"strategy.period={period}", f"strategy.fragments={fragments}", f"strategy.overlap_steps={overlap}"]
    yield "all-reduce", ["strategy.kind=all-reduce"], 1, 1, 0, "float32"
    yield "local SGD, period 8", LOCAL + ["strategy.period=8"], 8, 1, 0, "float32"
    yield f"DiLoCo, period {period}", DILOCO + [f"strategy.period={period}"], period, 1, 0, "float32"
    for wire in SCALED_BITS:
        yield f"streaming, {wire}", streaming + [f"strategy.wire={wire}"], period // fragments, fragments, overlap, wire


def predicted_step_s(mode, facts, gbit_s, latency_s):
    _, _, every, parts, overlap, wire = mode
    ranks, compute_s = facts["workers"], facts["compute_s"]
    sent = 2 * (ranks - 1) / ranks * facts["parameters"] * SCALED_BITS[wire] / 8 / parts
    messages = 2 if wire != "float32" else 2 * math.ceil(math.log2(ranks))
    messages *= 3 if sent > messages * 65536 else 1
    sum_s = messages * latency_s + sent / PAYLOAD * 8e-9 / gbit_s
    return compute_s + max(0.0, sum_s - overlap * compute_s) / every


def needed(mode, facts, latency_s, utilisation=0.95):
    low, high = 1e-6, 1e4
    for _ in range(200):
        middle = math.sqrt(low * high)
        enough = facts["compute_s"] / predicted_step_s(mode, facts, middle, latency_s) >= utilisation
        low, high = (low, middle) if enough else (middle, high)
    return f"{high:.3g} Gbit/s" if high < 9e3 else "not reached"


class Trainings:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)

    def step_s(self, keys, steps):
        """Of the steps after the first report, and the start's facts."""
        run = self.folder / "run"
        subprocess.run(["rm", "-rf", run], check=True)
        command = ["mpirun", "--oversubscribe", "-n", self.options.ranks, self.options.flotilla, "train", self.options.deck,
                   f"run.output={run}", "device.threads=1", "strategy.all_reduce=mpi", "train.epochs=0", f"train.steps={2 * steps}",
                   f"run.log_every={steps}", "validation.every=0", "checkpoint.every=0", "checkpoint.resident=false",
                   *self.options.keys, *keys]
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stdout[-1000:]} {done.stderr[-1000:]}")
        events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [event for event in events if event["event"] == "step"][-1]["step_s"], events[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deck")
    parser.add_argument("keys", nargs="*", help="keys for all runs, as optimizer.kind=momentum")
    parser.add_argument("--flotilla", default="build/cpu/flotilla")
    parser.add_argument("--ranks", default=2, type=int)
    parser.add_argument("--period", default=64, type=int, help="of DiLoCo and streaming, a multiple of 4")
    parser.add_argument("--gbit", default=[0.01, 0.03, 0.1, 0.3, 1, 10], type=float, nargs="*")
    parser.add_argument("--latency-us", default=50.0, type=float)
    parser.add_argument("--seconds", default=5.0, type=float, help="of each training, at least a period")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        trainings = Trainings(options, folder)
        compute_s, facts = trainings.step_s(LOCAL + ["strategy.period=1000000"], options.period)
        facts["compute_s"] = compute_s
        latency_s = options.latency_us * 1e-6
        print(f"{facts['workers']} workers, {facts['parameters']} parameters, {compute_s * 1e3:.3f} ms of computing a step")
        print(f"{'utilisation, measured (predicted)':<34}" + "".join(f"{gbit:>9g} Gbit/s" for gbit in options.gbit) + "   for 95 %")
        for mode in modes(options.period):
            line = f"{mode[0]:<34}"
            for gbit in options.gbit:
                expected_s = predicted_step_s(mode, facts, gbit, latency_s)
                steps = max(1, math.ceil(options.seconds / expected_s))
                period = mode[2] * mode[3]
                steps = math.ceil(steps / period) * period
                link = [f"run.emulate_link.gbit_s={gbit}", f"run.emulate_link.latency_us={options.latency_us}"]
                measured_s, _ = trainings.step_s(mode[1] + link, steps)
                line += f"{compute_s / measured_s:>8.3f} ({compute_s / expected_s:.3f})"
            print(f"{line}   {needed(mode, facts, latency_s)}", flush=True)


if __name__ == "__main__":
    main()
