"""scripts/quickstart.sh from its start to its --stop: the pair shows what makes it one, and no start is taken for a death."""
import os
import re
import subprocess
import tempfile
import unittest

from node import ROOT
from pair import lasting_port

PORTS = ("LYNX_HTTP_PORT", "LYNX_GRPC_PORT", "LYNX_CONTROL_PORT", "LYNX_PREFILL_HTTP_PORT")


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = os.environ | {port: str(lasting_port()) for port in PORTS} | {"LYNX_RUN_DIR": folder.name}
        self.addCleanup(self.run_script, "--stop")

    def run_script(self, *arguments: str) -> subprocess.CompletedProcess:
        # A node that stays up would keep a pipe open: files instead.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run([ROOT / "scripts/quickstart.sh", *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, timeout=300, check=False)
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read())

    def test_a_pair_drafts_verifies_and_gives_a_receipt(self):
        started = self.run_script("--no-install", "--detach")
        self.assertEqual(started.returncode, 0, started.stdout)
        receipt = re.search(r"receipt: .*Anchors there at .* (\d+) tokens drafted on them, Residuals at .*verified at .* s: (\d+) accepted, (\d+) rolled back",
                            started.stdout)
        self.assertIsNotNone(receipt, started.stdout)
        drafted, accepted, rolled_back = map(int, receipt.groups())
        self.assertGreater(accepted, 1, started.stdout)
        self.assertEqual(drafted, accepted + rolled_back)
        again = self.run_script("--no-install", "--residual-delay", "0")
        self.assertIn("already running", again.stdout)
        stopped = self.run_script("--stop")
        self.assertEqual(len(re.findall(r"stopped lynx-(?:prefill|decode)-node", stopped.stdout)), 2, stopped.stdout)

    def test_starts_in_a_row(self):
        for _ in range(3):
            started = self.run_script("--no-install", "--detach", "--aggregated")
            self.assertEqual(started.returncode, 0, started.stdout)
            self.assertIn("stopped lynx-decode-node", self.run_script("--stop").stdout)

    def test_wrong_words_are_refused(self):
        for arguments in (("--residual-delay", "soon"), ("--model",), ("--fast",)):
            self.assertNotEqual(self.run_script(*arguments).returncode, 0, arguments)


if __name__ == "__main__":
    unittest.main()
