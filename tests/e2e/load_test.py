"""Many requests at once: each text equals its solo run, and cancelled requests leave nothing behind."""
import concurrent.futures
import random
import threading
import unittest

from node import LONG_TEXT, Node, eventually, http_bytes

SEED = 20260701


def request_for(index: int, chooser: random.Random, lengths=(20, 200, 255, 256, 257, 800, 2500)) -> dict:
    start = chooser.randrange(0, 2000)
    length = chooser.choice(lengths)
    body = {"prompt": LONG_TEXT[start:start + length], "max_tokens": chooser.randrange(4, 28)}
    if index % 2 == 0:
        return body | {"temperature": 0}
    return body | {"temperature": 1.1, "seed": chooser.randrange(1 << 40), "top_p": chooser.choice([1, 0.9]),
                   "top_k": chooser.choice([0, 40]), "frequency_penalty": chooser.choice([0, 0.5]), "n": chooser.choice([1, 1, 2])}


def texts(answer: dict) -> list[str]:
    return [choice["text"] for choice in answer["choices"]]


class LoadTest(unittest.TestCase):
    def test_sixteen_at_once_equal_their_solo_runs(self):
        chooser = random.Random(SEED)
        requests = [request_for(index, chooser) for index in range(16)]
        with Node() as node:
            alone = [texts(node.complete(**request)) for request in requests]
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                together = list(pool.map(lambda request: texts(node.complete(**request)), requests))
            for request, one, other in zip(requests, alone, together):
                self.assertEqual(one, other, f"seed {SEED}: {request}")

    def test_requests_that_only_together_exceed_the_memory_all_finish_with_their_solo_text(self):
        chooser = random.Random(SEED + 1)
        requests = [{"prompt": LONG_TEXT[:1000 + 10 * index], "max_tokens": 40, "temperature": 1.0, "seed": chooser.randrange(1 << 30),
                     "ignore_eos": True} for index in range(8)]
        # Room for about two of them at a time.
        with Node("--kv-memory", "24MiB", "--max-model-len", "1024") as node:
            alone = [texts(node.complete(**request)) for request in requests]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                together = list(pool.map(lambda request: texts(node.complete(**request)), requests))
            self.assertEqual(alone, together)

    def test_three_hundred_requests_a_third_cancelled_leave_no_block_behind(self):
        with Node() as node:
            baseline = node.metric("lynx_kv_free_blocks")
            chooser = random.Random(SEED + 2)
            plans = [(request_for(index, chooser, (20, 60, 200, 500)) | {"max_tokens": 10, "stream": index % 3 != 0}, chooser.random())
                     for index in range(300)]
            lock = threading.Lock()
            outcomes = {"finished": 0, "cancelled": 0}

            def run(plan):
                body, luck = plan
                cancel = luck < 1 / 3
                with node.connect() as connection:
                    connection.sendall(http_bytes("/v1/completions", body, "Connection: close\r\n"))
                    if cancel:
                        # Anywhere from at once to in mid-stream.
                        connection.settimeout(luck)
                        try:
                            connection.recv(1)
                        except TimeoutError:
                            pass
                    else:
                        received = b""
                        while piece := connection.recv(65536):
                            received += piece
                        if not received.startswith(b"HTTP/1.1 200"):
                            raise AssertionError(received[:500])
                with lock:
                    outcomes["cancelled" if cancel else "finished"] += 1

            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                for future in [pool.submit(run, plan) for plan in plans]:
                    future.result()
            self.assertEqual(sum(outcomes.values()), 300)
            self.assertGreater(outcomes["cancelled"], 60)
            eventually(node.idle, "the node is idle")
            self.assertEqual(node.metric("lynx_kv_free_blocks"), baseline)
            self.assertEqual(len(texts(node.complete(prompt="Still there?", max_tokens=4))), 1)


if __name__ == "__main__":
    unittest.main()
