"""Death, silence and leave-taking of either node of a pair, under load."""
import pathlib
import random
import signal
import threading
import time
import unittest

from freeze import frozen
from node import LONG_TEXT, Node, eventually
from pair import GENTLE, LONG, Pair, StreamEnd, all_blocks_free, decode_node, in_parallel, lasting_port, peers, prefill_is_idle, prefill_node, stream

SEED = 41
# Of what ends "within seconds": three of patience, three to notice a silent peer, and a busy machine.
SECONDS = 30
ROUNDS = 10 if LONG else 2


def bodies(count: int, seed: int = SEED) -> list[dict]:
    """Different prompts of 50 to 650 tokens, and streams long enough to be cut."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        start = draw.randrange(0, 6000)
        body = {"prompt": LONG_TEXT[start:start + draw.choice((200, 900, 2000))], "max_tokens": draw.choice((8, 40)), "ignore_eos": True, "temperature": 0}
        made.append(body | ({"temperature": 1, "seed": draw.randrange(1 << 30)} if draw.random() < 0.5 else {}))
    return made


class Load:
    """Clients that ask again and again until stop(); keeps how each answer ended, and how long it took."""

    def __init__(self, node: Node, asked: list[dict], clients: int):
        self.node, self.asked = node, asked
        self.ends: list[tuple[int, StreamEnd | Exception, float]] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.texts = {}  # Of the requests under way.
        self.threads = [threading.Thread(target=self.run, args=(client,)) for client in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, client: int):
        draw = random.Random(client)
        while not self.stopping.is_set():
            index = draw.randrange(len(self.asked))
            began = time.monotonic()
            try:
                end = stream(self.node, self.asked[index], lambda text: self.texts.update({client: text}))
            except Exception as error:  # Whatever it is, it is the outcome.
                end = error
            with self.lock:
                self.texts.pop(client, None)
                self.ends.append((index, end, time.monotonic() - began))
            if isinstance(end, StreamEnd) and end.status == 503:
                self.stopping.wait(0.1)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self.ends


class PairFaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.asked = bodies(12)
        with Node() as alone:
            cls.want = [alone.complete(**body)["choices"][0]["text"] for body in cls.asked]

    def check_whole(self, ends):
        for index, end, _ in ends:
            self.assertTrue(isinstance(end, StreamEnd) and end.whole, f"{end!r} {getattr(end, 'args', '')}")
            self.assertEqual(end.text, self.want[index], self.asked[index])

    def check_probe(self, pair: Pair):
        self.assertEqual(pair.decode.complete(**self.asked[0])["choices"][0]["text"], self.want[0])

    def test_the_only_prefill_node_dies_again_and_again(self):
        draw = random.Random(SEED)
        with Pair() as pair:
            pid = pair.decode.process.pid
            failed = 0
            for _ in range(ROUNDS):
                load = Load(pair.decode, self.asked, clients=6)
                eventually(lambda: load.texts, "it is under load")
                time.sleep(draw.random())
                pair.kill_prefill()
                time.sleep(0.2)
                for index, end, seconds in load.stop():
                    self.assertIsInstance(end, StreamEnd, "an answer ends with a status or an event, not by breaking off")
                    self.assertLess(seconds, SECONDS + 30, "none hangs")
                    if end.whole:
                        self.assertEqual(end.text, self.want[index])
                        continue
                    failed += 1
                    if end.status != 200:
                        self.assertEqual((end.status, end.error["type"]), (503, "service_unavailable_error"), end)
                    else:
                        self.assertEqual(end.error["type"], "service_unavailable_error", end)
                        self.assertTrue(self.want[index].startswith(end.text), "what was sent before the error is right")
                self.assertEqual((pair.decode.process.poll(), pair.decode.process.pid), (None, pid))
                eventually(lambda: pair.decode.request("/health")[0] == 503, "readiness says that no prefill node is there")
                status, headers, answer = pair.decode.request("/v1/completions", self.asked[0])
                self.assertEqual(status, 503, answer)
                self.assertIn("prefill node", answer["error"]["message"])
                self.assertTrue(headers["Retry-After"])
                eventually(lambda: pair.decode.idle() and all_blocks_free(pair.decode), "the dead node's requests hold nothing")
                pair.restart_prefill()
                pair.wait_until_up()
                self.check_probe(pair)
            self.assertGreater(failed, 0, "some requests were in its hands")

    def test_with_a_second_prefill_node_none_fails(self):
        draw = random.Random(SEED + 1)
        with Pair(prefills=2) as pair:
            load = Load(pair.decode, self.asked, clients=6)
            for number in range(ROUNDS):
                eventually(lambda: len(load.texts) > 1, "it is under load")
                time.sleep(draw.random())
                pair.kill_prefill(number % 2)
                time.sleep(0.5)
                pair.restart_prefill(number % 2)
                pair.wait_until_up()
            self.check_whole(load.stop())
            self.assertGreater(pair.decode.metric("lynx_pair_tickets_again_total"), 0, "some were asked for again")
            pair.wait_until_idle()

    def ask_with_a_silent_data_plane(self, pair: Pair, then) -> StreamEnd:
        """Asks while the first prefill node's data plane does nothing; once the first token is there, `then` happens."""
        first = threading.Event()
        ends = []
        asking = threading.Thread(target=lambda: ends.append(stream(pair.decode, self.asked[0], lambda _: first.set())))
        with frozen(pair.prefill.process.pid, "lynx-link"):
            asking.start()
            self.assertTrue(first.wait(SECONDS), "the first token does not wait for the cache")
            then()
            asking.join()
        return ends[0]

    def test_death_between_the_first_token_and_the_cache(self):
        with Pair(prefills=2) as pair:
            for _ in range(ROUNDS):
                again = pair.decode.metric("lynx_pair_tickets_again_total")
                end = self.ask_with_a_silent_data_plane(pair, lambda: pair.prefill.signal(signal.SIGKILL))
                self.check_whole([(0, end, 0)])
                self.assertEqual(pair.decode.metric("lynx_pair_tickets_again_total"), again + 1)
                pair.restart_prefill()
                pair.wait_until_up()
            pair.wait_until_idle()
        with Pair() as pair:
            end = self.ask_with_a_silent_data_plane(pair, lambda: pair.prefill.signal(signal.SIGKILL))
            self.assertEqual((end.status, end.error["type"]), (200, "service_unavailable_error"), end)
            self.assertTrue(end.text and self.want[0].startswith(end.text), end)

    def test_a_data_plane_that_falls_silent_is_left(self):
        with Pair(prefills=2) as pair:
            end = self.ask_with_a_silent_data_plane(pair, lambda: None)  # Its control plane goes on.
            self.check_whole([(0, end, 0)])
            self.assertIn("nothing came for", pair.decode.log_text())
            pair.wait_until_up()
            pair.wait_until_idle()
        with Pair() as pair:
            end = self.ask_with_a_silent_data_plane(pair, lambda: None)
            self.assertEqual((end.status, end.error["type"]), (200, "service_unavailable_error"), end)
            pair.wait_until_up()
            self.check_probe(pair)
            pair.wait_until_idle()

    def test_the_decode_node_dies_and_comes_back_on_its_ports(self):
        with Pair() as pair:
            for _ in range(2):
                load = Load(pair.decode, self.asked, clients=8)
                eventually(lambda: load.texts and pair.prefill.metric("lynx_pair_tickets") > 1, "it is under load")
                pair.decode.signal(signal.SIGKILL)
                died = time.monotonic()
                eventually(lambda: prefill_is_idle(pair.prefill) and pair.prefill.metric("lynx_pair_sessions") == 0, "the prefill node frees all")
                self.assertLess(time.monotonic() - died, 10, "five seconds, on a machine that does nothing else")
                load.stop()
                pair.restart_decode()
                self.check_probe(pair)

    def test_a_silent_prefill_node_is_left_and_comes_back(self):
        with Pair(prefills=2) as pair:
            # Prompts are at both nodes, and one request decodes already.
            steady = {"prompt": "Count:", "max_tokens": 400, "ignore_eos": True, "temperature": 0}
            steady_text = pair.decode.complete(**steady)["choices"][0]["text"]
            going = threading.Event()
            steady_end = []
            steady_thread = threading.Thread(target=lambda: steady_end.append(stream(pair.decode, steady, lambda _: going.set())))
            steady_thread.start()
            self.assertTrue(going.wait(SECONDS))
            load = Load(pair.decode, self.asked, clients=6)
            eventually(lambda: pair.prefill.metric("lynx_pair_tickets") > 0, "the node has tickets")
            pair.prefill.signal(signal.SIGSTOP)
            silent = time.monotonic()
            eventually(lambda: not peers(pair.decode)[0]["up"], "the silence is noticed")
            self.assertLess(time.monotonic() - silent, 12, "four seconds, on a machine that does nothing else")
            time.sleep(1)
            self.check_whole(load.stop())
            steady_thread.join()
            self.assertTrue(steady_end[0].whole)
            self.assertEqual(steady_end[0].text, steady_text)
            pair.prefill.signal(signal.SIGCONT)
            pair.wait_until_up()
            pair.wait_until_idle()

    def test_a_prefill_node_that_drains_ends_its_tickets_and_gets_no_new_ones(self):
        with Pair(prefills=2, prefill=GENTLE) as pair:
            load = Load(pair.decode, self.asked, clients=6)
            eventually(lambda: pair.prefill.metric("lynx_pair_tickets") > 0, "the node has tickets")
            pair.prefill.signal(signal.SIGTERM)
            self.assertEqual(pair.prefill.wait(), 0)
            time.sleep(0.5)
            self.check_whole(load.stop())
            self.assertEqual(pair.decode.metric("lynx_pair_tickets_failed_total"), 0)
            pair.restart_prefill()
            pair.wait_until_up()
            self.check_probe(pair)

    def test_a_decode_node_that_drains_finishes_what_it_has(self):
        with Pair(decode=GENTLE) as pair:
            jobs = [lambda body=body: stream(pair.decode, body) for body in self.asked[:6]]

            def leave():
                eventually(lambda: pair.decode.metric("lynx_scheduler_running_requests") == 6, "all were admitted")
                pair.decode.signal(signal.SIGTERM)

            *ends, _ = in_parallel([*jobs, leave], 7)
            self.check_whole([(index, end, 0) for index, end in enumerate(ends)])
            self.assertEqual(pair.decode.wait(), 0)
            eventually(lambda: prefill_is_idle(pair.prefill), "the prefill node holds nothing")
            pair.restart_decode()
            self.check_probe(pair)

    def test_a_drain_that_takes_too_long_ends_with_a_reason(self):
        endless = {"prompt": "Count:", "max_tokens": 4000, "ignore_eos": True}
        impatient = ("--shutdown-timeout", "0.1")
        with Pair(decode=impatient, prefill=impatient) as pair:
            def leave():
                eventually(lambda: pair.decode.metric("lynx_pair_caches_arrived_total") == 1, "it decodes")
                pair.decode.signal(signal.SIGTERM)

            end, _ = in_parallel([lambda: stream(pair.decode, endless), leave], 2)
            self.assertEqual(end.error["type"], "service_unavailable_error", end)
            self.assertEqual(pair.decode.wait(), 1)
            pair.restart_decode()

            def leave_prefill():
                eventually(lambda: pair.prefill.metric("lynx_scheduler_running_requests") == 1, "it computes")
                pair.prefill.signal(signal.SIGTERM)

            end, _ = in_parallel([lambda: stream(pair.decode, endless | {"prompt": LONG_TEXT}), leave_prefill], 2)
            self.assertEqual((end.status, end.error["type"]), (503, "service_unavailable_error"), end)
            self.assertEqual(pair.prefill.wait(), 1)
            self.assertIsNone(pair.decode.process.poll())

    def test_decode_nodes_that_share_a_prefill_node_do_not_disturb_each_other(self):
        with Pair() as pair, decode_node(pair.prefills) as other:
            eventually(lambda: peers(other)[0]["up"], "the other one is up too")
            self.assertEqual(pair.prefill.metric("lynx_pair_sessions"), 2)
            loads = [Load(node, self.asked, clients=2) for node in (pair.decode, other)]
            eventually(lambda: all(load.ends and load.texts for load in loads), "both are under load")
            other.signal(signal.SIGKILL)
            time.sleep(1)
            self.check_whole(loads[0].stop())
            loads[1].stop()
            eventually(lambda: pair.prefill.metric("lynx_pair_sessions") == 1, "the dead one's session is over")
            pair.wait_until_idle()

    def test_an_idle_pair_uses_no_processor(self):
        def ticks(node: Node) -> int:
            fields = pathlib.Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        with Pair() as pair:
            self.check_probe(pair)
            pair.wait_until_idle()
            nodes = (pair.decode, pair.prefill)
            before = [ticks(node) for node in nodes]
            time.sleep(2)
            for node, was in zip(nodes, before):
                self.assertLess(ticks(node) - was, 20, "of the 200 ticks that one spinning thread would use")

    def test_nodes_may_be_started_in_any_order(self):
        ports = (lasting_port(), lasting_port())
        with prefill_node(ports=ports) as first:
            pass
        with decode_node([first]) as decode:
            self.assertEqual(decode.request("/health")[0], 503)
            self.assertEqual(decode.request("/ping")[0], 200)
            with prefill_node(ports=ports):
                eventually(lambda: decode.request("/health")[0] == 200, "the pair is found")
                self.assertEqual(decode.complete(**self.asked[0])["choices"][0]["text"], self.want[0])
                self.assertEqual(decode.log_text().count("prefill node greeted"), 1, "with what it computes by, though it was missed before")


if __name__ == "__main__":
    unittest.main()
