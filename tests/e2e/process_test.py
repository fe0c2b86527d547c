"""The daemon as a process: exit codes, settings, signals, readiness, keys, logs."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from node import MODEL, PROGRAM, Node, clean_environment, eventually, http_bytes

PREFILL = os.environ["LYNX_TEST_PREFILL_NODE"]
TOOL = os.environ["LYNX_TEST_TOOL"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command: str, env=None) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment() | (env or {}), check=False)


class ProcessTest(unittest.TestCase):
    def test_help_version_and_settings(self):
        for program in (PROGRAM, PREFILL):
            self.assertIn("LYNX_HTTP_PORT", run(program, "--help").stdout)
            self.assertRegex(run(program, "--version").stdout, r"\d+\.\d+\.\d+")
            printed = run(program, "--print-config", "--http-port", "1234", env={"LYNX_HOST": "::1"})
            self.assertEqual(printed.returncode, 0)
            settings = json.loads(printed.stdout)
            self.assertEqual((settings["http-port"], settings["host"]), (1234, "::1"))

    def test_what_is_refused_is_named_and_has_its_exit_code(self):
        for code, mention, command in (
                (2, "--no-such", (PROGRAM, "--no-such")),
                (2, "--http-port", (PROGRAM, "--http-port", "x")),
                (2, "--model", (PROGRAM, "--aggregated")),
                (2, "--aggregated", (PROGRAM, "--model", str(MODEL))),
                (2, "cuda", (PROGRAM, "--aggregated", "--model", str(MODEL), "--device", "cuda")),
                (2, "/no/keys", (PROGRAM, "--aggregated", "--model", str(MODEL), "--api-key-file", "/no/keys")),
                (2, "max-model-len", (PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", "0", "--grpc-port", "0", "--max-model-len", "999999999")),
                (2, "--kv-memory", (PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", "0", "--grpc-port", "0", "--kv-memory", "64KiB")),
                (2, "--kv-memory", (PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", "0", "--grpc-port", "0", "--kv-memory", "100TiB")),
                (2, "/: cannot be read", (PROGRAM, "--config", "/")),
                (3, "/no/model.gguf", (PROGRAM, "--aggregated", "--http-port", "0", "--grpc-port", "0", "--model", "/no/model.gguf")),
                (3, "node.py", (PROGRAM, "--aggregated", "--http-port", "0", "--grpc-port", "0", "--model", str(pathlib.Path(__file__).with_name("node.py")))),
                (2, "--prefill", (PROGRAM, "--model", str(MODEL))),
                (2, "--prefill", (PROGRAM, "--aggregated", "--prefill", "127.0.0.1:7000", "--model", str(MODEL))),
                (2, "--prefill", (PROGRAM, "--prefill", "somewhere", "--model", str(MODEL))),
                (2, "--aggregated", (PREFILL, "--aggregated", "--model", str(MODEL))),
                (2, "--model", (PREFILL,)),
                (2, "--pair-secret-file", (PREFILL, "--model", str(MODEL), "--http-port", "0", "--control-port", "0", "--pair-secret-file", "/no/secret")),
                (2, "--net-devices", (PREFILL, "--model", str(MODEL), "--http-port", "0", "--control-port", "0", "--net-devices", "nothing0")),
                (3, "/no/model.gguf", (PREFILL, "--http-port", "0", "--control-port", "0", "--model", "/no/model.gguf"))):
            result = run(*command)
            self.assertEqual(result.returncode, code, (command, result.stderr))
            self.assertIn(mention, result.stderr)

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            result = run(PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", port)
        self.assertEqual(result.returncode, 1)
        self.assertIn(port, result.stderr)

    def test_sigterm_finishes_what_runs_and_refuses_what_is_new(self):
        with Node() as node:
            with node.connect() as running, running.makefile("rb") as stream:
                body = {"prompt": "Count:", "max_tokens": 150, "ignore_eos": True, "stream": True}
                running.sendall(http_bytes("/v1/completions", body, "Connection: close\r\n"))
                eventually(lambda: node.metric("lynx_scheduler_running_requests") == 1, "it runs")
                node.signal(signal.SIGTERM)
                status, _, health = eventually(lambda: (answer := node.request("/health"))[0] == 503 and answer, "readiness turns 503")
                self.assertEqual((status, health["status"]), (503, "draining"))
                status, headers, refused = node.request("/v1/completions", {"prompt": "x"})
                self.assertEqual((status, refused["error"]["code"]), (503, "draining"))
                self.assertTrue(headers["Retry-After"])
                self.assertIn(b"data: [DONE]", stream.read())
            self.assertEqual(node.wait(), 0)

    def test_a_second_signal_and_the_timeout_end_at_once(self):
        for arguments, signals in ((("--shutdown-timeout", "600"), 2), (("--shutdown-timeout", "0.1"), 1)):
            with Node(*arguments) as node:
                connection = node.connect()
                connection.sendall(http_bytes("/v1/completions", {"prompt": "x", "max_tokens": 4000, "ignore_eos": True}))
                eventually(lambda: node.metric("lynx_scheduler_running_requests") == 1, "it runs")
                node.signal(signal.SIGTERM)
                if signals == 2:
                    eventually(lambda: "draining" in node.log_text(), "the first signal is seen")
                    node.signal(signal.SIGINT)
                self.assertEqual(node.wait(), 1)
                connection.close()

    def test_idle_sigterm_is_a_clean_exit(self):
        with Node() as node:
            node.signal()
            self.assertEqual(node.wait(), 0)

    def test_keys_and_json_logs_that_never_hold_the_prompt(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("first\nsecond\n")
            keys.flush()
            with Node("--api-key-file", keys.name, "--log-format", "json", "--log-level", "debug") as node:
                body = {"prompt": "a very private prompt", "max_tokens": 2}
                self.assertEqual(node.request("/v1/completions", body)[0], 401)
                status, headers, _ = node.request("/v1/completions", body, {"Authorization": "Bearer second", "X-Request-Id": "log-me"})
                self.assertEqual((status, headers["X-Request-Id"]), (200, "log-me"))
                self.assertEqual(node.request("/health")[0], 200)
                node.signal()
                node.wait()
                lines = [json.loads(line) for line in node.log_text().splitlines()]
                self.assertTrue(any(line.get("request_id") == "log-me" and line.get("status") == 200 for line in lines))
                self.assertNotIn("private", node.log_text())

    def test_settings_from_a_file_that_print_config_made(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "node.json"
            config.write_text(run(PROGRAM, "--print-config", "--served-model-name", "one,two", "--max-model-len", "512").stdout)
            with Node("--config", str(config)) as node:
                models = node.request("/v1/models")[2]["data"]
                self.assertEqual([(model["id"], model["max_model_len"]) for model in models], [("one", 512), ("two", 512)])

    def test_a_request_that_can_never_fit_names_the_capacity(self):
        with Node("--kv-memory", "8MiB") as node:
            status, _, answer = node.request("/v1/completions", {"prompt": "x " * 6000, "max_tokens": 1000})
            self.assertEqual(status, 400)
            self.assertRegex(answer["error"]["message"], r"\d")

    def test_tools(self):
        shown = run(TOOL, "inspect", str(MODEL))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Q4_1", shown.stdout)
        tokens = run(TOOL, "tokenize", str(MODEL), "Hello world")
        self.assertEqual([line.split("\t")[1] for line in tokens.stdout.splitlines()], ['"Hello"', '" world"'])
        rendered = run(TOOL, "chat-template", str(MODEL), '[{"role":"user","content":"hi"}]')
        self.assertIn("<|im_start|>user\nhi<|im_end|>", rendered.stdout)
        self.assertEqual(run(TOOL, "inspect", "/no/such").returncode, 3)
        self.assertEqual(run(TOOL, "dance").returncode, 2)

    def test_tools_for_planes(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            text, profile = folder / "text", folder / "profile.json"
            text.write_text((ROOT / "docs/sample/harbour_handbook.md").read_text(encoding="utf-8")[:1500])
            short = ["--continuation", "24"]
            made = run(TOOL, "calibrate", str(MODEL), str(text), "--output", str(profile), "--most-bits", "7", *short)
            self.assertEqual(made.returncode, 0, made.stderr)
            empty = folder / "empty.json"
            refused = run(TOOL, "calibrate", str(MODEL), str(text), "--output", str(empty), *short)  # 4.7 bits: its tail alone takes more.
            self.assertEqual((refused.returncode, empty.exists()), (2, False))
            self.assertIn("too short", refused.stderr)
            wide = json.loads(profile.read_text())["wide_k"]
            self.assertTrue(wide)
            shown = run(TOOL, "planes", str(MODEL), str(text), "--profile", str(profile), *short)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(f"layers with wide K: {', '.join(map(str, wide))}.", shown.stdout)
            self.assertRegex(shown.stdout, r"\| both \| \d\.\d+ \| \d\.\d+ \| 1\d\.\d+ \|")
            for name, content, mention in (("one_block", "a few words", "travel raw"), ("no_text", "\udcff", "UTF-8")):
                (folder / name).write_bytes(content.encode(errors="surrogateescape"))
                refused = run(TOOL, "planes", str(MODEL), str(folder / name))
                self.assertEqual(refused.returncode, 2)
                self.assertRegex(refused.stderr, f"{name}: .*{mention}")
            self.assertEqual(run(TOOL, "planes", str(MODEL), str(text), "--profile", str(text)).returncode, 2)

    def test_idle_server_uses_no_processor(self):
        with Node() as node:
            node.complete(prompt="x", max_tokens=2)
            def ticks():
                fields = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])
            before = ticks()
            time.sleep(0.5)
            # Of the 50 ticks that one spinning thread would use.
            self.assertLess(ticks() - before, 25)


if __name__ == "__main__":
    unittest.main()
