#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small ResNet to a target and shows its mlperf.log to MLPerf's compliance checker.

    python3 scripts/check_mlperf.py [--flotilla build/cpu/flotilla] [--ranks 2]

The data are images of four colours, of which one in sixteen has a wrong label, so that no accuracy is 1; the optimizer, its end and
its weight decay are such as the closed division asks for. The checker of ruleset 4.0.0 sees the log as it is (division "open") and
with the division "closed" in its place, whose target is 0.759. Needs mlperf-logging and Pillow. About a minute.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

from PIL import Image

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--flotilla", default="build/cpu/flotilla")
parser.add_argument("--ranks", default=2, type=int)
options = parser.parse_args()
COLOURS = ((200, 60, 60), (60, 200, 60), (60, 60, 200), (200, 200, 60))
DECK = """
[model]
kind = "resnet"
depth = 18
classes = 4
[data]
kind = "image-list"
image_size = 32
short_side = 32
[data.train]
path = "train.txt"
[data.validation]
path = "val.txt"
[train]
epochs = 40
global_batch_size = 32
target = 0.76
[optimizer]
kind = "momentum"
weight_decay = 2e-4
[schedule]
kind = "linear"
learning_rate = 0.02
final_learning_rate = 1e-4
warmup_epochs = 1
[checkpoint]
best = "accuracy_top1"
[run]
mlperf_log = true
"""


def make_images(folder, name, count):
    lines = []
    for i in range(count):
        label = i % len(COLOURS)
        pixels = bytes(min(255, max(0, round(random.gauss(value, 70)))) for _ in range(32 * 32) for value in COLOURS[label])
        Image.frombytes("RGB", (32, 32), pixels).save(folder / f"{name}-{i:04}.png")
        lines.append(f"{name}-{i:04}.png {(label + (i % 16 == 5)) % len(COLOURS)}\n")
    (folder / f"{name}.txt").write_text("".join(lines))


def check(log):
    done = subprocess.run([sys.executable, "-m", "mlperf_logging.compliance_checker", "--ruleset", "4.0.0",
                           "--log_output", f"{log}.checked", str(log)], capture_output=True, text=True)
    text = (done.stdout + done.stderr).strip()
    print(text)
    return done.returncode == 0 and "SUCCESS" in text


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    random.seed(1)
    make_images(folder, "train", 512)
    make_images(folder, "val", 128)
    (folder / "deck.toml").write_text(DECK)
    subprocess.run(["mpirun", "--oversubscribe", "-n", str(options.ranks), options.flotilla, "train", folder / "deck.toml",
                    f"run.output={folder}/run"], check=True)
    text = (folder / "run/mlperf.log").read_text()
    (folder / "closed.log").write_text(text.replace('"submission_division","value":"open"',
                                                    '"submission_division","value":"closed"'))
    print(text, end="")
    good = [check(folder / "run/mlperf.log"), check(folder / "closed.log")]
sys.exit(0 if all(good) else "check_mlperf: the checker refused a log")
