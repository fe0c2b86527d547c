"""lynx.v1.Inference with Python's own gRPC client and the real model: the same requests over HTTP and gRPC give the same answers."""
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from node import LONG_TEXT, MODEL, PROGRAM, ROOT, Node, clean_environment, eventually

# Stubs are made from the schema as it is now, for whoever runs this.
STUBS = tempfile.TemporaryDirectory()
subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={STUBS.name}",
                f"--grpc_python_out={STUBS.name}", "lynx/v1/inference.proto"], check=True)
sys.path.insert(0, STUBS.name)
from lynx.v1 import inference_pb2 as pb  # noqa: E402
from lynx.v1 import inference_pb2_grpc  # noqa: E402

SERVICE = "lynx.v1.Inference"
CHAT = [{"role": "system", "content": "You answer in one sentence."}, {"role": "user", "content": "What is the capital of France?"}]
FINISH = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}


def message_of(body: dict) -> pb.GenerateRequest:
    """The message that says what an HTTP body says."""
    fields = dict(body)
    prompt = fields.pop("prompt", None)
    messages = fields.pop("messages", None)
    logprobs = fields.pop("logprobs", None)
    if logprobs is not None and messages is None:
        fields["top_logprobs"] = logprobs
    if "logit_bias" in fields:
        fields["logit_bias"] = {int(token): bias for token, bias in fields["logit_bias"].items()}
    request = pb.GenerateRequest(**fields)
    if messages is not None:
        request.chat.messages.extend(pb.ChatMessage(**message) for message in messages)
    elif isinstance(prompt, str):
        request.text = prompt
    else:
        request.tokens.ids.extend(prompt)
    return request


def name_of(piece: bytes, prefix: str = "bytes:") -> str:
    """A token as /v1/completions spells it."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return prefix + "".join(f"\\x{byte:02x}" for byte in piece)


class Answer:
    """What a stream of GenerateResponses adds up to."""

    def __init__(self, responses, count: int):
        self.texts = [""] * count
        self.tokens = [[] for _ in range(count)]
        self.finishes = [None] * count
        self.usage = None
        for response in responses:
            assert self.usage is None, "something follows the usage"
            for choice in response.choices:
                self.texts[choice.index] += choice.text
                self.tokens[choice.index].extend(choice.tokens)
                if choice.HasField("finish_reason"):
                    self.finishes[choice.index] = FINISH[choice.finish_reason]
            if response.HasField("usage"):
                self.usage = response.usage


class GrpcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.node.grpc_port}")
        cls.stub = inference_pb2_grpc.InferenceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.node.kill()

    def tearDown(self):
        eventually(self.node.idle, "nothing is held for any request")

    def check_scores(self, tokens, logprobs: dict, chat: bool):
        if chat:
            self.assertEqual([token.piece for token in tokens], [bytes(entry["bytes"]) for entry in logprobs["content"]])
            scores = [entry["logprob"] for entry in logprobs["content"]]
            tops = [[(bytes(top["bytes"]), top["logprob"]) for top in entry["top_logprobs"]] for entry in logprobs["content"]]
            ours = [[(top.piece, top.logprob) for top in token.top_logprobs] for token in tokens]
            self.assertEqual([[piece for piece, _ in row] for row in ours], [[piece for piece, _ in row] for row in tops])
            self.assertEqual([[score for _, score in row] for row in ours], [[score for _, score in row] for row in tops])
        else:
            self.assertEqual([name_of(token.piece) for token in tokens], logprobs["tokens"])
            scores = logprobs["token_logprobs"]
            self.assertEqual([token.text_offset for token in tokens], logprobs["text_offset"])
            for token, top in zip(tokens, logprobs["top_logprobs"]):
                for candidate in token.top_logprobs:
                    self.assertGreaterEqual(top[name_of(candidate.piece)], candidate.logprob)
        self.assertEqual([token.logprob if token.HasField("logprob") else None for token in tokens], scores)

    def check_parity(self, **body):
        chat = "messages" in body
        status, _, http = self.node.request("/v1/chat/completions" if chat else "/v1/completions", body)
        self.assertEqual(status, 200, http)
        answer = Answer(self.stub.Generate(message_of(body)), len(http["choices"]))
        for choice, text, tokens, finish in zip(http["choices"], answer.texts, answer.tokens, answer.finishes):
            self.assertEqual(text, choice["message"]["content"] if chat else choice["text"], body)
            self.assertEqual(finish, choice["finish_reason"])
            if choice["logprobs"] is not None:
                self.check_scores(tokens, choice["logprobs"], chat)
            else:
                self.assertFalse(any(token.HasField("logprob") for token in tokens))
        usage = http["usage"]
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens),
                         (usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens_details"]["cached_tokens"]))
        return answer

    def test_the_same_requests_give_the_same_answers(self):
        text = "The three largest rivers of Europe are"
        ids = self.node.request("/tokenize", {"prompt": text})[2]["tokens"]
        for body in ({"prompt": text, "temperature": 0, "max_tokens": 24},
                     {"prompt": text},
                     {"prompt": ids, "temperature": 0, "max_tokens": 24, "logprobs": 3},
                     {"prompt": text, "temperature": 0.9, "seed": 11, "max_tokens": 32, "logprobs": 0},
                     {"prompt": text, "temperature": 1.3, "seed": -5, "top_p": 0.9, "top_k": 50, "min_p": 0.02, "max_tokens": 24},
                     {"prompt": text, "temperature": 1, "seed": 3, "n": 2, "max_tokens": 24, "logprobs": 2},
                     {"prompt": text, "temperature": 0, "max_tokens": 64, "stop": [" and", "\n"]},
                     {"prompt": text, "temperature": 0, "max_tokens": 64, "stop": [" the"], "include_stop_str_in_output": True},
                     {"prompt": text, "temperature": 0, "max_tokens": 24, "repetition_penalty": 1.2, "frequency_penalty": 0.5,
                      "presence_penalty": 0.5},
                     {"prompt": text, "temperature": 0, "max_tokens": 24, "logit_bias": {str(ids[1]): 8, "260": -100}},
                     {"prompt": text, "temperature": 0, "max_tokens": 40, "stop_token_ids": [28, 30]},
                     {"prompt": text, "temperature": 0, "max_tokens": 40, "min_tokens": 30, "ignore_eos": True},
                     {"prompt": "Grüße 🦊 aus", "temperature": 1.5, "seed": 1, "max_tokens": 32, "logprobs": 1, "echo": True, "n": 2},
                     {"prompt": LONG_TEXT[:4000], "temperature": 0, "max_tokens": 0, "logprobs": 1, "echo": True},
                     {"messages": CHAT, "temperature": 0, "max_tokens": 40},
                     {"messages": CHAT, "temperature": 0.8, "seed": 9, "n": 2, "logprobs": True, "top_logprobs": 2, "max_tokens": 24},
                     {"messages": CHAT, "temperature": 0}):
            if body == {"prompt": text}:
                body = {"prompt": text, "seed": 5}  # 16 tokens, temperature 1: the defaults
            with self.subTest(body={name: value for name, value in body.items() if name != "prompt"}):
                self.check_parity(**body)

    def test_refusals_name_the_field(self):
        for request, code, words in (
                (pb.GenerateRequest(), grpc.StatusCode.INVALID_ARGUMENT, "prompt: "),
                (pb.GenerateRequest(text="x", temperature=3), grpc.StatusCode.INVALID_ARGUMENT, "temperature: "),
                (pb.GenerateRequest(tokens=pb.TokenIds(ids=[1, -1])), grpc.StatusCode.INVALID_ARGUMENT, "tokens.ids[1]: "),
                (pb.GenerateRequest(chat=pb.Chat(messages=[pb.ChatMessage(role="x")])), grpc.StatusCode.INVALID_ARGUMENT,
                 "chat.messages[0].role: "),
                (pb.GenerateRequest(text="x " * 9000), grpc.StatusCode.INVALID_ARGUMENT, "text: "),
                (pb.GenerateRequest(text="x", model="other"), grpc.StatusCode.NOT_FOUND, "model: "),
                (pb.GenerateRequest(text="x " * 5000, n=100, max_tokens=3000), grpc.StatusCode.RESOURCE_EXHAUSTED, "")):
            with self.assertRaises(grpc.RpcError) as raised:
                list(self.stub.Generate(request))
            self.assertEqual(raised.exception.code(), code)
            self.assertTrue(raised.exception.details().startswith(words), raised.exception.details())

    def test_tokenize_and_model_info(self):
        for text in ("", "Hello, world", "<|im_start|>user", "🦊"):
            http = self.node.request("/tokenize", {"prompt": text})[2]
            ours = self.stub.Tokenize(pb.TokenizeRequest(text=text, with_pieces=True))
            self.assertEqual(list(ours.tokens), http["tokens"])
            self.assertEqual(b"".join(ours.pieces).decode(), text)
            self.assertEqual(self.stub.Detokenize(pb.DetokenizeRequest(tokens=ours.tokens)).text, text)
        http = self.node.request("/tokenize", {"messages": CHAT})[2]
        ours = self.stub.Tokenize(pb.TokenizeRequest(chat=pb.Chat(messages=[pb.ChatMessage(**message) for message in CHAT])))
        self.assertEqual(list(ours.tokens), http["tokens"])
        info = self.stub.GetModelInfo(pb.GetModelInfoRequest())
        health = self.node.request("/health")[2]
        self.assertEqual((info.names[0], info.max_model_len, info.isa, info.server_version),
                         (health["model"], health["max_model_len"], health["isa"], health["version"]))
        tokenizer = self.node.request("/tokenizer_info")[2]
        self.assertEqual((info.vocabulary, info.add_bos_token), (tokenizer["vocab_size"], tokenizer["add_bos_token"]))

    def test_health_and_reflection(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        for name in ("", SERVICE):
            self.assertEqual(health.Check(health_pb2.HealthCheckRequest(service=name)).status, health_pb2.HealthCheckResponse.SERVING)
        services = ProtoReflectionDescriptorDatabase(self.channel)
        self.assertIn(SERVICE, services.get_services())
        self.assertEqual({message.name for message in services.FindFileContainingSymbol(SERVICE).message_type},
                         {message for message in pb.DESCRIPTOR.message_types_by_name})

    def test_cancel_and_deadline_free_the_request(self):
        def running():
            return self.node.metric("lynx_scheduler_running_requests") == 1

        endless = {"ignore_eos": True, "max_tokens": 4000}
        call = self.stub.Generate(pb.GenerateRequest(text="Count:", **endless))
        next(call)
        eventually(running, "it runs")
        call.cancel()
        eventually(self.node.idle, "a cancelled request is freed")
        call = self.stub.Generate(pb.GenerateRequest(text=LONG_TEXT[:12000], **endless))  # in its prefill
        eventually(running, "it runs")
        call.cancel()
        eventually(self.node.idle, "a request cancelled in its prefill is freed")
        with self.assertRaises(grpc.RpcError) as raised:
            list(self.stub.Generate(pb.GenerateRequest(text="Count:", **endless), timeout=0.5))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        eventually(self.node.idle, "a request past its deadline is freed")
        self.assertEqual(self.node.metric("lynx_kv_free_blocks"), self.node.metric("lynx_kv_total_blocks"))
        self.assertEqual(self.node.metric('lynx_server_grpc_requests_total{code="CANCELLED",method="Generate"}'), 2)
        self.assertEqual(self.node.metric('lynx_server_grpc_requests_total{code="DEADLINE_EXCEEDED",method="Generate"}'), 1)

    def test_both_fronts_at_once(self):
        bodies = [{"prompt": f"{number} bottles of", "temperature": 1, "seed": number, "max_tokens": 24} for number in range(8)]
        alone = [self.node.complete(**body)["choices"][0]["text"] for body in bodies]
        together = [None] * len(bodies)

        def ask(index: int):
            if index % 2 == 0:
                together[index] = Answer(self.stub.Generate(message_of(bodies[index])), 1).texts[0]
            else:
                together[index] = self.node.complete(**bodies[index])["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)


class GrpcProcessTest(unittest.TestCase):
    def test_a_grpc_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            result = subprocess.run([PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", "0", "--grpc-port", port],
                                    capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"port {port}", result.stderr)
        with Node() as node:  # another node's port is not shared either
            result = subprocess.run([PROGRAM, "--aggregated", "--model", str(MODEL), "--http-port", "0", "--grpc-port", str(node.grpc_port)],
                                    capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"port {node.grpc_port}", result.stderr)

    def test_keys_are_asked_for_but_not_by_health(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("secret\n")
            keys.flush()
            with Node("--api-key-file", keys.name) as node, grpc.insecure_channel(f"127.0.0.1:{node.grpc_port}") as channel:
                stub = inference_pb2_grpc.InferenceStub(channel)
                request = pb.GenerateRequest(text="x", max_tokens=1)
                for metadata in (None, [("authorization", "Bearer wrong")]):
                    with self.assertRaises(grpc.RpcError) as raised:
                        list(stub.Generate(request, metadata=metadata))
                    self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
                self.assertTrue(list(stub.Generate(request, metadata=[("authorization", "Bearer secret")])))
                health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE))
                self.assertEqual(health.status, health_pb2.HealthCheckResponse.SERVING)

    def test_sigterm_finishes_what_runs_and_refuses_what_is_new(self):
        with Node() as node, grpc.insecure_channel(f"127.0.0.1:{node.grpc_port}") as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            health = health_pb2_grpc.HealthStub(channel)
            running = stub.Generate(pb.GenerateRequest(text="Count:", max_tokens=150, ignore_eos=True))
            first = next(running)
            node.signal(signal.SIGTERM)
            eventually(lambda: health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.NOT_SERVING,
                       "health turns NOT_SERVING")
            with self.assertRaises(grpc.RpcError) as raised:
                list(stub.Generate(pb.GenerateRequest(text="x")))
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("shutting down", raised.exception.details())
            answer = Answer([first, *running], 1)
            self.assertEqual((answer.finishes, answer.usage.completion_tokens), (["length"], 150))
            self.assertEqual(node.wait(), 0)

    def test_the_timeout_ends_what_still_runs_with_a_reason(self):
        with Node("--shutdown-timeout", "0.1") as node, grpc.insecure_channel(f"127.0.0.1:{node.grpc_port}") as channel:
            call = inference_pb2_grpc.InferenceStub(channel).Generate(pb.GenerateRequest(text="x", max_tokens=4000, ignore_eos=True))
            next(call)
            node.signal(signal.SIGTERM)
            with self.assertRaises(grpc.RpcError) as raised:
                list(call)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("shutting down", raised.exception.details())
            self.assertEqual(node.wait(), 1)


if __name__ == "__main__":
    unittest.main()
