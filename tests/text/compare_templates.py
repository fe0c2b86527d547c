#!/usr/bin/env python3
"""Renders real chat templates with jinja2 and with Lynx and compares byte for byte.

compare_templates.py --tool lynx_render_template --templates .cache/templates --model default.gguf

Fails when a template of the families that Lynx serves is refused, when any output differs, or when one side renders what the other
calls an error. Templates of other families may be refused at parse; they are listed with the reason.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys

from jinja_reference import compile_template, environment, render

# Files whose templates must render whatever happens; the rest of the folder may be refused for a construct of theirs.
REQUIRED = ("SmolLM2", "meta-llama", "Llama-3", "Qwen", "QwQ", "Mistral", "mistral", "Ministral", "SmolLM3")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather of a city, e.g. "Zürich" <now> & later',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14.5},
                    "places": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
                },
                "required": ["city"],
            },
            "return": {"type": "object", "properties": {"t": {"type": "number"}}},
        },
    },
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
# What templates that cannot read TOOLS expect: no "function" around it, each type one name.
FLAT_TOOLS = [
    {
        "name": "find",
        "description": "Finds things.",
        "parameters": {
            "type": "object",
            "properties": {
                "what": {"type": "string", "description": "The thing"},
                "ways": {"type": "array", "description": "How", "items": {"type": "string"}},
                "more": {"type": "object", "description": "", "additionalProperties": {"type": "number"}},
            },
            "required": ["what"],
        },
        "parameter_definitions": {"what": {"type": "str", "description": "The thing", "required": True}},
        "return": {"type": "string", "description": "It"},
    }
]
NASTY = "He said \"hi\", it's\n\n 日本語 🙂 \\n {{ x }} <|im_end|> <|eot_id|> [INST] </s> <b>&amp;</b>\t"


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(arguments, identifier="abcdefghi"):
    return {"id": identifier, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def tool(content, identifier="abcdefghi"):
    return {"role": "tool", "content": content, "name": "get_weather", "tool_call_id": identifier}


CONVERSATIONS = {
    "user": [user("Hello")],
    "system": [system("You are terse."), user("Hello")],
    "turns": [user("One"), assistant("Two"), user("Three"), assistant("Four"), user("Five")],
    "system turns": [system("S"), user("One"), assistant("Two"), user("Three")],
    "ends with assistant": [user("One"), assistant("Two")],
    "empty content": [system(""), user(""), assistant(""), user("x")],
    "null content": [user("x"), assistant(None), user("y")],
    "missing content": [user("x"), {"role": "assistant"}, user("y")],
    "spaces": [system("  s \n"), user("\n\n x  "), assistant(" \t y\n"), user("z ")],
    "nasty": [system(NASTY), user(NASTY), assistant(NASTY), user(NASTY)],
    "thinking": [user("1+1?"), assistant("<think>\nsum\n</think>\n\n2"), user("2+2?")],
    "thinking last": [user("1+1?"), assistant("<think>\nsum\n</think>\n\n2")],
    "reasoning field": [user("1+1?"), assistant("2", reasoning_content="sum", thinking="sum"), user("2+2?")],
    "tool call": [
        user("Weather?"),
        assistant("", tool_calls=[call({"city": "Zürich", "days": 3, "flag": True, "none": None, "x": [1, {"y": 1.5}]})]),
        tool('{"t": 21}'),
        assistant("21 degrees"),
        user("Thanks"),
    ],
    "tool call text arguments": [
        user("Weather?"),
        assistant(None, tool_calls=[call('{"city": "Rome"}')]),
        tool("sunny"),
        user("And now?"),
    ],
    "two tool calls": [
        user("Weather?"),
        assistant("Let me see.", tool_calls=[call({"city": "A"}, "aaaaaaaaa"), call({"city": "B"}, "bbbbbbbbb")]),
        tool("1", "aaaaaaaaa"),
        tool({"t": [1, 2.5, None]}, "bbbbbbbbb"),
    ],
    "content parts": [user([{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]), assistant("x"), user("y")],
    "image": [user([{"type": "image"}, {"type": "text", "text": "What is this?"}])],
    "two users": [user("a"), user("b")],
    "assistant first": [assistant("a"), user("b")],
    "system late": [user("a"), system("b"), user("c")],
    "unknown role": [{"role": "critic", "content": "hm"}, user("b")],
    "developer": [{"role": "developer", "content": "Be brief."}, user("b")],
    "no messages": [],
    "no role": [{"content": "x"}],
}
SETTINGS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "tools": [], "date_string": "1 Jan 2025", "documents": [{"title": "T", "text": "D"}]},
    {"add_generation_prompt": True, "tools": TOOLS, "enable_thinking": True, "reasoning_effort": "high"},
    {"tools": FLAT_TOOLS, "functions": json.dumps(FLAT_TOOLS), "datetime": "now"},
]


def cases():
    for name, messages in CONVERSATIONS.items():
        for setting in SETTINGS:
            variables = {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}
            yield name, {**variables, **setting}
        yield name, {"messages": messages}


def gguf_chat_template(path):
    """The string tokenizer.chat_template of a GGUF file."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    with open(path, "rb") as file:
        _, _, _, count = struct.unpack("<IIQQ", file.read(24))

        def text():
            return file.read(struct.unpack("<Q", file.read(8))[0]).decode()

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                item, length = struct.unpack("<IQ", file.read(12))
                for _ in range(length):
                    value(item)
            else:
                file.read(sizes[kind])
            return None

        for _ in range(count):
            key = text()
            found = value(struct.unpack("<I", file.read(4))[0])
            if key == "tokenizer.chat_template":
                return found
    sys.exit(f"{path}: no tokenizer.chat_template")


class Lynx:
    def __init__(self, tool):
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, template, variables):
        line = json.dumps({"template": template, "variables": variables})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"lynx_render_template ended with {self.process.wait()}")
        return json.loads(answer)


def difference(expected, got):
    """Why the two results differ; None when they agree."""
    if "output" in expected and "output" in got:
        if expected["output"] == got["output"]:
            return None
        at = next((i for i, (a, b) in enumerate(zip(expected["output"], got["output"])) if a != b), 0)
        return f"differs at {at}: expected {expected['output'][at - 20 : at + 60]!r}, got {got['output'][at - 20 : at + 60]!r}"
    if "output" in expected:
        return f"Lynx failed: {got['error']}"
    if "output" in got:
        return f"jinja2 failed ({expected['error']}), Lynx did not"
    if expected["error"].startswith("maximum recursion depth"):  # A macro that calls itself without end.
        return None if got["code"] == "RESOURCE_EXHAUSTED" else f"expected recursion without end, got {got['error']!r}"
    same = expected["error"] == got["error"] if expected["raised"] else got["error"].endswith(expected["error"])
    return None if same else f"other error: expected {expected['error']!r}, got {got['error']!r}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--templates", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a GGUF file with a chat template")
    parser.add_argument("--verbose", action="store_true", help="also show errors on both sides")
    options = parser.parse_args()
    files = sorted(options.templates.glob("*.jinja"))
    if not files:
        sys.exit(f"{options.templates}: no templates; scripts/fetch_test_vocabs.sh fetches them")
    templates = {path.name: path.read_text() for path in files}
    templates[f"SmolLM2 ({options.model.name})"] = gguf_chat_template(options.model)

    env, lynx = environment(), Lynx(options.tool)
    identical, refused, failed, renders = 0, {}, {}, 0
    for name, template in templates.items():
        problems, errors = [], 0
        compiled = compile_template(env, template)
        for case, variables in cases():
            expected, got = render(compiled, variables), lynx.render(template, variables)
            if got.get("code") == "UNIMPLEMENTED":
                refused[name] = got["error"]
                break
            renders += 1
            errors += "error" in got
            if options.verbose and "error" in got:
                print(f"{name}: {case}: {expected.get('error')} / {got['error']}")
            if problem := difference(expected, got):
                problems.append(f"{case}: {problem}")
        else:
            identical += not problems
            if problems:
                failed[name] = problems
            print(f"{'DIFFERS' if problems else 'same':8} {name} ({errors} of {len(list(cases()))} are errors on both sides)")
    for name, reason in refused.items():
        print(f"refused  {name}: {reason}")
        if name.startswith(REQUIRED) or any(part in name for part in REQUIRED):
            failed.setdefault(name, []).append(f"must not be refused: {reason}")
    for name, problems in failed.items():
        print(f"\n{name}: {len(problems)} problem(s)")
        for problem in problems[:5]:
            print(f"  {problem}")
    print(f"\n{identical} of {len(templates)} templates identical in {renders} renders, {len(refused)} refused, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
