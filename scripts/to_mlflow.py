#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the metrics of runs into the plain files that MLflow keeps runs in. Needs no package to write them.

    python3 scripts/to_mlflow.py RUN... [--output mlruns]   # then: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri ./mlruns

RUN is a run's folder. The numbers of steps and validations become metrics "step/NAME" and "validation/NAME", the keys of its deck
parameters. A run is written anew when the script is run again, as while it goes on; other runs in OUTPUT stay.
"""
import argparse
import hashlib
import json
import math
import pathlib
import shutil
import sys

if sys.version_info < (3, 11):
    sys.exit("to_mlflow.py reads decks with the module tomllib: run it with Python 3.11 or later")
import tomllib

EXPERIMENT = "100000000000000001"


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def meta(file, **values):
    write(file, "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))


def flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
parser.add_argument("--output", default=pathlib.Path("mlruns"), type=pathlib.Path)
options = parser.parse_args()
experiment = options.output.resolve() / EXPERIMENT
for run in options.runs:
    if not (run / "metrics.jsonl").is_file():
        parser.error(f"{run} is no run's folder: it has no metrics.jsonl")
meta(experiment / "meta.yaml", artifact_location=experiment.as_uri(), experiment_id=EXPERIMENT, name="flotilla",
     lifecycle_stage="active")
for run in options.runs:
    run_id = hashlib.md5(str(run.resolve()).encode()).hexdigest()  # as MLflow's own: 32 hexadecimal digits
    folder = experiment / run_id
    shutil.rmtree(folder, ignore_errors=True)
    series, times, status = {}, [], "RUNNING"
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        kind, time, step = event.pop("event"), event.pop("time"), event.pop("step", 0)
        times.append(int(1000 * time))
        status = "RUNNING" if kind == "start" else "FINISHED" if kind == "end" else status
        if kind not in ("step", "validation"):
            continue
        for name, value in event.items():
            if value is None or type(value) in (int, float):
                number = math.nan if value is None else value
                series.setdefault(f"{kind}/{name}", []).append(f"{times[-1]} {number} {step}\n")
    for name, lines in series.items():
        write(folder / "metrics" / name, "".join(lines))
    deck = run / "deck.toml"
    for key, value in flat(tomllib.loads(deck.read_text())) if deck.is_file() else ():
        write(folder / "params" / key, json.dumps(value) if isinstance(value, (list, bool)) else str(value))
    write(folder / "tags" / "mlflow.runName", run.resolve().name)
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    meta(folder / "meta.yaml", artifact_uri=(folder / "artifacts").as_uri(),
         end_time=times[-1] if status == "FINISHED" else None, entry_point_name="", experiment_id=EXPERIMENT,
         lifecycle_stage="active", run_id=run_id, run_name=run.resolve().name, run_uuid=run_id, source_name="",
         source_type=4, source_version="", start_time=times[0] if times else None,
         status=3 if status == "FINISHED" else 1, tags=[], user_id="")
    print(f"{folder}: {sum(map(len, series.values()))} numbers")
