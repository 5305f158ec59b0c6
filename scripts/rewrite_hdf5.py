#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites an HDF5 file so that every program with HDF5 reads it.

    python3 scripts/rewrite_hdf5.py OLD.h5 NEW.h5

NEW.h5 holds the arrays and attributes of OLD.h5 under the same names, in the oldest format, without links to other files:
arrays that were compressed in chunks with shuffle and gzip, all others contiguous. Soft, hard and external links, virtual
datasets and external storage are followed. Needs h5py, whose HDF5 must not be older than the one that wrote OLD.h5; filters
other than those of HDF5 and lzf need hdf5plugin as well (pip install --upgrade h5py hdf5plugin).
"""
import argparse
import os
import sys

try:
    import h5py
except ImportError:
    sys.exit("rewrite_hdf5: needs h5py in this python3: pip install h5py")
try:
    import hdf5plugin  # noqa: F401  registers its filters with h5py
except ImportError:
    pass

PIECE_BYTES = 64 << 20


def copy_array(old, group, name):
    chunked = old.chunks is not None and old.id.get_create_plist().get_nfilters() > 0
    form = {"chunks": old.chunks, "shuffle": True, "compression": "gzip"} if chunked else {}
    new = group.create_dataset(name, shape=old.shape, dtype=old.dtype, **form)
    if old.ndim == 0 or old.size == 0:
        if old.size:
            new[()] = old[()]
    else:
        rows = max(1, PIECE_BYTES // max(1, old.nbytes // old.shape[0]))
        rows = max(old.chunks[0], rows // old.chunks[0] * old.chunks[0]) if chunked else rows
        for begin in range(0, old.shape[0], rows):
            new[begin : begin + rows] = old[begin : begin + rows]
    for key, value in old.attrs.items():
        if not isinstance(value, h5py.Reference) and key not in ("DIMENSION_LIST", "REFERENCE_LIST"):
            new.attrs[key] = value


def copy_group(old, new, groups_above):
    """Copies what is below a group. Links to a group that contains them are left out: their arrays are there already."""
    arrays = 0
    for key, value in old.attrs.items():
        new.attrs[key] = value
    for name in old:
        try:
            item = old[name]
        except KeyError as error:
            if not isinstance(old.get(name, getlink=True), h5py.HardLink):
                print(f"rewrite_hdf5: left out {old.name.rstrip('/')}/{name}, a link to nothing: {error}", file=sys.stderr)
                continue
            sys.exit(f"rewrite_hdf5: {old.name.rstrip('/')}/{name} cannot be opened: {error}; it was written by a newer "
                     f"HDF5 than the {h5py.version.hdf5_version} of this h5py (pip install --upgrade h5py), or is damaged")
        if isinstance(item, h5py.Dataset):
            copy_array(item, new, name)
            arrays += 1
        elif isinstance(item, h5py.Group) and item not in groups_above:
            arrays += copy_group(item, new.create_group(name, track_order=True), groups_above + [item])
    return arrays


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    arguments = parser.parse_args()
    temporary = f"{arguments.new}.{os.getpid()}.partial"
    try:
        with h5py.File(arguments.old, "r") as old, h5py.File(temporary, "x", track_order=True) as new:
            arrays = copy_group(old, new, [old])
        os.replace(temporary, arguments.new)
    except OSError as error:  # what h5py throws for a filter that it lacks, too
        sys.exit(f"rewrite_hdf5: {arguments.old} could not be rewritten: {error}")
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    print(f"{arguments.new}: {arrays} arrays")


if __name__ == "__main__":
    main()
