"""Drafts in the stream and receipts, as the official client meets them: it puts together the same text whether they are there or not."""
import unittest

import openai

from pair import HANDBOOK, Pair

MEMORY = ("--kv-memory", "256MiB")
# So little of the Residuals is under way at once that there is time to draft.
SLOW = ("--test-residual-delay", "500")


class ProvisionalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair = Pair(prefill=(*MEMORY, *SLOW), decode=MEMORY)
        cls.addClassCleanup(cls.pair.kill)
        cls.client = openai.OpenAI(base_url=cls.pair.decode.url + "/v1", api_key="none", max_retries=0, timeout=120)
        cls.options = dict(model=cls.client.models.list().data[0].id, temperature=0, max_tokens=40,
                           messages=[{"role": "user", "content": HANDBOOK[:3000] + "\nWhat is this about?"}])

    def test_drafts_are_shown_and_the_text_does_not_know_of_them(self):
        plain = self.client.chat.completions.create(**self.options)
        text, drafts, shown = "", "", []
        lynx = {"transfer": "progressive-exact", "gap": "draft", "provisional": True, "receipt": True}
        for chunk in self.client.chat.completions.create(stream=True, extra_body={"lynx": lynx}, **self.options):
            for choice in chunk.choices:
                text += choice.delta.content or ""
            own = (chunk.model_extra or {}).get("lynx", {})
            for provisional in own.get("provisional", []):
                self.assertEqual(provisional["index"], 0)
                self.assertEqual(bool(provisional["tokens"]), bool(provisional["text"]))
                drafts = provisional["text"]
                shown.append(text + drafts)
            receipt = own.get("receipt")
        self.assertEqual(text, plain.choices[0].message.content)
        self.assertEqual(drafts, "", "none are left at the end")
        self.assertGreater(max(map(len, shown)), 0)
        self.assertGreater(receipt["drafted"], 0)
        self.assertEqual(receipt["drafted"], receipt["accepted"] + receipt["rolled_back"])
        self.assertEqual((receipt["transfer"], receipt["verified"], receipt["gap"]), ("progressive-exact", "exact", "draft"))
        self.assertGreater(receipt["bytes"]["first"], 0)
        self.assertGreater(receipt["bytes"]["residual"], receipt["bytes"]["first"] / 2)
        for first, then in (("anchors_s", "cache_s"), ("cache_s", "verified_s"), ("cache_s", "second_token_s"), ("first_token_s", "second_token_s")):
            self.assertLessEqual(receipt[first], receipt[then])
        if receipt["accepted"] == receipt["drafted"]:
            self.assertTrue(any(plain.choices[0].message.content.startswith(guess.rstrip("\ufffd")) for guess in shown))

    def test_without_drafts_there_is_nothing_provisional(self):
        lynx = {"transfer": "progressive-exact", "speculation": False, "provisional": True, "receipt": True}
        own = [(chunk.model_extra or {}).get("lynx", {})
               for chunk in self.client.chat.completions.create(stream=True, extra_body={"lynx": lynx}, **self.options)]
        self.assertFalse(any("provisional" in one for one in own))
        self.assertEqual((own[-1]["receipt"]["gap"], own[-1]["receipt"]["drafted"]), ("wait", 0))

    def test_the_streaming_helper_takes_both(self):
        with self.client.chat.completions.stream(extra_body={"lynx": {"provisional": True, "receipt": True}}, **self.options) as stream:
            for _ in stream:
                pass
            final = stream.current_completion_snapshot
        plain = self.client.chat.completions.create(extra_body={"lynx": {"receipt": True}}, **self.options)
        self.assertEqual(final.choices[0].message.content, plain.choices[0].message.content)
        self.assertGreater(plain.model_extra["lynx"]["receipt"]["bytes"]["first"], 0)


if __name__ == "__main__":
    unittest.main()
