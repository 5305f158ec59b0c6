#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that shards go both ways between Flotilla and Python's webdataset.

    python3 -m venv webdataset && webdataset/bin/pip install webdataset
    webdataset/bin/python scripts/check_webdataset.py --flotilla build/cpu/flotilla photos/train.txt

1. `flotilla pack LIST` writes shards, and webdataset reads from them every image's bytes, label and path.
2. webdataset's TarWriter writes the images of LIST into shards, and Flotilla trains on them to the losses that it
   has on the list, bit by bit.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

DECK = """[model]
widths = [8]
classes = {classes}
[data]
kind = "{kind}"
image_size = 32
short_side = 36
order = "{order}"
train.path = "{path}"
[train]
steps = 20
batch_size = 4
[schedule]
learning_rate = 0.01
[run]
output = "{output}"
log_every = 1
"""


def samples_of(path):
    """(path as written, file, label) of each line of a list."""
    beside = path.with_suffix("")
    root = beside if beside.is_dir() else path.parent
    for line in path.read_text().splitlines():
        if line.strip():
            name, label = line.rsplit(maxsplit=1)
            yield name, root / name, int(label)


def losses(flotilla, folder, **deck):
    output = folder / f"run-{deck['kind']}-{deck['order']}"
    file = folder / "deck.toml"
    file.write_text(DECK.format(output=output, **deck))
    subprocess.run(flotilla + ["train", file], check=True, stdout=subprocess.DEVNULL)
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["event"] == "step"]


def check_ours(webdataset, flotilla, path, folder):
    shards = folder / "ours"
    subprocess.run(flotilla + ["pack", path, "--output", shards, "--shard-mb", "4"], check=True)
    names = sorted(str(shard) for shard in shards.glob("*.tar"))
    read = webdataset.WebDataset(names, shardshuffle=False)
    count = 0
    for (name, file, label), sample in zip(samples_of(path), read, strict=True):
        image = sample.get("jpg", sample.get("png"))
        assert image == file.read_bytes(), f"{sample['__key__']}: other bytes than {file}"
        assert int(sample["cls"]) == label, f"{sample['__key__']}: label {sample['cls']}, not {label}"
        assert json.loads(sample["json"])["path"] == name, f"{sample['__key__']}: path {sample['json']}"
        assert sample["__key__"] == f"{count:09d}"
        count += 1
    print(f"webdataset reads {count} images of {len(names)} shards of flotilla pack: bytes, labels and paths are equal")


def check_theirs(webdataset, flotilla, path, folder):
    samples = list(samples_of(path))
    with webdataset.ShardWriter(str(folder / "theirs-%06d.tar"), maxsize=4 << 20, verbose=0) as writer:
        for number, (name, file, label) in enumerate(samples):
            writer.write({"__key__": f"{pathlib.Path(name).parent}/{number:06d}", "cls": label,
                          file.suffix[1:].lower(): file.read_bytes(), "json": {"path": name}})
    classes = max(max(label for _, _, label in samples) + 1, 2)
    for order in "shuffled", "file":
        ours = losses(flotilla, folder, classes=classes, kind="image-list", order=order, path=path)
        theirs = losses(flotilla, folder, classes=classes, kind="webdataset", order=order,
                        path=folder / "theirs-*.tar")
        assert ours == theirs and len(ours) == 20, f"{order}: {ours} on the list, {theirs} on the shards"
    count = len(list(folder.glob("theirs-*.tar")))
    print(f"flotilla trains on {count} shards of webdataset as on the list: the losses of 20 steps are equal, "
          'with data.order "shuffled" and "file"')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flotilla", default="flotilla", help="the program, perhaps behind mpirun (flotilla)")
    parser.add_argument("list", type=pathlib.Path, help="a list of images: path, white space, label")
    arguments = parser.parse_args()
    try:
        import webdataset
    except ImportError:
        print("SKIPPED: this Python has no webdataset; pip install webdataset")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.list.resolve()
        check_ours(webdataset, arguments.flotilla.split(), path, pathlib.Path(folder))
        check_theirs(webdataset, arguments.flotilla.split(), path, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
