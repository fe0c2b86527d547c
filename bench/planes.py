#!/usr/bin/env python3
"""A model's KV planes on real prompts: the tables of docs/benchmarks/planes.md, and the profile that is shipped for the default model.

    bench/planes.py [--model MODEL] [--lynx PROGRAM] [--out FILE.md]           # measures
    bench/planes.py --calibrate configs/profiles/NAME.json                     # writes the profile

The prompts are chat requests about texts that a Debian machine with Python and CMake has: the sample handbook, Python's own manual and
sources, licences, CMake's modules, GNU manuals. A profile is calibrated on other texts, or other parts of them, than it is measured on.
"""
import argparse
import datetime
import gzip
import json
import pathlib
import pydoc_data.topics
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
STDLIB = pathlib.Path(sysconfig.get_path("stdlib"))
LICENSES = pathlib.Path("/usr/share/common-licenses")
INFO = pathlib.Path("/usr/share/info")


def manual(*topics: str) -> str:
    return "\n\n".join(pydoc_data.topics.topics[topic] for topic in topics)


def read(path: pathlib.Path) -> str:
    return gzip.decompress(path.read_bytes()).decode(errors="replace") if path.suffix == ".gz" else path.read_text(errors="replace")


def cmake_module(name: str) -> str:
    return read(sorted(pathlib.Path("/usr/share").glob(f"cmake-*/Modules/{name}.cmake"))[-1])


# name, tokens of the text, its first character, where it comes from, what is asked.
MEASURED = [
    ("handbook", 3400, 0, lambda: read(ROOT / "docs/sample/harbour_handbook.md"), "Summarise this handbook for a new member of the crew."),
    ("handbook_part", 2100, 4000, lambda: read(ROOT / "docs/sample/harbour_handbook.md"), "Which rules in this part are about safety? Explain each."),
    ("python_data_model", 5800, 0, lambda: manual("specialnames"), "Explain in your own words what this chapter is about."),
    ("python_statements", 4100, 0, lambda: manual("compound"), "Write a short tutorial about these statements, with examples."),
    ("python_formatting", 3000, 0, lambda: manual("formatstrings"), "How do I format a number with two decimals? Explain the options."),
    ("python_heapq", 4600, 0, lambda: read(STDLIB / "heapq.py"), "Describe what this module does, function by function."),
    ("python_textwrap", 3200, 0, lambda: read(STDLIB / "textwrap.py"), "Review this code and suggest improvements."),
    ("python_queue", 2300, 0, lambda: read(STDLIB / "queue.py"), "Write documentation for the classes in this file."),
    ("apache_licence", 2100, 0, lambda: read(LICENSES / "Apache-2.0"), "What does this licence allow, and what does it require?"),
    ("mozilla_licence", 3600, 0, lambda: read(LICENSES / "MPL-2.0"), "Explain this licence to somebody who is not a lawyer."),
    ("cmake_module", 5200, 0, lambda: cmake_module("FetchContent"), "Explain how to use this module in a project of my own."),
    ("coreutils_manual", 5900, 120000, lambda: read(INFO / "coreutils.info.gz"), "Summarise this part of the manual."),
]
CALIBRATED = [
    ("architecture", 3900, 0, lambda: read(ROOT / "ARCHITECTURE.md"), "Summarise how this program is built."),
    ("python_classes", 2700, 0, lambda: manual("types"), "Explain the types that this text names."),
    ("python_shlex", 3100, 0, lambda: read(STDLIB / "shlex.py"), "Describe what this module does."),
    ("gnu_licence", 5000, 0, lambda: read(LICENSES / "GPL-3"), "What does this licence require of somebody who distributes a program?"),
    ("cmake_threads", 2400, 0, lambda: cmake_module("ExternalProject"), "Explain how to use this module."),
    ("sed_manual", 4300, 30000, lambda: read(INFO / "sed.info.gz"), "Summarise this part of the manual."),
]


def run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} {command[1]}: exit code {done.returncode}")
    return done.stdout


def excerpt(args, text: str, tokens: int) -> str:
    """The first so many tokens of a text, without half a character at the end."""
    lines = run(args.lynx, "tokenize", args.model, text=text[: tokens * 12]).splitlines()[:tokens]
    return "".join(json.loads(line.split("\t", 1)[1]) for line in lines).rstrip("\ufffd")


def write_prompts(args, prompts: list, folder: pathlib.Path) -> list[str]:
    paths = []
    for name, tokens, first, source, question in prompts:
        message = {"role": "user", "content": f"{question}\n\n{excerpt(args, source()[first:], tokens)}"}
        path = folder / name
        path.write_text(run(args.lynx, "chat-template", args.model, text=json.dumps([message])).removesuffix("\n"))
        paths.append(str(path))
    return paths


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown processor"


def report(args, tables: str) -> str:
    return "\n".join([
        "# KV planes on real prompts", "",
        f"{pathlib.Path(args.model).name}, {len(MEASURED)} chat requests about manuals, source code, licences and the sample handbook. Sizes count everything that "
        "travels: scales, sinks, the raw tail block, a header with its checksum for every message. Behind each prompt the model writes up to "
        f"{args.continuation} tokens at full precision, once greedily, once sampled. KL and agreement compare the next-token predictions of a view with the exact "
        f"ones over that text. Every 8 tokens a draft of up to 32 begins: decoding over the Anchor planes as they lie, with the same noise; it is "
        "accepted up to the first token that full precision chose otherwise. Drafts that would reach beyond the text's end do not count. Greedy text of a model this "
        "small repeats itself now and then, which is easy to draft; sampled text does not. A table without a word about texts is over all of them, weighted by their "
        "length: the tail block makes short prompts dearer.", "",
        f"- {cpu_name()}, {datetime.date.today()}",
        f"- Command: `bench/planes.py{'' if args.profile is None else ' --profile ' + args.profile}`", "",
        tables.strip(), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / ".models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--lynx", default=str(ROOT / "build/release/cmd/lynx"))
    parser.add_argument("--profile", help="a plane profile other than the model's own")
    parser.add_argument("--continuation", type=int, default=128)
    parser.add_argument("--calibrate", metavar="PROFILE", help="write a profile instead of measuring")
    parser.add_argument("--only", help="names of prompts, separated by commas")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    prompts = CALIBRATED if args.calibrate else MEASURED
    if args.only:
        prompts = [prompt for prompt in prompts if prompt[0] in args.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        paths = write_prompts(args, prompts, pathlib.Path(folder))
        options = ["--continuation", str(args.continuation)]
        if args.calibrate:
            print(run(args.lynx, "calibrate", args.model, *paths, "--output", args.calibrate, *options))
            return
        if args.profile:
            options += ["--profile", args.profile]
        text = report(args, run(args.lynx, "planes", args.model, *paths, *options))
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
