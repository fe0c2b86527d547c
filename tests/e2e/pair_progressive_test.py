"""Progressive transfers: whatever was drafted, accepted or rolled back, the text is the one that a node alone gives on the mode's full view.

The Residuals of the pair set out late, so that there is time to draft. LYNX_TEST_LONG=1 runs the whole matrix; LYNX_TEST_SEED another one.
"""
import concurrent.futures
import functools
import os
import random
import unittest

from node import Node, eventually
from pair import HANDBOOK, LONG, Pair, in_parallel, shuffled, stream, tokens_of
from pair_exact_test import body_for

SEED = int(os.environ.get("LYNX_TEST_SEED", 20261130))
LENGTHS = (1, 64, 65, 127, 128, 129, 192, 200, 256, 300, 321, 400, 449, 512, 513, 577, 640, 700, 800, 900, 1000, 1024, 1025, 1300, 1536, 1800, 2100, 3000)
MODES = ("progressive-exact", "progressive-int8")
ONE_STEP = {"progressive-exact": "bf16", "progressive-int8": "int8"}
REQUESTS = 112 if LONG else 14
SLOW = ("--test-residual-delay", "500")
MEMORY = ("--kv-memory", "512MiB")


def requests(tokens: list[int]) -> list[dict]:
    draw = random.Random(SEED)
    bodies = []
    for index in range(REQUESTS):
        length = LENGTHS[index % len(LENGTHS)] if LONG else LENGTHS[(index * 2 + 1) % 22]
        body = body_for(tokens, index, length)
        if body["max_tokens"] > 2:  # Ends in the middle of a draft, and behind it.
            body["max_tokens"] = draw.choice((9, 24, 40, 80))
        if "min_tokens" in body:
            body["min_tokens"] = body["max_tokens"] // 2
        bodies.append(body)
    return bodies


class ProgressiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = []
        cls.addClassCleanup(lambda: [node.kill() for node in cls.nodes])
        cls.alone = Node(*MEMORY)
        cls.nodes.append(cls.alone)
        cls.pair = Pair(prefill=(*MEMORY, *SLOW), decode=MEMORY)
        cls.nodes.append(cls.pair)
        cls.tokens = tokens_of(cls.alone, HANDBOOK)
        cls.tokens *= 1 + 4000 // len(cls.tokens)
        cls.bodies = requests(cls.tokens)

    @classmethod
    @functools.cache
    def oracle(cls, mode: str) -> list[dict]:
        return [cls.alone.complete(**body, lynx={"transfer": mode}) for body in cls.bodies]

    def check(self, pair: Pair, mode: str, at_once: int, **lynx) -> list[dict]:
        want = self.oracle(ONE_STEP.get(mode, mode))
        order = shuffled(range(len(self.bodies)), SEED + at_once)
        jobs = [lambda i=i: pair.decode.complete(**self.bodies[i], lynx={"transfer": mode, "receipt": True} | lynx) for i in order]
        receipts = []
        for index, got in zip(order, in_parallel(jobs, at_once)):
            body = self.bodies[index]
            with self.subTest(mode=mode, at_once=at_once, prompt_tokens=len(body["prompt"]), options={k: v for k, v in body.items() if k != "prompt"}):
                self.assertEqual(got["choices"], want[index]["choices"])
                self.assertEqual(got["usage"], want[index]["usage"])
                receipts.append(got["lynx"]["receipt"])
        pair.wait_until_idle()
        return receipts

    def test_drafts_change_no_token(self):
        for mode in MODES:
            for at_once in (1, 4, 16) if LONG else (5,):
                receipts = self.check(self.pair, mode, at_once)
                self.assertGreater(sum(receipt["accepted"] for receipt in receipts), len(receipts), "drafts were made, and right")
                for receipt in receipts:
                    self.assertEqual(receipt["drafted"], receipt["accepted"] + receipt["rolled_back"])

    def test_one_step_modes_give_their_view(self):
        for mode in ("int8", "int4"):
            self.check(self.pair, mode, 5)

    def test_without_drafts(self):
        for receipt in self.check(self.pair, "progressive-exact", 5, gap="wait"):
            self.assertEqual((receipt["drafted"], receipt["gap"]), (0, "wait"))

    def test_bad_drafts_are_rolled_back_and_change_no_token(self):
        with Pair(prefill=(*MEMORY, *SLOW), decode=(*MEMORY, "--test-draft-noise", "0.2")) as spoiled:
            receipts = self.check(spoiled, "progressive-exact", 5)
            rolled_back, accepted = (sum(receipt[what] for receipt in receipts) for what in ("rolled_back", "accepted"))
            self.assertGreater(rolled_back, max(3, accepted), "most drafts fail")
            self.assertGreater(spoiled.decode.metric("lynx_draft_tokens_total"), 0)
            foreign = tokens_of(self.alone, "船は夜明けに港を出た。🚢🌊 Корабль вышел из гавани. " * 8)
            for seed in range(4):
                body = {"prompt": foreign, "max_tokens": 60, "temperature": 1.8, "seed": seed, "ignore_eos": True}
                self.assertEqual(stream(spoiled.decode, body).text, self.alone.complete(**body)["choices"][0]["text"])

    def test_preempted_while_drafting_and_after(self):
        bodies = [body_for(self.tokens, index, 60 + 17 * index) | {"max_tokens": 250, "ignore_eos": True} for index in range(12)]
        for body in bodies:
            body.pop("stop", None)
        want = [self.alone.complete(**body)["choices"] for body in bodies]
        # 17 blocks; all of the prompts fit at once, and not a third of the answers.
        with Pair(prefill=(*MEMORY, *SLOW), decode=("--kv-memory", "35MiB", "--max-model-len", "1024")) as cramped:
            got = in_parallel([lambda body=body: cramped.decode.complete(**body, lynx={"receipt": True}) for body in bodies], len(bodies))
            self.assertEqual([answer["choices"] for answer in got], want)
            self.assertGreater(sum(answer["lynx"]["receipt"]["accepted"] for answer in got), len(bodies))
            self.assertGreater(cramped.decode.metric("lynx_scheduler_preemptions_total"), 2)
            cramped.wait_until_idle()

    def test_the_context_ends_inside_drafts(self):
        short = ("--max-model-len", "512", *MEMORY)
        bodies = [{"prompt": self.tokens[start:start + length], "max_tokens": 200, "ignore_eos": True, "logprobs": 1, **options}
                  for start, (length, options) in enumerate(
                      (length, options) for length in (480, 500, 507, 511) for options in ({"temperature": 0}, {"temperature": 0.8, "seed": 5, "n": 2}))]
        with Node(*short) as alone:
            want = [alone.complete(**body) for body in bodies]
        with Pair(prefill=(*MEMORY, *SLOW), decode=short) as pair:
            for body, expected in zip(bodies, want):
                got = pair.decode.complete(**body, lynx={"receipt": True})
                self.assertEqual((got["choices"], got["usage"]), (expected["choices"], expected["usage"]), len(body["prompt"]))
                self.assertEqual({choice["finish_reason"] for choice in got["choices"]}, {"length"})
                left = 512 - len(body["prompt"])
                self.assertGreaterEqual(got["lynx"]["receipt"]["drafted"], min(left - 1, 3), "it drafted up to the end")
            pair.wait_until_idle()

    def test_a_prefill_node_dies_between_anchors_and_residuals(self):
        bodies = [{"prompt": self.tokens[start:start + 400], "max_tokens": 40, "temperature": 0, "ignore_eos": True} for start in range(5)]
        want = [self.alone.complete(**body) for body in bodies]
        late = ("--test-residual-delay", "3000")
        with Pair(prefills=2, prefill=(*MEMORY, *late), decode=(*MEMORY, "--log-level", "debug")) as pair:
            for index, body in enumerate(bodies):
                drafting = pair.decode.log_text().count("request drafting")
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    answer = pool.submit(pair.decode.complete, **body, lynx={"receipt": True})
                    eventually(lambda: pair.decode.log_text().count("request drafting") > drafting, "it drafts")
                    busy = [i for i, node in enumerate(pair.prefills) if node.metric("lynx_pair_tickets") > 0]
                    self.assertEqual(len(busy), 1)
                    pair.kill_prefill(busy[0])
                    got = answer.result()
                self.assertEqual(got["choices"], want[index]["choices"])
                self.assertGreater(got["lynx"]["receipt"]["accepted"], 0, "it drafted again, on the other node's Anchors")
                pair.restart_prefill(busy[0])
                pair.wait_until_up()
            self.assertEqual(pair.decode.metric("lynx_pair_tickets_again_total"), len(bodies))
            pair.wait_until_idle()

    def test_cancelled_while_drafting(self):
        late = ("--test-residual-delay", "2000")
        with Pair(prefill=(*MEMORY, *late), decode=(*MEMORY, "--log-level", "debug")) as pair:
            for _ in range(3):
                drafting = pair.decode.log_text().count("request drafting")

                def on_first(_text, before=drafting):
                    eventually(lambda: pair.decode.log_text().count("request drafting") > before, "it drafts")
                    raise ConnectionAbortedError

                with self.assertRaises(ConnectionAbortedError):
                    stream(pair.decode, {"prompt": self.tokens[:300], "max_tokens": 40, "ignore_eos": True}, on_first)
                pair.wait_until_idle()


if __name__ == "__main__":
    unittest.main()
