"""A pair under cancellation, with answers that end at once, and with too little memory on either node."""
import random
import unittest

from node import LONG_TEXT, Node, eventually, http_bytes
from pair import LONG, Pair, in_parallel, prefill_is_idle, stream, tokens_of

SEED = 7
TURNS, CANCELLED = (5, 300) if LONG else (1, 100)
END_TOKEN = 2  # <|im_end|> of the test model.
ARRIVED = "lynx_pair_caches_arrived_total"
RECEIVED = "lynx_transport_received_bytes_total"
# 17 blocks of 64 tokens; the decode node's have Anchor planes beside them.
SMALL_MEMORY, SMALL_DECODE_MEMORY = ("--kv-memory", "24MiB"), ("--kv-memory", "35MiB")
SMALL, SMALL_DECODE = (*SMALL_MEMORY, "--max-model-len", "1024"), (*SMALL_DECODE_MEMORY, "--max-model-len", "1024")


def texts(answer: dict) -> list[str]:
    return [choice["text"] for choice in answer["choices"]]


class CancelTest(unittest.TestCase):
    def test_requests_that_are_all_cancelled_leave_nothing_behind(self):
        with Pair() as pair:
            probe = {"prompt": "Still there?", "max_tokens": 8, "temperature": 0}
            want = texts(pair.decode.complete(**probe))
            for turn in range(TURNS):
                draw = random.Random(SEED + turn)
                plans = [(LONG_TEXT[(start := draw.randrange(6000)):start + draw.choice((20, 300, 1500, 5000))], draw.random() ** 3, draw.random() < 0.5)
                         for _ in range(CANCELLED)]

                def run(prompt: str, patience_s: float, streams: bool):
                    body = {"prompt": prompt, "max_tokens": 2000, "ignore_eos": True, "stream": streams, "n": 1 + (len(prompt) == 300)}
                    with pair.decode.connect() as connection:
                        connection.sendall(http_bytes("/v1/completions", body))
                        connection.settimeout(0.001 + patience_s)
                        try:
                            connection.recv(1)  # Anywhere from at once to in mid-stream.
                        except TimeoutError:
                            pass

                in_parallel([lambda plan=plan: run(*plan) for plan in plans], 24)
                pair.wait_until_idle()
                self.assertEqual(texts(pair.decode.complete(**probe)), want, f"turn {turn}")

    def test_a_client_that_leaves_in_prefill_stops_it(self):
        prompt = LONG_TEXT[:14000]
        with Pair() as pair:
            length = len(tokens_of(pair.decode, prompt))
            rows = "lynx_model_pass_rows_sum"
            for _ in range(3):
                before = pair.prefill.metric(rows)
                with pair.decode.connect() as connection:
                    connection.sendall(http_bytes("/v1/completions", {"prompt": prompt, "max_tokens": 4}))
                    eventually(lambda: pair.prefill.metric("lynx_scheduler_running_requests") == 1, "its prefill began")
                eventually(lambda: prefill_is_idle(pair.prefill), "the prefill node drops it")
                # One chunk is 512 rows; the client may be noticed late in it, and the next one be under way.
                self.assertLess(pair.prefill.metric(rows) - before, length // 2, f"of {length} prompt tokens")
            self.assertEqual(pair.decode.metric(ARRIVED), 0, "no cache was finished for nobody")
            self.assertEqual(pair.prefill.metric("lynx_pair_tickets_failed_total"), 0, "that a client leaves is no failure")
            pair.wait_until_idle()


class ShortAnswerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = Node()
        cls.addClassCleanup(cls.alone.kill)
        cls.pair = Pair()
        cls.addClassCleanup(cls.pair.kill)

    def tearDown(self):
        self.pair.wait_until_idle()

    def both(self, **body) -> dict:
        got, want = self.pair.decode.complete(**body), self.alone.complete(**body)
        self.assertEqual((got["choices"], got["usage"]), (want["choices"], want["usage"]), body)
        return got

    def test_nothing_is_transferred_for_one_token_or_none(self):
        before = [self.pair.decode.metric(name) for name in (RECEIVED, ARRIVED)]
        for prompt in ("Once", LONG_TEXT[:4000]):
            for body in ({"max_tokens": 1}, {"max_tokens": 1, "n": 3, "seed": 1}, {"max_tokens": 1, "logprobs": 2, "echo": True},
                         {"max_tokens": 0, "logprobs": 1, "echo": True}):
                answer = self.both(prompt=prompt, **({"temperature": 0} | body))
                self.assertEqual(answer["usage"]["completion_tokens"], body["max_tokens"] * body.get("n", 1))
        self.assertEqual([self.pair.decode.metric(name) for name in (RECEIVED, ARRIVED)], before)

    def test_an_end_token_first(self):
        for prompt in ("Once", LONG_TEXT[:300], LONG_TEXT[:3000]):
            for more in ({}, {"n": 2, "seed": 3, "temperature": 1}, {"logprobs": 1}):
                answer = self.both(prompt=prompt, max_tokens=500, logit_bias={str(END_TOKEN): 100}, **({"temperature": 0} | more))
                self.assertEqual({choice["finish_reason"] for choice in answer["choices"]}, {"stop"})
                self.assertEqual(set(texts(answer)), {""})
            end = stream(self.pair.decode, {"prompt": prompt, "max_tokens": 500, "logit_bias": {str(END_TOKEN): 100}, "temperature": 0})
            self.assertTrue(end.whole and end.text == "", end)

    def test_one_choice_ends_first_and_the_other_goes_on(self):
        # Of many seeds some choose the end token in one choice only.
        outcomes = set()
        for seed in range(8):
            answer = self.both(prompt=LONG_TEXT[:500], max_tokens=12, n=2, temperature=1, seed=seed, stop=["In", " year", " the", "\n"])
            outcomes.add(tuple(len(text) == 0 for text in texts(answer)))
        self.assertGreater(len(outcomes), 1, "the seeds no longer cover what they are for")

    def test_stop_strings_in_and_across_the_first_tokens(self):
        for prompt in ("The three largest rivers of Europe are", LONG_TEXT[:3000]):
            first, second = self.alone.complete(prompt=prompt, max_tokens=2, temperature=0, logprobs=0)["choices"][0]["logprobs"]["tokens"]
            for stop in (first, first[-1:], first[-1:] + second[:1], first + second, second[-1:]):
                for include in (False, True):
                    body = {"prompt": prompt, "max_tokens": 200, "temperature": 0, "stop": stop, "include_stop_str_in_output": include}
                    answer = self.both(**body)
                    self.assertEqual(answer["choices"][0]["finish_reason"], "stop", body)
                    self.assertLessEqual(answer["usage"]["completion_tokens"], 2, body)
                    self.assertEqual(stream(self.pair.decode, body).text, texts(answer)[0], body)


class LittleMemoryTest(unittest.TestCase):
    def test_what_can_never_fit_is_refused_by_whichever_node_is_too_small(self):
        long = {"prompt": "x " * 3000, "max_tokens": 8}
        for prefill, decode, words in ((SMALL_MEMORY, (), r"prefill node: .*3001 tokens.*\b1088\b"), ((), SMALL_DECODE_MEMORY, r"\b1088 tokens.*3001 tokens")):
            with Pair(prefill=prefill, decode=decode) as pair:
                status, _, answer = pair.decode.request("/v1/completions", long)
                self.assertEqual((status, answer["error"]["type"]), (400, "invalid_request_error"), answer)
                self.assertRegex(answer["error"]["message"], words)
                self.assertEqual(stream(pair.decode, long).status, 400)
                if decode:  # Choices multiply what is held here, not there.
                    status, _, answer = pair.decode.request("/v1/completions", {"prompt": "x " * 500, "max_tokens": 300, "n": 8})
                    self.assertEqual((status, answer["error"]["code"]), (400, "capacity_exceeded"), answer)
                    self.assertRegex(answer["error"]["message"], r"capacity is \d+ .*--kv-memory")
                pair.wait_until_idle()
                pair.decode.complete(prompt="x", max_tokens=4)

    def test_a_prompt_beyond_the_prefill_nodes_length_is_the_clients_error(self):
        with Pair(prefill=("--max-model-len", "512")) as pair:
            for _ in range(100):
                status, _, answer = pair.decode.request("/v1/completions", {"prompt": "x " * 1000, "max_tokens": 8})
                self.assertEqual(status, 400, answer)
                self.assertIn("512", answer["error"]["message"])
            pair.wait_until_idle()
            pair.decode.complete(prompt="x", max_tokens=4)

    def check_together(self, pair: Pair, bodies: list[dict], want: list):
        got = in_parallel([lambda body=body: texts(pair.decode.complete(**body)) for body in bodies], len(bodies))
        self.assertEqual(got, want)
        pair.wait_until_idle()

    def test_requests_that_only_together_exceed_either_memory(self):
        draw = random.Random(SEED)
        bodies = [{"prompt": LONG_TEXT[:1000 + 10 * index], "max_tokens": 40, "temperature": 1.0, "seed": draw.randrange(1 << 30), "ignore_eos": True,
                   "n": 1 + index % 2} for index in range(8)]
        with Node() as alone:
            want = [texts(alone.complete(**body)) for body in bodies]
        for prefill, decode in ((SMALL, ()), ((), SMALL_DECODE), (SMALL, SMALL_DECODE)):
            with Pair(prefill=prefill, decode=decode) as pair:
                self.check_together(pair, bodies, want)

    def test_preempted_requests_keep_their_text(self):
        draw = random.Random(SEED + 1)
        bodies = [{"prompt": LONG_TEXT[50 * index:50 * index + 250], "max_tokens": 280, "ignore_eos": True, "temperature": draw.choice((0, 1)),
                   "seed": draw.randrange(1 << 30), "frequency_penalty": draw.choice((0, 0.4)), "n": draw.choice((1, 1, 2)),
                   "lynx": {"transfer": draw.choice(("bf16", "lossless"))}} for index in range(6)]
        with Node() as alone:
            want = [texts(alone.complete(**body)) for body in bodies]
        with Pair(decode=SMALL_DECODE) as pair:
            self.check_together(pair, bodies, want)
            self.assertGreater(pair.decode.metric("lynx_scheduler_preemptions_total"), 0)

    def test_preempted_streams_with_prefill_nodes_that_die(self):
        bodies = [{"prompt": LONG_TEXT[90 * index:90 * index + 250], "max_tokens": 280, "ignore_eos": True, "temperature": 0} for index in range(6)]
        with Node() as alone:
            want = [texts(alone.complete(**body))[0] for body in bodies]
        with Pair(prefills=2, decode=SMALL_DECODE) as pair:
            def kill_and_restart():
                for number in range(4):
                    eventually(lambda: pair.decode.metric("lynx_scheduler_preemptions_total") > number or pair.decode.idle(), "one is preempted")
                    pair.kill_prefill(number % 2)
                    pair.restart_prefill(number % 2)
                    pair.wait_until_up()

            *ends, _ = in_parallel([*(lambda body=body: stream(pair.decode, body) for body in bodies), kill_and_restart], 7)
            self.assertTrue(all(end.whole for end in ends), ends)
            self.assertEqual([end.text for end in ends], want)
            pair.wait_until_idle()


if __name__ == "__main__":
    unittest.main()
