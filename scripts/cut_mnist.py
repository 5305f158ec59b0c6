#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cut_mnist.py FROM TO: writes the first 10,000 training and 2,000 test digits of the MNIST files in FROM to TO."""
import gzip
import pathlib
import struct
import sys

COUNTS = {"train-images-idx3-ubyte.gz": 10000, "train-labels-idx1-ubyte.gz": 10000,
          "t10k-images-idx3-ubyte.gz": 2000, "t10k-labels-idx1-ubyte.gz": 2000}


def cut(idx: bytes, count: int) -> bytes:
    """The first `count` items of an IDX file of unsigned bytes."""
    extents = struct.unpack(f">{idx[3]}I", idx[4:4 + 4 * idx[3]])
    if extents[0] < count:
        raise SystemExit(f"cut_mnist.py: {extents[0]} items where {count} are needed")
    size = count
    for extent in extents[1:]:
        size *= extent
    begin = 4 + 4 * idx[3]
    return idx[:4] + struct.pack(">I", count) + idx[8:begin] + idx[begin:begin + size]


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    for name, count in COUNTS.items():
        # No name and no time in the gzip header: the same input gives the same bytes.
        with open(target / name, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
            out.write(cut(gzip.decompress((source / name).read_bytes()), count))


main()
