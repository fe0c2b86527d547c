#!/usr/bin/env python3
"""House rules that a compiler does not check: includes by ARCHITECTURE.md's table, sizes of files and functions, names, formatting, and no
paths of somebody's machine. Run from the repository's root; prints every offence with file and line."""
import pathlib
import re
import shutil
import subprocess
import sys

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
CODE = {".h", ".cpp", ".cu", ".cuh"}
GENERATED = {"build", ".deps", ".models", ".venv", ".cache", ".run", ".git"}
FILE_NAME = re.compile(r"^(?:[a-z0-9_]+\.(?:h|cpp|cu|cuh|py|sh|md|json|txt|cmake|yaml)|CMakeLists\.txt|CMakePresets\.json|[A-Z]+\.md|[0-9]{4}-[a-z0-9-]+\.md|Lynx[A-Za-z]*\.cmake|.*/.*)$")
TYPE_NAME = re.compile(r"^\s*(?:class|struct|enum class|enum)\s+(?:alignas\([^)]*\)\s+)?([A-Za-z_]\w*)\s*(?:final\s*)?(?::[^:]|\{|$)")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:root|work|farm|home/\w+|tmp/setup)/")
CONTROL = re.compile(r"^\s*(?:if|for|while|switch|else|do|catch|namespace|class|struct|enum|union|extern|return|try)\b|^\s*\}\s*else")


def read_table(architecture: str) -> dict[str, set[str]]:
    """room -> rooms it may include, from the first table of ARCHITECTURE.md whose header says 'may include'."""
    rows = {}
    inside = False
    for line in architecture.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "may include":
            inside = True
        elif inside and not set(cells[0]) <= {"-"}:
            rows[cells[0]] = {name.strip() for name in cells[-1].split(",") if name.strip()}
    return rows


def tracked_files(root: pathlib.Path) -> list[pathlib.Path]:
    if (root / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return [root / name for name in listed.stdout.splitlines() if (root / name).is_file()]
    return [path for path in root.rglob("*") if path.is_file() and not GENERATED & set(path.relative_to(root).parts[:1])]


def check_includes(room: str, name: str, lines: list[str], table: dict[str, set[str]], report) -> None:
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1).split("/")[0]
        if "/" not in match.group(1):
            report(name, number, f'include "{match.group(1)}" is not written from the repository\'s root')
        elif target in table and target != room and target not in table[room]:
            report(name, number, f"room {room} may not include {match.group(1)} (see ARCHITECTURE.md)")


def check_functions(name: str, lines: list[str], report) -> None:
    """Sizes by the layout that clang-format gives: a body ends with a brace at the indentation of the line that starts the function."""
    for start, line in enumerate(lines):
        if not line.rstrip().endswith("{") or CONTROL.match(line):
            continue
        head = start
        # Up to the first line of the parameters, over a constructor's initializers.
        while head > 0 and start - head < 20 and (lines[head].count(")") > lines[head].count("(") or re.match(r"^\s+: ", lines[head])
                                                  or re.match(r"^\s+\w+_\(.*\),$", lines[head - 1]) or re.match(r"^\s+: .*,$", lines[head - 1])):
            head -= 1
        text = " ".join(lines[head : start + 1])
        if "(" not in text or CONTROL.match(lines[head]) or re.search(r"=\s*\{$|[,(]\s*\{$", text.rstrip()):
            continue
        indent = len(lines[head]) - len(lines[head].lstrip())
        for end in range(start + 1, len(lines)):
            if lines[end].startswith(" " * indent + "}"):
                if end - head + 1 > MAX_FUNCTION_LINES:
                    report(name, head + 1, f"function of {end - head + 1} lines (at most {MAX_FUNCTION_LINES})")
                break


def check_code(path: pathlib.Path, name: str, table: dict[str, set[str]], report) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    room = name.split("/")[0]
    if room not in table:
        report(name, 1, f"{room}/ is not in ARCHITECTURE.md's table of rooms")
        return
    check_includes(room, name, lines, table, report)
    if len(lines) > MAX_FILE_LINES:
        report(name, 1, f"{len(lines)} lines (at most {MAX_FILE_LINES})")
    check_functions(name, lines, report)
    if path.suffix == ".h" and "#pragma once" not in lines:
        report(name, 1, "no #pragma once")
    for number, line in enumerate(lines, 1):
        match = TYPE_NAME.match(line)
        if match and not re.match(r"^[A-Z][A-Za-z0-9]*$", match.group(1)):
            report(name, number, f"type {match.group(1)} is not CamelCase")


def check_built(name: str, build_text: str, report) -> None:
    """A test that no build file names passes for ever. `build_text`: of all build files of its folder."""
    file = name.split("/")[-1]
    if file.endswith("_test.cpp") and not re.search(rf"(?<!\w){re.escape(file)}", build_text):
        report(name, 1, "no build file of its folder names this test")


def check_format(root: pathlib.Path, files: list[pathlib.Path], report) -> None:
    tool = shutil.which("clang-format")
    if tool is None:
        report(".clang-format", 1, "clang-format is not installed")
        return
    result = subprocess.run([tool, "--dry-run", "-Werror", *map(str, files)], cwd=root, capture_output=True, text=True, check=False)
    for file in sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line}):
        report(file, 1, "not formatted (clang-format -i)")


def self_test() -> None:
    """The checks find what they are for."""
    table = read_table("| room | its one job | may include |\n|---|---|---|\n| a | x | |\n| b | y | a |\n")
    assert table == {"a": set(), "b": {"a"}}, table
    found = []
    check_includes("a", "a/x.h", ['#include "b/y.h"', '#include "x.h"', "#include <b>"], table, lambda *args: found.append(args))
    assert len(found) == 2, found
    found.clear()
    long_body = ["int f(int x,", "      int y) {"] + ["  ++x;"] * 80 + ["}"]
    check_functions("a/x.cpp", long_body, lambda *args: found.append(args))
    assert len(found) == 1 and found[0][1] == 1, found
    found.clear()
    check_built("a/one_test.cpp", "SOURCES one_test.cpp", lambda *args: found.append(args))
    check_built("a/two_test.cpp", "SOURCES one_two_test.cpp", lambda *args: found.append(args))
    assert [each[0] for each in found] == ["a/two_test.cpp"], found
    assert MACHINE_PATH.search("at /" + "root/x") and not MACHINE_PATH.search("/usr/share")


def main() -> int:
    self_test()
    root = pathlib.Path(__file__).resolve().parents[2]
    offences = []

    def report(name: str, line: int, text: str) -> None:
        offences.append(f"{name}:{line}: {text}")

    table = read_table((root / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    files = tracked_files(root)
    code = [path for path in files if path.suffix in CODE]
    if len(table) < 10 or len(code) < 10:
        report("ARCHITECTURE.md", 1, f"found {len(table)} rooms and {len(code)} sources: the check itself is broken")
    for path in files:
        name = path.relative_to(root).as_posix()
        if path.suffix in CODE:
            check_code(path, name, table, report)
            builds = [path.parent / "CMakeLists.txt", *path.parent.glob("*.cmake")]
            check_built(name, "".join(each.read_text(encoding="utf-8") for each in builds if each.is_file()), report)
        if not FILE_NAME.match(path.name) and path.suffix in CODE | {".py", ".sh", ".md"}:
            report(name, 1, "file name is not snake_case")
        if path.suffix in CODE | {".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yaml"} and path.stat().st_size < 2_000_000:
            if path == pathlib.Path(__file__).resolve():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                if MACHINE_PATH.search(line):
                    report(name, number, "a path of somebody's machine")
    check_format(root, code, report)
    print("\n".join(offences) if offences else f"{len(code)} sources in {len(table)} rooms: tidy")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
