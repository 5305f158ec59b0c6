#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the sources that compile each header of a folder alone.

  headers_alone.py ROOT OUT COMMON FOLDER [HEADER ...]

FOLDER and HEADERs, of that folder, are relative to ROOT. Two more come from stdin, a line each: the headers that sources of the
build include first, which shows that they compile alone. Each other header begins a source in OUT, or follows in one behind
headers all of which it includes itself, so that they give it nothing that it would lack alone; a precompiled header COMMON
gives nothing more where it is among them. OUT/all_of_FOLDER.cpp has all headers, for the naming check.

Prints the sources that may follow COMMON, joined by ";", and in the second line the others.
"""
import functools
import os
import re
import sys


def main():
    root, out, common, folder, *headers = sys.argv[1:]
    if not headers:
        sys.exit(f"no header in {folder}/, nothing to compile alone")
    shown = set(sys.stdin.read().split())

    @functools.cache
    def included_by(header):
        """The project's headers that it includes, directly or through others."""
        with open(os.path.join(root, header), encoding="utf-8") as file:
            direct = [name for name in re.findall(r'^#include "(.*)"', file.read(), re.MULTILINE)
                      if os.path.exists(os.path.join(root, name))]
        return set(direct).union(*(included_by(name) for name in direct))

    def write(name, order):
        path = os.path.join(out, name + ".cpp")
        text = "".join(f'#include "{header}"\n' for header in order)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            os.makedirs(out, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    left = sorted(set(headers) - shown, key=lambda header: (-len(included_by(header)), header))
    behind_common, others = [], []
    while left:
        chain = [left.pop(0)]
        while following := next((header for header in left if header in included_by(chain[0])), None):
            left.remove(following)
            chain.insert(0, following)
        source = write(re.sub(r"\W", "_", chain[-1]), chain)
        (behind_common if common in included_by(chain[0]) else others).append(source)
    others.append(write(f"all_of_{folder}", headers))
    print(";".join(behind_common))
    print(";".join(others))


if __name__ == "__main__":
    main()
