"""What clients do that libraries do not: leaving in every state, odd framing, not reading."""
import json
import socket
import struct
import unittest

from node import LONG_TEXT, Node, eventually, http_bytes

FOREVER = {"prompt": LONG_TEXT[:300], "max_tokens": 4000, "ignore_eos": True, "temperature": 0}


def reset(connection: socket.socket):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def half_close(connection: socket.socket):
    connection.shutdown(socket.SHUT_WR)


def read_response(stream) -> tuple[int, dict, bytes]:
    status = int(stream.readline().split()[1])
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(stream.readline(), 16):
            body += stream.read(size)
            stream.readline()
        stream.readline()
        return status, headers, body
    return status, headers, stream.read(int(headers["content-length"]))


class RawHttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node("--max-running", "2")
        cls.baseline = cls.node.metric("lynx_kv_free_blocks")

    @classmethod
    def tearDownClass(cls):
        cls.node.kill()

    def assert_all_freed(self):
        eventually(self.node.idle, "the node is idle")
        self.assertEqual(self.node.metric("lynx_kv_free_blocks"), self.baseline)

    def test_a_client_that_leaves_in_any_state_frees_its_request(self):
        for leave in (socket.socket.close, reset, half_close):
            for stream in (False, True):
                running = [self.node.connect() for _ in range(2)]
                for connection in running:
                    connection.sendall(http_bytes("/v1/completions", FOREVER | {"stream": stream}))
                eventually(lambda: self.node.metric("lynx_scheduler_running_requests") == 2, "two run")
                queued = self.node.connect()
                queued.sendall(http_bytes("/v1/completions", FOREVER | {"stream": stream}))
                eventually(lambda: self.node.metric("lynx_scheduler_waiting_requests") == 1, "one waits")
                leave(queued)
                eventually(lambda: self.node.metric("lynx_scheduler_waiting_requests") == 0, "the waiting one is gone")
                if stream:
                    self.assertTrue(running[0].recv(1))
                for connection in running:
                    leave(connection)
                self.assert_all_freed()
                for connection in (queued, *running):
                    connection.close()

    def test_a_client_that_leaves_in_prefill_frees_its_request(self):
        body = {"prompt": LONG_TEXT[:14000], "max_tokens": 5}
        for leave in (socket.socket.close, reset):
            connection = self.node.connect()
            connection.sendall(http_bytes("/v1/completions", body))
            eventually(lambda: self.node.metric("lynx_scheduler_running_requests") == 1, "it runs")
            leave(connection)
            self.assert_all_freed()

    def test_pipelined_requests_are_answered_in_order(self):
        prompts = [f"Number {index} is" for index in range(5)]
        with self.node.connect() as connection, connection.makefile("rb") as stream:
            for index, prompt in enumerate(prompts):
                body = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "stream": index % 2 == 1}
                connection.sendall(http_bytes("/v1/completions", body, f"X-Request-Id: pipe-{index}\r\n"))
            for index, _ in enumerate(prompts):
                status, headers, _ = read_response(stream)
                self.assertEqual((status, headers["x-request-id"]), (200, f"pipe-{index}"))

    def test_chunked_request_body(self):
        body = json.dumps({"prompt": "The sky is", "max_tokens": 3, "temperature": 0}).encode()
        expected = self.node.complete(prompt="The sky is", max_tokens=3, temperature=0)["choices"][0]["text"]
        with self.node.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 7):
                piece = body[start:start + 7]
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
            status, _, answer = read_response(stream)
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(answer)["choices"][0]["text"], expected)

    def test_a_reader_that_never_reads_does_not_hold_up_others(self):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", self.node.port))
        slow.sendall(http_bytes("/v1/completions", FOREVER | {"stream": True, "logprobs": 20}))
        eventually(lambda: self.node.metric("lynx_scheduler_running_requests") == 1, "it runs")
        for _ in range(3):
            self.assertEqual(len(self.node.complete(prompt="Meanwhile", max_tokens=5)["choices"]), 1)
        slow.close()
        self.assert_all_freed()

    def test_events_are_lines_of_valid_utf8_and_the_body_ends_behind_done(self):
        with self.node.connect() as connection, connection.makefile("rb") as stream:
            body = {"messages": [{"role": "user", "content": "Say 😀 and 你好"}], "stream": True, "max_tokens": 30, "temperature": 0}
            connection.sendall(http_bytes("/v1/chat/completions", body))
            status, headers, answer = read_response(stream)
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        self.assertEqual(headers["cache-control"], "no-cache")
        events = answer.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        for event in events[:-2]:
            self.assertTrue(event.startswith("data: "), event)
            json.loads(event.removeprefix("data: "))


if __name__ == "__main__":
    unittest.main()
