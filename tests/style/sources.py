# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: the files of the tree, and C++ read without a compiler."""

import pathlib
import re

CODE_FOLDERS = ("src", "kernels", "models", "mpi", "tests", "cmake", "scripts", "jobscripts", "examples", ".ci")
PROGRAM_FOLDERS = ("src", "kernels", "models", "mpi")


class Tree:
    """The files of a source tree, as paths relative to its root."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def files(self, patterns, folders=CODE_FOLDERS):
        """Sorted paths below `folders` and directly in the root. Raises SystemExit if there are none: a check of no
        files proves nothing."""
        found = {path for pattern in patterns for path in self.root.glob(pattern)}
        for folder in folders:
            for pattern in patterns:
                found.update((self.root / folder).rglob(pattern))
        paths = sorted(str(path.relative_to(self.root)) for path in found if path.is_file())
        if not paths:
            raise SystemExit(f"no file of {', '.join(patterns)} below {self.root}: nothing was checked")
        return paths

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def lines(self, path):
        return self.text(path).splitlines()

    def exists(self, path):
        return (self.root / path).exists()


LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9A-Fa-f])\'(?:[^\'\\\n]|\\.)*\'', re.S)


def without_comments(text):
    """C++ without comments, with empty literals, and with its line feeds."""

    def replace(match):
        found = match.group(0)
        return ("" if found.startswith("/") else '""') + "\n" * found.count("\n")

    return LITERALS.sub(replace, text)


def closing(text, begin, opening, end):
    """The position behind the bracket that closes the one at `begin`."""
    depth = 0
    for position in range(begin, len(text)):
        if text[position] == opening:
            depth += 1
        elif text[position] == end:
            depth -= 1
            if depth == 0:
                return position + 1
    return len(text)


def without_angles(text):
    """A declaration without the arguments of its templates."""
    previous = None
    text = text.replace("->", "  ").replace("operator<", "operator ").replace("<=", "  ").replace(">=", "  ")
    while previous != text:
        previous = text
        text = re.sub(r"<[^<>;{}]*>", "", text)
    return text


class ClassText:
    """A class or struct as its definition reads.

    name: with the classes around it; bases: names as written; members: (name, is public) of its own non-static data;
    virtuals: names of functions that it declares virtual, its destructor aside; path and line: where it begins.
    """

    def __init__(self, name, bases, path, line):
        self.name, self.bases, self.path, self.line = name, bases, path, line
        self.members, self.virtuals = [], []


HEAD = re.compile(r"(?<!enum )\b(class|struct)\s+(?:alignas\([^)]*\)\s*)?(?:\[\[\w+\]\]\s*)?([A-Za-z_][\w:]*)\s*(?:final\s*)?(:[^;{}()]*)?\{")
NO_MEMBER = re.compile(r"^(?:using|friend|static|typedef|template|enum|class|struct|union|return|constexpr|inline|explicit|operator|public|private|protected)\b")


def statements(body):
    """The statements of a class body at its outermost level: (text, position, ends with a block)."""
    begin = position = 0
    while position < len(body):
        letter = body[position]
        if letter == "(":
            position = closing(body, position, "(", ")")
        elif letter == "{":
            end = closing(body, position, "{", "}")
            rest = body[end:].lstrip()
            if rest[:1] in (";", ","):  # An initial value, or the end of a class
                position = end
                continue
            yield body[begin:end].strip(), begin, True
            begin = position = end
        elif letter == ";":
            yield body[begin:position].strip(), begin, False
            position += 1
            begin = position
        else:
            label = re.compile(r"\s*(public|private|protected)\s*:(?!:)").match(body, begin) if position == begin else None
            if label:
                yield label.group(1) + ":", begin, False
                begin = position = label.end()
            else:
                position += 1


def classes(text, path):
    """Every class that `text`, which has no comments, defines."""
    found = []

    def read(part, offset, outer):
        position = 0
        while match := HEAD.search(part, position):
            begin = match.end() - 1
            end = closing(part, begin, "{", "}")
            name = f"{outer}::{match.group(2)}" if outer else match.group(2)
            bases = re.findall(r"(?:public|protected|private)?\s*(?:virtual\s+)?([\w:]+)(?:<[^,]*>)?\s*(?:,|$)",
                               (match.group(3) or "")[1:].strip())
            one = ClassText(name, bases, path, text.count("\n", 0, offset + match.start()) + 1)
            found.append(one)
            fill(one, part[begin + 1:end - 1], match.group(1) == "struct")
            read(part[begin + 1:end - 1], offset + begin + 1, name)
            position = end

    read(text, 0, "")
    return found


def fill(one, body, public):
    """Notes the members and virtual functions that stand in `body`."""
    for statement, _, _ in statements(body):
        if re.fullmatch(r"(public|private|protected):", statement):
            public = statement == "public:"
            continue
        plain = without_angles(statement)
        if match := re.match(r"(?:\[\[\w+\]\]\s*)?virtual\b[^(]*?([~\w]+|operator\s*\S+)\s*\(", plain):
            if not match.group(1).startswith("~"):
                one.virtuals.append(match.group(1))
            continue
        if NO_MEMBER.match(plain) or re.search(r"\boperator\b", plain):
            continue
        declared = re.sub(r"\s*(=(?!=)|\{).*", "", re.sub(r"\{[^{}]*\}", "", plain), flags=re.S)
        declared = re.sub(r"\[[^\]]*\]|\balignas\([^)]*\)|\bmutable\b|\bconst\b", " ", declared)
        if "(" in declared or ")" in declared:
            continue
        for number, name in enumerate(declared.split(",")):
            words = name.split()
            if len(words) >= (2 if number == 0 else 1) and re.fullmatch(r"[*&]*[A-Za-z_]\w*", words[-1]):
                one.members.append((words[-1].lstrip("*&"), public))


def functions(text):
    """(name, number of parameters, position) of each function that `text`, which has no comments, declares or defines."""
    pattern = re.compile(r"(?:^|[;{}>:]|\n)\s*(?:[\w:<>,*&\s\[\]]+?[\s*&>])([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*\(")
    for match in pattern.finditer(text):
        begin = match.end() - 1
        end = closing(text, begin, "(", ")")
        behind = text[end:end + 60].lstrip()
        before = match.group(0)
        if re.search(r"\b(return|else|throw|new|co_\w+|case)\b", before) or "=" in before:
            continue
        if not re.match(r"(const\b|noexcept|override|final|->|\{|;|:|=|requires)", behind):
            continue
        inside = without_angles(re.sub(r"\{[^{}]*\}", "", text[begin + 1:end - 1]))
        depth, count = 0, 1 if inside.strip() else 0
        for letter in inside:
            depth += (letter in "([{") - (letter in ")]}")
            count += letter == "," and depth == 0
        # A call: its arguments hold literals or members, or have no type before their name.
        if count and behind[:1] == ";" and re.search(r'"|\w\.\w', inside) and "=" not in inside:
            continue
        if count and behind[:1] == ";" and not re.match(r"\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s+|\s*[*&]+\s*)(?:const\s+)?[A-Za-z_&*.]", inside):
            continue
        yield match.group(1), count, begin
