"""The official client against a real model: sync, async, streams, the streaming helper, errors."""
import asyncio
import unittest

import openai

from node import LONG_TEXT, Node

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class OpenAiClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.client = openai.OpenAI(base_url=cls.node.url + "/v1", api_key="none", max_retries=0, timeout=120)
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        cls.node.kill()

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)
        self.assertGreaterEqual(models[0].max_model_len, 2048)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("no-such-model")

    def test_chat_answers_the_question(self):
        answer = self.client.chat.completions.create(model=self.model, messages=QUESTION, temperature=0, max_tokens=40)
        self.assertIn("Paris", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertLessEqual(answer.usage.prompt_tokens_details.cached_tokens, answer.usage.prompt_tokens)

    def test_stream_equals_unary(self):
        for options in ({"temperature": 0}, {"temperature": 1.2, "seed": 7}, {"temperature": 0.8, "seed": -1, "top_p": 0.9}):
            options = dict(model=self.model, messages=QUESTION, max_tokens=48, **options)
            unary = self.client.chat.completions.create(**options)
            text, reasons, usages = "", [], []
            for chunk in self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **options):
                if chunk.usage:
                    usages.append(chunk.usage)
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    reasons.append(choice.finish_reason)
            self.assertEqual(text, unary.choices[0].message.content)
            self.assertEqual([reason for reason in reasons if reason], [unary.choices[0].finish_reason])
            self.assertEqual(usages, [unary.usage])

    def test_streaming_helper_with_several_choices_and_logprobs(self):
        with self.client.chat.completions.stream(model=self.model, messages=QUESTION, n=3, temperature=0, max_tokens=12, logprobs=True,
                                                 top_logprobs=3) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertIn("logprobs.content.delta", kinds)
        self.assertEqual(len(final.choices), 3)
        self.assertEqual(len({choice.message.content for choice in final.choices}), 1)
        for choice in final.choices:
            spelled = bytes(byte for token in choice.logprobs.content for byte in token.bytes)
            self.assertIn(choice.message.content.encode(), spelled)
            for token in choice.logprobs.content:
                self.assertEqual(len(token.top_logprobs), 3)
                self.assertLessEqual(token.logprob, 0)
                # Greedy: the chosen token is the likeliest.
                self.assertEqual(token.logprob, token.top_logprobs[0].logprob)

    def test_seeds(self):
        def sample(seed):
            answer = self.client.completions.create(model=self.model, prompt="Once upon a time", seed=seed, max_tokens=24, temperature=1.3, n=2)
            return [choice.text for choice in answer.choices]

        first = sample(11)
        self.assertEqual(first, sample(11))
        self.assertNotEqual(first, sample(12))
        self.assertNotEqual(first[0], first[1])

    def test_completions_with_echo_and_logprobs(self):
        answer = self.client.completions.create(model=self.model, prompt="The sky is", echo=True, logprobs=2, max_tokens=2, temperature=0)
        choice = answer.choices[0]
        self.assertTrue(choice.text.startswith("The sky is"))
        self.assertEqual(len(choice.logprobs.tokens), answer.usage.total_tokens)
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs[1:]))
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset):
            self.assertEqual(choice.text[offset:offset + len(token)], token)
        # The prompt's scores do not depend on whether anything is generated.
        scored = self.client.completions.create(model=self.model, prompt="The sky is", echo=True, logprobs=2, max_tokens=0)
        length = len(scored.choices[0].logprobs.tokens)
        self.assertEqual(scored.choices[0].logprobs.token_logprobs, choice.logprobs.token_logprobs[:length])

    def test_prompts_of_every_kind(self):
        tokens = self.node.request("/tokenize", {"prompt": "The sky is"})[2]["tokens"]
        options = dict(model=self.model, max_tokens=6, temperature=0)
        texts = [self.client.completions.create(prompt=prompt, **options).choices[0].text for prompt in ("The sky is", tokens)]
        self.assertEqual(texts[0], texts[1])
        for prompt in (["The sky is", "One, two,"], [tokens, tokens[:2]]):
            joined = self.client.completions.create(prompt=prompt, n=2, **options)
            self.assertEqual([choice.index for choice in joined.choices], [0, 1, 2, 3])
            self.assertEqual([joined.choices[0].text, joined.choices[1].text], [texts[0]] * 2)

    def test_stop_strings_are_cut_and_streams_agree(self):
        options = dict(model=self.model, prompt="1, 2, 3, 4, 5,", max_tokens=30, temperature=0)
        free = self.client.completions.create(**options).choices[0].text
        stop = free[6:10]
        for extra in ({}, {"extra_body": {"include_stop_str_in_output": True}}):
            stopped = self.client.completions.create(stop=[stop, "never"], **options, **extra)
            expected = free[:free.index(stop) + (len(stop) if extra else 0)]
            self.assertEqual(stopped.choices[0].text, expected)
            self.assertEqual(stopped.choices[0].finish_reason, "stop")
            streamed = "".join(chunk.choices[0].text for chunk in self.client.completions.create(stop=[stop], stream=True, **options, **extra))
            self.assertEqual(streamed, expected)
        # A stop that begins to match and never completes is not lost.
        halfway = self.client.completions.create(stop=[free[-2:] + "\x00"], **options)
        self.assertEqual(halfway.choices[0].text, free)

    def test_sampling_fields(self):
        options = dict(model=self.model, prompt="The sky is", temperature=0)
        blue = self.node.request("/tokenize", {"prompt": " blue", "add_special_tokens": False})[2]["tokens"][0]
        biased = self.client.completions.create(logit_bias={str(blue): 100}, max_tokens=3, **options)
        self.assertEqual(biased.choices[0].text, " blue blue blue")
        self.assertEqual(self.client.completions.create(max_tokens=1, **options).usage.completion_tokens, 1)
        long = self.client.completions.create(max_tokens=40, extra_body={"ignore_eos": True, "min_tokens": 40}, **options)
        self.assertEqual((long.usage.completion_tokens, long.choices[0].finish_reason), (40, "length"))

    def test_errors_have_their_classes(self):
        create = self.client.chat.completions.create
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=self.model, messages=QUESTION, temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            create(model="other", messages=QUESTION)
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=self.model, messages=[{"role": "user", "content": LONG_TEXT * 8}], stream=True)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=self.model, messages=QUESTION, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual(caught.exception.param, "tools")

    def test_maximum_beyond_the_context_is_clamped(self):
        with Node("--max-model-len", "64") as small:
            client = openai.OpenAI(base_url=small.url + "/v1", api_key="none", max_retries=0)
            answer = client.completions.create(model=self.model, prompt="One, two,", max_tokens=10_000, temperature=0,
                                               extra_body={"ignore_eos": True})
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertEqual(answer.usage.total_tokens, 64)

    def test_async_client(self):
        async def ask_all():
            async with openai.AsyncOpenAI(base_url=self.node.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
                async def one(index):
                    stream = await client.completions.create(model=self.model, prompt=f"{index} plus one is", max_tokens=8, temperature=0,
                                                             stream=True)
                    return "".join([chunk.choices[0].text async for chunk in stream])

                return await asyncio.gather(*(one(index) for index in range(6)))

        together = asyncio.run(ask_all())
        for index, text in enumerate(together):
            alone = self.client.completions.create(model=self.model, prompt=f"{index} plus one is", max_tokens=8, temperature=0)
            self.assertEqual(text, alone.choices[0].text)

    def test_cjk_and_emoji_stream_equals_unary(self):
        options = dict(model=self.model, prompt="Repeat: 你好，世界 😀🎉 こんにちは 你好，世界 😀🎉 こんにちは 你好，", max_tokens=40, temperature=0)
        unary = self.client.completions.create(**options).choices[0].text
        pieces = [chunk.choices[0].text for chunk in self.client.completions.create(stream=True, **options)]
        self.assertEqual("".join(pieces), unary)


if __name__ == "__main__":
    unittest.main()
