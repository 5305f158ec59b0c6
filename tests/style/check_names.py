# SPDX-License-Identifier: Apache-2.0
"""Names in the program follow .clang-tidy: types CamelCase, all else snake_case, private members with a trailing underscore.

python3 tests/style/check_names.py ROOT BUILD_FOLDER kernels|models|mpi|src

Nearly all the time goes into parsing what is included, so all headers and sources of a folder are parsed as one file. Sources that
cannot be parsed behind others (two of them have a helper of the same name) are parsed together in a next round: a third of the time
that one run for each file takes. Without clang-tidy 16 or later the check prints "SKIPPED:". A folder that passed is remembered
by its text in the build folder."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

from sources import Tree


def find_tidy():
    """clang-tidy 16 or later and its version; None."""
    for name in [f"clang-tidy-{version}" for version in (19, 20, 18, 17, 16)] + ["clang-tidy"]:
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
            match = re.search(r"version (\d+)\.", version)
            if match and int(match.group(1)) >= 16:
                return name, version
    return None


class Names:
    """The check of one folder."""

    def __init__(self, tree, build, kind, tidy):
        self.tree, self.kind, self.tidy = tree, kind, tidy
        self.list = build / "tests/style/named" / f"{kind}.hpp"
        self.list.parent.mkdir(parents=True, exist_ok=True)
        self.alone = ["-p", str(build), "--extra-arg=-w"]
        self.together = [str(build / f"tests/style/alone/all_of_{kind}.cpp"), "-p", str(build), "--extra-arg=-w",
                         "--extra-arg=-ferror-limit=0", f"--extra-arg=-include{self.list}"]

    def run(self, arguments):
        """Errors found, and those among them of parsing. The rules are found as a .clang-tidy above the file: named on the
        command line they would be applied to the standard library too, which takes four times as long."""
        done = subprocess.run([self.tidy, "--quiet", "--checks=-*,readability-identifier-naming",
                               f"--header-filter=/{self.kind}/.*[.][ch]pp$"] + arguments,
                              cwd=self.tree.root, capture_output=True, text=True, check=False)
        found = re.findall(r"[^\n]*error: [^\n]*", done.stdout + done.stderr)
        if done.returncode != 0:
            found.insert(0, f"{self.tidy} ended with {done.returncode}:")
        return found, [line for line in found if "clang-diagnostic-error" in line]

    def parse_together(self, sources):
        """Parses as many of `sources` in one file as can be. Returns the faults, and the sources that are left."""
        left = []
        while True:
            self.list.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
            found, unparsed = self.run(self.together)
            if not unparsed:
                return found, left
            if len(sources) == 1:  # With its own flags, which may define something
                return self.run([str(self.tree.root / sources[0])] + self.alone)[0], left
            clashing = [source for source in sources if any(f"{self.tree.root / source}:" in line for line in unparsed)]
            if not clashing or len(clashing) == len(sources):  # That tells nothing: the first one goes on by itself.
                clashing = sources[1:]
            left += clashing
            sources = [source for source in sources if source not in clashing]

    def faults(self, sources):
        # absent.cpp and its like give the names of what a build lacks: they wait for the second round.
        stand_ins = [source for source in sources if re.search(r"/absent[^/]*$", source)]
        waiting = [source for source in sources if source not in stand_ins] or stand_ins
        if waiting is stand_ins:
            stand_ins = []
        all_found = []
        while waiting:
            found, waiting = self.parse_together(waiting)
            all_found += found
            waiting += stand_ins
            stand_ins = []
        return sorted(set(all_found))


def main():
    root, build, kind = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    tree = Tree(root)
    headers, sources = tree.files(("*.hpp",), (kind,)), tree.files(("*.cpp",), (kind,))
    tidy = find_tidy()
    if not tidy:
        print(f"SKIPPED: names in {kind} were not checked, clang-tidy 16 or later is needed")
        return
    # Which files there are is part of the text: a header that went may have been what another one needed.
    text = hashlib.sha256("\n".join([tidy[1], __doc__] + headers + sources).encode())
    for file in [".clang-tidy", "tests/style/check_names.py"] + headers + sources:
        text.update(hashlib.sha256((root / file).read_bytes()).digest())
    stamp = build / "tests/style/named" / text.hexdigest()
    if stamp.exists():
        print(f"names in {kind}: unchanged since they passed")
        return
    # What this build leaves out (oneDNN 2 or 3) cannot be parsed with its libraries.
    built = set((build / "tests/style/sources").read_text(encoding="utf-8").split(";"))
    faults = Names(tree, build, kind, tidy[0]).faults([source for source in sources if source in built])
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    stamp.touch()


if __name__ == "__main__":
    main()
