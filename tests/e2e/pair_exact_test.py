"""A pair answers what one node answers: text, logprobs, usage and finish reason, bit for bit, over both fronts."""
import random
import unittest

import grpc

from grpc_test import inference_pb2_grpc, message_of
from node import Node
from pair import HANDBOOK, LONG, Pair, in_parallel, shuffled, stream, tokens_of

SEED = 20261130
BLOCK_EDGES = (63, 64, 65, 127, 128, 129)  # A KV block holds 64 tokens.
LENGTHS = (1, 2, 3, 5, 15, 16, 17, 31, *BLOCK_EDGES, 50, 80, 100, 150, 180, 191, 192, 193, 220, 255, 256, 257, 300, 319, 320, 321, 350, 400, 447, 448,
           449, 480, 511, 512, 513, 575, 576, 577, 640, 700, 767, 768, 800, 900, 1000, 1023, 1024, 1025, 1300, 1535, 1537, 2000, 2500, 3000, 5000, 7500)
SAMPLE = (1, 2, 17, *BLOCK_EDGES, 300, 513, 1025)
AT_ONCE = {"bf16": (1, 16), "lossless": (4, 16)} if LONG else {"bf16": (16,), "lossless": (5,)}
STOPS = ([" the"], ["\n", ". "], ["harbour", "ship"], ["e", "a"])


def body_for(tokens: list[int], index: int, length: int) -> dict:
    """Request `index` of the matrix: every option often, in ever other company."""
    draw = random.Random(SEED + index)
    start = draw.randrange(0, 500)
    body = {"prompt": tokens[start:start + length], "max_tokens": draw.choice((1, 2, 8, 16, 24)), "temperature": 0}
    if index % 2:
        body |= {"temperature": draw.choice((0.7, 1.0, 1.6)), "seed": draw.randrange(-1 << 40, 1 << 40), "top_p": draw.choice((1, 0.9)),
                 "top_k": draw.choice((0, 40)), "min_p": draw.choice((0, 0.02))}
    if index % 3 == 1:
        body |= {"n": 2}
    if index % 3 != 2:
        body |= {"logprobs": draw.choice((0, 3))}
    if index % 4 == 1:
        body |= {"repetition_penalty": 1.2, "frequency_penalty": 0.5, "presence_penalty": -0.3}
    if index % 5 == 2:
        body |= {"logit_bias": {str(body["prompt"][0]): 6, "260": -100, "28": 2.5}}
    if index % 5 == 3:
        body |= {"stop": draw.choice(STOPS), "include_stop_str_in_output": draw.random() < 0.5}
    if index % 7 == 3:
        body |= {"min_tokens": body["max_tokens"] // 2, "stop_token_ids": [28, 30, 198]}
    if index % 7 == 5:
        body |= {"ignore_eos": True, "max_tokens": 40}
    if index % 6 == 4 and length <= 1024:
        body |= {"echo": True, "logprobs": 2}
        if index % 12 == 4:
            body |= {"max_tokens": 0}
            body.pop("min_tokens", None)
    return body


class PairExactTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nodes = []
        cls.addClassCleanup(lambda: [node.kill() for node in cls.nodes])
        memory = ("--kv-memory", "512MiB")
        cls.alone = Node(*memory)
        cls.nodes.append(cls.alone)
        cls.pair = Pair(prefill=memory, decode=memory)
        cls.nodes.append(cls.pair)
        cls.tokens = tokens_of(cls.alone, HANDBOOK)
        cls.tokens *= 1 + 8000 // len(cls.tokens)
        cls.bodies = [body_for(cls.tokens, index, length) for index, length in enumerate(LENGTHS) if LONG or length in SAMPLE]

    def tearDown(self):
        self.pair.wait_until_idle()

    def test_the_matrix_has_what_it_promises(self):
        self.assertEqual(len(LENGTHS), 60)
        self.assertEqual((min(LENGTHS), max(LENGTHS)), (1, 7500))
        for option in ("seed", "n", "logprobs", "repetition_penalty", "logit_bias", "stop", "min_tokens", "echo"):
            self.assertTrue(any(option in body for body in self.bodies), option)

    def test_both_modes_give_the_bits_of_one_node(self):
        want = [self.alone.complete(**body) for body in self.bodies]
        for mode, all_at_once in AT_ONCE.items():
            arrived = self.pair.decode.metric("lynx_pair_caches_arrived_total")
            for at_once in all_at_once:
                self.check(mode, at_once, want)
            with_cache = sum(body["max_tokens"] > 1 for body in self.bodies)
            self.assertGreater(self.pair.decode.metric("lynx_pair_caches_arrived_total"), arrived + with_cache // 2, "caches did travel")

    def check(self, mode: str, at_once: int, want: list[dict]):
        order = shuffled(range(len(self.bodies)), SEED + at_once)
        jobs = [lambda i=i: self.pair.decode.complete(**self.bodies[i], lynx={"transfer": mode}) for i in order]
        for index, got in zip(order, in_parallel(jobs, at_once)):
            body = self.bodies[index]
            with self.subTest(mode=mode, at_once=at_once, prompt_tokens=len(body["prompt"]), options={k: v for k, v in body.items() if k != "prompt"}):
                self.assertEqual(got["choices"], want[index]["choices"])
                self.assertEqual(got["usage"], want[index]["usage"])

    def test_a_stream_is_the_unary_text(self):
        bodies = [body for body in self.bodies if "n" not in body and "echo" not in body][:4]
        for body in bodies:
            body = {name: value for name, value in body.items() if name != "logprobs"}
            self.assertEqual(stream(self.pair.decode, body).text, self.alone.complete(**body)["choices"][0]["text"], body)

    def test_grpc_gives_the_tokens_of_one_node(self):
        bodies = self.bodies[::3]
        with grpc.insecure_channel(f"127.0.0.1:{self.alone.grpc_port}") as one, grpc.insecure_channel(f"127.0.0.1:{self.pair.decode.grpc_port}") as two:
            stubs = [inference_pb2_grpc.InferenceStub(channel) for channel in (one, two)]
            for body in bodies:
                request = {name: value for name, value in body.items() if name != "lynx"}
                answers = [self.whole(stub.Generate(message_of(request))) for stub in stubs]
                self.assertTrue(answers[0])
                self.assertEqual(*answers, {name: value for name, value in body.items() if name != "prompt"})

    @staticmethod
    def whole(responses):
        """Each choice's text, tokens with their scores, and finish; how they were cut into messages does not matter."""
        choices, usage = {}, None
        for response in responses:
            for choice in response.choices:
                entry = choices.setdefault(choice.index, ["", [], None])
                entry[0] += choice.text
                entry[1] += [token.SerializeToString(deterministic=True) for token in choice.tokens]
                entry[2] = choice.finish_reason or entry[2]
            if response.HasField("usage"):
                usage = response.usage.SerializeToString(deterministic=True)
        return choices, usage

    def test_same_numerics_and_a_measured_transport_are_shown(self):
        peer = self.pair.decode.request("/health")[2]["pair"]["prefill_nodes"][0]
        self.assertTrue(peer["up"] and peer["same_numerics"], peer)
        self.assertTrue(peer["transport"])
        self.assertGreater(peer["probe_bytes_per_s"], 0)
        self.assertEqual(peer["numerics"], self.pair.prefill.request("/health")[2]["pair"]["numerics"])

    def test_transfers_are_counted_on_both_sides(self):
        self.pair.decode.complete(prompt=self.tokens[:300], max_tokens=4)
        self.pair.wait_until_idle()
        for node, names in ((self.pair.decode, ("lynx_pair_caches_arrived_total", "lynx_transport_received_bytes_total", "lynx_pair_tickets_total")),
                            (self.pair.prefill, ("lynx_pair_caches_delivered_total", "lynx_transport_sent_bytes_total",
                                                 "lynx_transport_acknowledged_bytes_total", "lynx_pair_tickets_total"))):
            for name in names:
                self.assertGreater(node.metric(name), 0, name)


if __name__ == "__main__":
    unittest.main()
