#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of reading samples from HDF5 beside those of h5py with PyTorch's DataLoader, taking turns.

    python3 scripts/compare_h5py_speed.py --flotilla build/cpu/flotilla [--folder /tmp] [--samples 20000]

Files of images of 3 x 64 x 64 bytes and their labels are written with h5py: contiguous, in chunks of 64 images, and in
chunks through shuffle and gzip. Each is read by one process with one thread in the orders "shuffled", "file" and "blocks"
(torch: shuffled and in order). Flotilla: `bench input`. torch: a Dataset that reads file["images"][i] from a file opened
once, in a DataLoader with one worker process and batches of 64. Medians over the rounds, samples per second. Needs h5py and
numpy; without torch h5py's loop alone stands for it.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = (3, 64, 64)
BATCH = 64
DECK = """[model]
kind = "mlp"
widths = [16]
classes = 10
[data]
kind = "hdf5"
order = "{order}"
cache_mb = {cache}
{blocks}
[data.train]
path = "{path}"
[train]
steps = 1
batch_size = {batch}
[schedule]
learning_rate = 0.1
"""
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def write(folder, samples):
    import h5py
    import numpy

    random = numpy.random.default_rng(1)
    # Smooth images with noise in the low bits: gzip shrinks them by about a third.
    base = random.integers(0, 200, (samples, 3, 8, 8), dtype=numpy.uint8).repeat(8, axis=2).repeat(8, axis=3)
    images = base + random.integers(0, 8, (samples,) + SHAPE, dtype=numpy.uint8)
    files = {}
    for name, options in {"contiguous": {}, "chunked": {"chunks": (BATCH,) + SHAPE},
                          "gzip": {"chunks": (BATCH,) + SHAPE, "shuffle": True, "compression": "gzip"}}.items():
        files[name] = str(pathlib.Path(folder) / f"{name}.h5")
        with h5py.File(files[name], "w") as file:
            file.create_dataset("images", data=images, **options)
            file["labels"] = random.integers(0, 10, samples).astype("int64")
    return files


def python_rate(path, order, seconds):
    """Samples per second of h5py in a DataLoader, or of a plain loop where there is no torch."""
    import h5py
    import numpy

    class Samples:
        file = None

        def __len__(self):
            return count

        def __getitem__(self, i):
            if self.file is None:
                self.file = h5py.File(path, "r")
            image = self.file["images"][i].astype(numpy.float32) / 255.0
            return (image - 0.5) / 0.5, int(self.file["labels"][i])

    with h5py.File(path, "r") as file:
        count = len(file["labels"])
    if importlib.util.find_spec("torch"):
        import torch
        torch.set_num_threads(1)
        loader = torch.utils.data.DataLoader(Samples(), batch_size=BATCH, shuffle=order == "shuffled", num_workers=1)
    else:
        places = numpy.random.default_rng(1).permutation(count) if order == "shuffled" else numpy.arange(count)
        samples = Samples()
        loader = (numpy.stack([samples[int(k)][0] for k in places[begin:begin + BATCH]])
                  for begin in range(0, count, BATCH))
    batches = iter(loader)
    next(batches)
    begin = time.monotonic()
    read = 0
    for _ in batches:
        read += BATCH
        if time.monotonic() - begin > seconds:
            break
    return read / (time.monotonic() - begin)


def flotilla_rate(arguments, folder, path, order):
    deck = pathlib.Path(folder) / "deck.toml"
    blocks = "shuffle_block = 64\nshuffle_buffer = 4096" if order == "blocks" else ""
    deck.write_text(DECK.format(order=order, path=path, blocks=blocks, batch=BATCH, cache=arguments.cache_mb))
    report = pathlib.Path(folder) / "rate.json"
    subprocess.run([arguments.flotilla, "bench", "input", str(deck), "--seconds", str(arguments.seconds), "--json",
                    str(report)], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **ENVIRONMENT})
    return json.loads(report.read_text())["images_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flotilla", required=True)
    parser.add_argument("--folder", help="where the files are written (a temporary folder)")
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache-mb", type=int, default=64)
    arguments = parser.parse_args()
    for module in ("h5py", "numpy"):
        if importlib.util.find_spec(module) is None:
            print(f"skipped: Python's module {module} is not installed")
            return 77
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        files = write(folder, arguments.samples)
        beside = "h5py + torch" if importlib.util.find_spec("torch") else "h5py"
        print(f"{'file':<11} {'order':<9} {beside:>13} {'Flotilla':>10} {'times':>7}   samples/s, load "
              f"{os.getloadavg()[0]:.1f}")
        for name, path in files.items():
            for order in ("shuffled", "file", "blocks"):
                theirs, ours = [], []
                for _ in range(arguments.rounds):
                    if order != "blocks":
                        theirs.append(python_rate(path, order, arguments.seconds))
                    ours.append(flotilla_rate(arguments, folder, path, order))
                there = statistics.median(theirs) if theirs else None
                here = statistics.median(ours)
                print(f"{name:<11} {order:<9} {there or '-':>13.6} {here:>10.0f} "
                      f"{here / there if there else float('nan'):>7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
