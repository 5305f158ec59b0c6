#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a run's exported ONNX models with Flotilla on the run's validation data.

    python3 scripts/check_onnx.py RUN [--flotilla build/cpu/flotilla]   # RUN: a run's folder or a checkpoint

Exports with batch norms folded, kept and, of images, with preprocessing; lets onnx.checker look at each file, and compares what
onnxruntime computes with `flotilla evaluate --vectors` and `flotilla predict`. Prints the largest difference in parts of the
outputs' spread; above 1e-5 it is an error. Photographs are cut to data.image_size first, so that Flotilla leaves their pixels as they
are; of click logs it takes the training lines of criteo's with data.dense_transform = "log", of CSV the training
table, with and without --with-scaling. Needs onnx, onnxruntime, h5py, Pillow, xxhash.
"""
import argparse
import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import h5py
import numpy as np
import onnx
import onnxruntime

MOST_SAMPLES = 200
LIMIT = 1e-5


def flotilla(*arguments):
    done = subprocess.run([options.flotilla, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"check_onnx: flotilla {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def applied(name, values, *flags):
    """The output of the model that is exported with these flags, checked."""
    path = folder / name
    flotilla("export", options.run, path, *flags)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"input": values[i:i + 64]})[0] for i in range(0, len(values), 64)])


def compare(what, found, expected):
    difference = np.abs(found - expected).max() / (expected.max() - expected.min())
    print(f"{what}: {difference:.1e} of the spread, {len(found)} samples")
    return difference < LIMIT


def idx_images(data):
    source = pathlib.Path(data["validation"]["images"])
    with (gzip.open if source.suffix == ".gz" else open)(source) as file:
        text = file.read()
    count, rows, columns = np.frombuffer(text, ">i4", 3, offset=4)
    pixels = np.frombuffer(text, np.uint8, offset=16).reshape(count, rows, columns, 1)
    return pixels, np.array([data["mean"]]), np.array([data["std"]]), [], source


def photographs(data):
    """The first photographs, cut to the size of the model, as a list of PNG files beside their pixels."""
    from PIL import Image
    size, names = data["image_size"], []
    source = pathlib.Path(data["validation"]["path"])
    if data["kind"] == "image-list":
        root = source.with_suffix("") if source.with_suffix("").is_dir() else source.parent
        entries = [root / line.rpartition(" ")[0] for line in source.read_text().splitlines() if line.strip()]
    else:
        entries = [path for path in sorted(source.rglob("*")) if path.is_file()]
    pixels = []
    for i, path in enumerate(entries[:MOST_SAMPLES]):
        image = Image.open(path).convert("RGB").resize((size, size))
        image.save(folder / f"{i:05}.png")
        pixels.append(np.asarray(image))
        names.append(f"{folder}/{i:05}.png 0")
    (folder / "list.txt").write_text("\n".join(names) + "\n")
    overrides = ["data.kind=image-list", f"data.validation.path={folder}/list.txt", f"data.short_side={size}"]
    return np.stack(pixels), np.array(data["image_mean"]), np.array(data["image_std"]), overrides, folder / "list.txt"


def click_features(deck):
    """Dense values and embeddings of the training log's first lines, whose ids all have rows in the exported model."""
    import xxhash
    flotilla("export", options.run, folder / "model.h5")
    with h5py.File(folder / "model.h5") as file:
        tables = [{int(key): row for key, row in zip(table["keys"], table["values"])} for table in file["rows"].values()]
    log, buckets = pathlib.Path(deck["data"]["train"]["path"]), deck["data"]["hash_buckets"]
    lines = log.read_text().splitlines()[:MOST_SAMPLES]
    (folder / "clicks.tsv").write_text("\n".join(lines) + "\n")
    features = []
    for line in lines:
        columns = line.split("\t")
        row = [np.log1p(np.float32(max(float(text), 0.0))) if text else 0.0 for text in columns[1:14]]
        for slot, text in enumerate(columns[14:]):
            key = xxhash.xxh3_64_intdigest(text.encode(), seed=slot) % (buckets or 2**64)
            row.extend(tables[slot % len(tables)][key])
        features.append(row)
    return np.array(features, np.float32), [f"data.validation.path={folder}/clicks.tsv"]


def table_rows(data, described):
    """The training table's rows as the model's metadata describe them, without scaling; text that is missing becomes its fill."""
    columns, categories, fills = (json.loads(described[key]) for key in ("columns", "categories", "fills"))
    source = pathlib.Path(data["train"]["path"])
    with (gzip.open if source.suffix == ".gz" else open)(source, "rt", newline="") as file:
        lines = csv.reader(file, delimiter="\t" if data["delimiter"] == "tab" else data["delimiter"], skipinitialspace=True)
        names = next(lines) if data["header"] else None
        places = [names.index(column) if names else int(column) - 1 for column in columns]
        rows = []
        for line in lines:
            row = []
            for place, texts, fill in zip(places, categories, fills):
                text = line[place].strip()
                missing = text in data["missing_texts"]
                row += [float(text == each) for each in texts] if texts else [fill if missing else float(text)]
            rows.append(row)
    return np.array(rows)


def check_table(deck):
    """Rows as stored and rows that were scaled by the metadata, against Flotilla on the whole training table."""
    flotilla("export", options.run, folder / "model.onnx")
    described = onnxruntime.InferenceSession(str(folder / "model.onnx")).get_modelmeta().custom_metadata_map
    rows = table_rows(deck["data"], described)
    flotilla("evaluate", options.run, f"data.validation.path={deck['data']['train']['path']}", "--vectors", folder / "vectors.h5")
    with h5py.File(folder / "vectors.h5") as file:
        expected = file["vectors"][:]
    scaled = rows
    if "mean" in described:
        scaled = (rows - json.loads(described["mean"])) / json.loads(described["std"])
    good = compare("rows that were scaled", applied("model.onnx", scaled.astype(np.float32)), expected)
    if "mean" in described:
        good &= compare("rows as stored", applied("stored.onnx", rows.astype(np.float32), "--with-scaling"), expected)
    return good


def check():
    deck = tomllib.loads(json.loads(flotilla("inspect", options.run, "--json"))["deck"])
    data = deck["data"]
    if data["kind"] == "csv":
        return check_table(deck)
    if data["kind"] == "criteo":
        values, overrides = click_features(deck)
        pixels = None
    else:
        read = idx_images if data["kind"] == "idx" else photographs
        pixels, mean, deviation, overrides, source = read(data)
        values = ((pixels / 255.0 - mean) / deviation).astype(np.float32).transpose(0, 3, 1, 2)
        if deck["model"]["kind"] == "mlp":
            values = values.reshape(len(values), -1)
    flotilla("evaluate", options.run, *overrides, "--vectors", folder / "vectors.h5")
    with h5py.File(folder / "vectors.h5") as file:
        expected = file["vectors"][:]
    good = compare("folded", applied("model.onnx", values), expected)
    good &= compare("kept", applied("kept.onnx", values, "--keep-batch-norm"), expected)
    if pixels is None:
        return good
    flotilla("predict", options.run, source, *overrides[2:], "--all", "--output", folder / "predictions.csv")
    with open(folder / "predictions.csv") as file:
        rows = list(csv.reader(file))
    classes = deck["model"]["classes"]
    predicted = np.array([row[-classes:] for row in rows[1:]], np.float32)
    return good & compare("bytes to probabilities", applied("bytes.onnx", pixels, "--with-preprocessing"), predicted)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("run")
parser.add_argument("--flotilla", default="build/cpu/flotilla")
options = parser.parse_args()
with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    sys.exit(0 if check() else f"check_onnx: the difference is above {LIMIT}")
