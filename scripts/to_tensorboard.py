#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the metrics of runs into event files for TensorBoard. Needs the package tensorboard, not TensorFlow.

    python3 scripts/to_tensorboard.py RUN... [--output tensorboard]   # then: tensorboard --logdir tensorboard

RUN is a run's folder. Each number of a step becomes a scalar "step/NAME", of a validation "validation/NAME", of a checkpoint
"checkpoint/NAME", at its step and time. OUTPUT/RUN is written anew, so that the script can be run again while a run goes on.
"""
import argparse
import json
import math
import pathlib
import sys

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    sys.exit(f"to_tensorboard.py needs the package tensorboard ({error}): python3 -m pip install tensorboard")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
parser.add_argument("--output", default=pathlib.Path("tensorboard"), type=pathlib.Path)
options = parser.parse_args()
if len({run.resolve().name for run in options.runs}) < len(options.runs):
    parser.error("two runs have the same name; give them in two calls with another --output each")
for run in options.runs:
    folder = options.output / run.resolve().name
    old = list(folder.iterdir()) if folder.is_dir() else []
    if any(not file.name.startswith("events.out.tfevents.") for file in old):
        parser.error(f"{folder} holds other files than TensorBoard's; give another --output")
    for file in old:
        file.unlink()
    writer, scalars = EventFileWriter(str(folder)), 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        kind, time, step = event.pop("event"), event.pop("time"), event.pop("step", None)
        if kind not in ("step", "validation", "checkpoint"):
            continue
        values = [Summary.Value(tag=f"{kind}/{name}", simple_value=math.nan if value is None else value)
                  for name, value in event.items() if value is None or type(value) in (int, float)]
        writer.add_event(Event(wall_time=time, step=step, summary=Summary(value=values)))
        scalars += len(values)
    writer.close()
    print(f"{folder}: {scalars} scalars")
