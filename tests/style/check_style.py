# SPDX-License-Identifier: Apache-2.0
"""Checks of the sources as text: python3 tests/style/check_style.py ROOT CHECK

Each check prints what is wrong, one fault a line, and ends with 1; it prints "SKIPPED:" where its tool is missing."""

import collections
import hashlib
import posixpath
import re
import shutil
import statistics
import subprocess
import sys

from sources import PROGRAM_FOLDERS, Tree, classes, functions, without_comments

CPP = ("*.hpp", "*.cpp", "*.cu")
JOB_SCRIPTS = ("*.sh", "*.sbatch", "*.pbs", "*.lsf")
TABLE = "tests/style/layers.txt"

# Headers of vendors, and a view of tensors that assumes float32, and where they may be included. tests/bench measures
# vendors' own calls as the ceiling.
VENDOR_HEADERS = {
    r"mpi\.h": r"mpi/|tests/mpi/|tests/support/",
    r"nccl\.h": r"mpi/all_reduce/nccl/nccl_|tests/mpi/fake_nccl/",
    r"dnnl[a-z_]*\.hp?p?":
        r"kernels/cpu/(check|descriptors|device|image_layout|linear|native_precisions|operation|primitive_scope)\.|tests/bench/",
    r"cudnn[a-z_0-9]*\.h": r"kernels/gpu/handles\.|tests/cuda/fake/",
    r"cuda[a-z_0-9]*\.h": r"kernels/gpu/(driver|handles|loops/cuda_loops)\.|mpi/all_reduce/nccl/nccl_|tests/mpi/fake_nccl/|tests/cuda/fake/",
    r"cublas[A-Za-z_]*\.h": r"kernels/gpu/handles\.|tests/cuda/fake/",
    r"Kokkos_[A-Za-z]*\.hpp": r"kernels/gpu/loops/|tests/kernels/",
    r"hdf5\.h": r"src/|tests/checkpoint/",
    r"toml\+\+/[a-z.]*|toml\.hpp": r"src/config/deck",
    r"jpeglib\.h|jerror\.h|turbojpeg\.h": r"src/data/images/jpeg_|tests/data/images/",
    r"png\.h": r"src/data/images/png_|tests/data/images/",
    r"b?float(16)?_values\.hpp": r"kernels/|tests/",
    r"onnx_pb\.h|zero_copy_stream[a-z_]*\.h": r"src/onnx/write_onnx\.cpp|tests/onnx/",
}
MOST_HDF5_USERS = 2  # in src/
MOST_LINES = 500
MOST_MEMBERS, MOST_VIRTUALS, MOST_PARAMETERS = 15, 10, 6
# Classes that hold more, with what they hold now: these numbers may only fall.
MORE_MEMBERS = {
    "DataConfig": 46, "ModelConfig": 23, "StepReport": 31,  # one for each key or figure
}
MORE_VIRTUALS = {"DeviceFlat": 11, "HostFlat": 11, "ReferenceFlat": 11}
# Functions of these names, in whichever class, with the longest list of parameters that one of them has.
MORE_PARAMETERS = {
    "normalise_backward": 10, "backward": 9, "layer_norm_backward": 7, "check_backward_sums": 9,
    "batch_norm_backward_sums": 9, "backward_sums": 8, "check_backward_data": 8, "slope_and_bias_gradient": 8,
    "image_gradient_sums": 8, "check_sums": 8, "find_gradient": 8, "unit_gradient_sums": 8, "normalise_pixels": 8,
    "normalise_row": 8, "matrix_product": 8, "check_backward": 8, "batch_norm_backward_data": 8, "linear_backward": 8,
    "backward_data": 7, "add_bias_and_activate": 7, "differentiate": 7, "differentiate_row": 7, "add_row": 7,
    "refuse_link": 7,
}


def layers(tree):
    """Folder: the folders that it may use beside itself. A folder below one of these has its own row, if any."""
    rows = {}
    for line in tree.lines(TABLE):
        row, _, _ = line.partition("#")
        if row.strip():
            folder, _, uses = row.partition(":")
            rows[folder.strip()] = uses.split()
    return rows


def layering(tree):
    """Dependencies point one way (kernels <- {models, mpi} <- src), vendor headers stay at home, and the preprocessor
    includes and nothing else: a build choice is a source file chosen by CMake. A source includes its own header first,
    which shows that this compiles alone."""
    rows = layers(tree)
    files = tree.files(CPP, PROGRAM_FOLDERS + ("tests",))

    def layer_of(path):
        return max((row for row in rows if path.startswith(row + "/")), key=len, default="")

    hdf5_users = []
    for file in files:
        folder = layer_of(file)
        lines = tree.lines(file)
        includes = [line for line in lines if re.match(r"\s*#\s*include", line)]
        own = re.sub(r"\.(cpp|cu)$", ".hpp", file)
        if own != file and not file.startswith("tests/") and tree.exists(own) and (not includes or f'"{own}"' not in includes[0]):
            yield f'{file}: must include "{own}" first'
        for line in includes:
            if match := re.search(r'include\s*"([^"]*)"', line):
                path = match.group(1)
                used = layer_of(path)
                if not re.match(r"(kernels|models|mpi|src|tests)/", path) or ".." in path:
                    yield f'{file}: "{path}" must be written from the root, as "folder/file.hpp"'
                elif not folder:
                    yield f"{file}: belongs to no layer; {TABLE} lists them"
                elif used != folder and not any((used + "/").startswith(row + "/") for row in rows[folder]):
                    yield f"{file}: {folder}/ may not use {used}/"
            for header, home in VENDOR_HEADERS.items():
                if re.search(rf'[<"](.*/)?({header})[>"]', line) and not re.match(home, file):
                    yield f"{file}: '{line}' belongs in {home}"
            if "hdf5.h" in line and file.startswith("src/"):
                hdf5_users.append(file)
        for line in lines:
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|define|undef)\b", line):
                yield f"{file}: preprocessor conditional or macro '{line}'"
    if len(hdf5_users) > MOST_HDF5_USERS:
        yield f"<hdf5.h> is included in more than {MOST_HDF5_USERS} files of src/: {hdf5_users}"
    picture = "docs/architecture.svg"
    if hashlib.sha256(tree.text(TABLE).encode()).hexdigest() not in tree.text(picture):
        yield f"{picture}: {TABLE} has changed; run scripts/draw_architecture.sh"


def lengths(tree):
    """No file of code is longer than MOST_LINES. Prints, for each folder, how many files, their lines, the median and the longest."""
    of_folder = collections.defaultdict(list)
    for file in tree.files(CPP + ("*.cmake", "CMakeLists.txt", "*.sh", "*.py")):
        length = tree.text(file).count("\n")
        if length > MOST_LINES:
            yield f"{file}: {length} lines, at most {MOST_LINES} are allowed: split it by subject"
        folder = re.match(r"((tests|src)/[a-z_]+/|[a-z]+/)?", file).group(0) or "top"
        for group in ("all", folder):
            of_folder[group].append(length)
    print(f"{'folder':28}{'files':>8}{'lines':>8}{'median':>8}{'longest':>8}")
    for folder, found in of_folder.items():
        print(f"{folder:28}{len(found):8}{sum(found):8}{statistics.median_high(found):8}{max(found):8}")


def interfaces(tree):
    """A reader holds no class in mind that has more than MOST_MEMBERS members or MOST_VIRTUALS virtual functions, private and
    inherited ones counted, and calls no function with more than MOST_PARAMETERS parameters."""
    known = {}
    longest = collections.Counter()
    for file in tree.files(CPP, PROGRAM_FOLDERS):
        text = without_comments(tree.text(file))
        for one in classes(text, file):
            known.setdefault(one.name, one)
        for qualified, count, position in functions(text):
            name = qualified.split("::")[-1]
            longest[name] = max(longest[name], count)
            most = max(MOST_PARAMETERS, MORE_PARAMETERS.get(name, 0))
            if count > most:
                line = text.count("\n", 0, position) + 1
                yield f"{file}:{line}: {qualified} has {count} parameters, at most {most} are allowed: pass what belongs together as a struct"
    for name, count in MORE_PARAMETERS.items():
        if count > max(longest[name], MOST_PARAMETERS):
            yield f"tests/style/check_style.py: {name} has {longest[name]} parameters now, not {count}"

    def total(one, what, seen=()):
        bases = [known[base.split("::")[-1]] for base in one.bases if base.split("::")[-1] in known]
        return len(getattr(one, what)) + sum(total(base, what, seen + (one.name,)) for base in bases if base.name not in seen)

    def allowed(one, most, more):
        """Of a class that is named in `more`, or derives from such a class, its number."""
        names, bases = [one.name], list(one.bases)
        while bases:
            base = bases.pop().split("::")[-1]
            names.append(base)
            bases += known[base].bases if base in known and known[base] is not one else []
        return max([most] + [more[name] for name in names if name in more])

    for one in known.values():
        for what, most, more in (("members", MOST_MEMBERS, MORE_MEMBERS), ("virtuals", MOST_VIRTUALS, MORE_VIRTUALS)):
            count = total(one, what)
            if count > allowed(one, most, more):
                yield f"{one.path}:{one.line}: {one.name} has {count} {what}, at most {allowed(one, most, more)} are allowed: split it"
            if more.get(one.name, count) > max(count, most):
                yield f"tests/style/check_style.py: {one.name} has {count} {what} now, not {more[one.name]}"


def licence(tree):
    """One SPDX line leads every source, script and build file, behind the line that names an interpreter."""
    for file in tree.files(CPP + JOB_SCRIPTS + ("*.cmake", "CMakeLists.txt", "*.py", ".ci/run")):
        head = tree.lines(file)[:2]
        first = head[1:] if head and head[0].startswith("#!") else head
        if not first or not re.fullmatch(r"(//|#) SPDX-License-Identifier: Apache-2\.0", first[0]):
            yield f"{file}: does not begin with 'SPDX-License-Identifier: Apache-2.0'"


def words(tree):
    """Words that do not belong: notes to oneself, paths of one machine, output past src/observe/, subjects that name no rank,
    thread or process, comments that make sense only beside another one, citations of documents that do not exist."""
    # The brackets keep this file from finding itself.
    anywhere = {
        r"(?<![A-Za-z])(TO[D]O|FIX[M]E|X[X]X)(?![A-Za-z])|/wor[k]/|/tm[p]/wt": "an issue number or nothing, and no machine's paths",
        r"(?<![A-Za-z_])([Nn]obod[y]|[Ww]hoeve[r]|[Ss]omebod[y]|[Ss]omeon[e])(?![A-Za-z_])": "name the rank, the thread or the caller that is meant",
    }
    program = {
        r"//[/<]* ?(The same|Likewise|As above|Ditto|So (is|are) the next|And |…)": "a comment stands alone, an editor shows it without its neighbours",
    }
    output = {r"std::cout|std::put[s]|[^a-z_]print[f]\(|print[f]\(stdout|using namespace": "output goes through src/observe/, and no namespace is emptied"}
    cited = re.compile(r"[A-Za-z0-9_./-]+[.]md(?![A-Za-z0-9_])")
    folders = PROGRAM_FOLDERS + ("tests", "cmake", "scripts", "jobscripts", "examples", "docs", "inputs", ".ci")
    for file in tree.files(CPP + JOB_SCRIPTS + ("*.cmake", "CMakeLists.txt", "*.py", "*.md", "*.toml", ".ci/run"), folders):
        rules = dict(anywhere)
        if file.startswith(tuple(folder + "/" for folder in PROGRAM_FOLDERS)):
            rules |= program
            if not file.startswith("src/observe/"):
                rules |= output
        folder = file.rpartition("/")[0]
        for number, line in enumerate(tree.lines(file), 1):
            for pattern, remedy in rules.items():
                if re.search(pattern, line):
                    yield f"{file}:{number}: {remedy}: {line}"
            if file.startswith("tests/"):  # They lay documents of their own.
                continue
            for path in cited.findall(line):
                if not path.startswith("//") and not tree.exists(path) and not tree.exists(f"{folder}/{path}"):
                    yield f"{file}:{number}: cites {path}, which the repository does not hold"


def links(tree):
    """Every link of a document leads to a file that is there, and to a heading that is in it."""

    def headings(path):
        text = re.sub(r"^```.*?^```", "", tree.text(path), flags=re.S | re.M)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}

    for file in tree.files(("*.md",), ("docs", "examples", "inputs")):
        for path, _, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]*))?\)", tree.text(file)):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file
            if not tree.exists(target):
                yield f"{file}: links to {path}, which is not there"
            elif heading and heading not in headings(target):
                yield f"{file}: links to {path}#{heading}, and {target} has no such heading"


def registered(tree):
    """Every test that is written is run: each folder below tests/ with sources is entered, and each source is named in its
    folder's CMakeLists.txt."""
    entered = tree.text("tests/CMakeLists.txt")
    tests = 0
    for file in tree.files(("*.cpp",), ("tests",)):
        match = re.match(r"tests/([^/]+)/(.*?)([^/]*)\.cpp$", file)
        if not match:
            continue
        folder, _, name = match.groups()
        if f"add_subdirectory({folder})" not in entered:
            yield f"{file}: tests/CMakeLists.txt does not enter {folder}/"
        rules = f"tests/{folder}/CMakeLists.txt"
        if not tree.exists(rules) or not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", tree.text(rules)):
            yield f"{file}: {rules} does not name it, so it is never built"
        count = len(re.findall(r"^(?:(?:TYPED_)?TEST(?:_F|_P)?|INSTANTIATE_TYPED_TEST_SUITE_P)\(", tree.text(file), re.M))
        tests += count
        if name.startswith("test_") and count == 0:
            yield f"{file}: holds no test"
    print(f"{tests} tests are written")
    if tests == 0:
        yield "there is no test at all below tests/"


def bounds(tree):
    """Comparisons of numbers within a bound go through tests/support/within.hpp, which tells scripts/check_bounds.sh how much of
    the bound they use."""
    direct = re.compile(r"(EXPECT|ASSERT)_(NEAR|FLOAT_EQ|DOUBLE_EQ)|(Float|Double)(Near|Eq)\(|"
                        r"(EXPECT|ASSERT)_L[TE]\( *([a-z_]+::)*([a-z_]*difference|abs|fabs)\(")
    for file in tree.files(("*.hpp", "*.cpp"), ("tests",)):
        for number, line in enumerate(tree.lines(file), 1):
            if direct.search(line):
                yield f"{file}:{number}: bounds go through test::within, exact values through EXPECT_EQ: {line}"


def run_tool(tree, command, files):
    """What a tool complains of, line by line."""
    done = subprocess.run(command + files, cwd=tree.root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield from (line for line in (done.stdout + done.stderr).splitlines() if re.search(r"error|warning|note", line))
        yield f"{command[0]} ended with {done.returncode}"


def format_of_sources(tree):
    """Sources are as clang-format 14 lays them out; other versions lay out differently."""
    formatter = shutil.which("clang-format-14")
    if not formatter:
        print("SKIPPED: the format was not checked, clang-format-14 is not installed")
        return
    yield from run_tool(tree, [formatter, "--dry-run", "-Werror", "--style=file"], tree.files(CPP, PROGRAM_FOLDERS + ("tests", "examples")))


def shell(tree):
    """shellcheck has nothing to say about the scripts."""
    if not shutil.which("shellcheck"):
        print("SKIPPED: the scripts were not checked, shellcheck is not installed")
        return
    files = tree.files(JOB_SCRIPTS + (".ci/run",), ("scripts", "jobscripts", "tests", "examples"))
    yield from run_tool(tree, ["shellcheck", "--external-sources", "--format=gcc"], files)


CHECKS = {check.__name__.partition("_of_")[0]: check
          for check in (layering, lengths, interfaces, licence, words, links, registered, bounds, format_of_sources,
                        shell)}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in CHECKS:
        raise SystemExit(f"check_style.py: needs the root of the sources and one of {', '.join(CHECKS)}")
    faults = list(CHECKS[sys.argv[2]](Tree(sys.argv[1])))
    for fault in faults:
        print(f"{sys.argv[2]}: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
