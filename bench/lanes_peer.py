#!/usr/bin/env python3
"""What lynx-bench-lanes measures, done with another transfer library: bench/lanes_peer.py nixl|mooncake --listen|--connect DIR.

One process writes into the other's memory: bursts of 2 MiB, alone and while writes of 1 MiB keep a backlog. A burst's time is from handing it to the library
until the library says that it is done (NIXL: until its notification is seen at the receiver). Prints the JSON lines of lynx-bench-lanes. Needs the
packages `nixl` or `mooncake-transfer-engine-non-cuda`; bench/lanes.py starts it with the interpreter that has them.
"""
import argparse
import ctypes
import json
import mmap
import pathlib
import random
import sys
import time

BURST = 2 << 20
PIECE = 1 << 20  # Of the backlog.
AREA = 64 << 20
WARM_UP_S = 1.0
PATIENCE_S = 60.0


class Memory:
    def __init__(self):
        self.map = mmap.mmap(-1, AREA)
        self.map.write(random.Random(7).randbytes(1 << 20) * (AREA >> 20))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))


class Nixl:
    def __init__(self, name: str, memory: Memory):
        from nixl._api import nixl_agent, nixl_agent_config
        self.agent = nixl_agent(name, nixl_agent_config(enable_prog_thread=True, backends=["UCX"]))
        self.memory = memory
        self.agent.register_memory([(memory.address, AREA, 0, "")], "DRAM")

    def describe(self) -> bytes:
        return self.memory.address.to_bytes(8, "little") + self.agent.get_agent_metadata()

    def connect(self, there: bytes) -> None:
        self.remote_address = int.from_bytes(there[:8], "little")
        self.remote = self.agent.add_remote_agent(there[8:])
        self.remote = self.remote.decode() if isinstance(self.remote, bytes) else self.remote

    def write(self, offset: int, size: int, name: str):
        here = self.agent.get_xfer_descs([(self.memory.address + offset, size, 0)], "DRAM")
        there = self.agent.get_xfer_descs([(self.remote_address + offset, size, 0)], "DRAM")
        handle = self.agent.initialize_xfer("WRITE", here, there, self.remote, name.encode())
        if self.agent.transfer(handle) == "ERR":
            raise OSError("nixl: a transfer could not be started")
        return handle

    def is_done(self, handle) -> bool:
        state = self.agent.check_xfer_state(handle)
        if state == "ERR":
            raise OSError("nixl: a transfer failed")
        if state == "DONE":
            self.agent.release_xfer_handle(handle)
        return state == "DONE"

    def arrivals(self) -> list[str]:
        return [name.decode() for names in self.agent.get_new_notifs().values() for name in names]


class Mooncake:
    def __init__(self, name: str, memory: Memory):
        from mooncake.engine import TransferEngine
        self.engine, self.memory, self.host = TransferEngine(), memory, name
        if self.engine.initialize(name, "P2PHANDSHAKE", "tcp", "") != 0 or self.engine.register_memory(memory.address, AREA) != 0:
            raise OSError("mooncake: the engine does not start")

    def describe(self) -> bytes:
        return self.memory.address.to_bytes(8, "little") + f"{self.host.split(':')[0]}:{self.engine.get_rpc_port()}".encode()

    def connect(self, there: bytes) -> None:
        self.remote_address, self.remote = int.from_bytes(there[:8], "little"), there[8:].decode()

    def write(self, offset: int, size: int, name: str):
        del name
        handle = self.engine.batch_transfer_async_write(self.remote, [self.memory.address + offset], [self.remote_address + offset], [size])
        if handle == 0 or handle < 0:
            raise OSError("mooncake: a transfer could not be started")
        return handle

    def is_done(self, handle) -> bool:
        status = self.engine.transfer_check_status(handle)
        if status < 0:
            raise OSError("mooncake: a transfer failed")
        return status == 1

    def arrivals(self) -> list[str]:
        return []


def publish(path: pathlib.Path, content: bytes) -> None:
    path.with_suffix(".part").write_bytes(content)
    path.with_suffix(".part").rename(path)


def wait_for(path: pathlib.Path, patience_s: float = PATIENCE_S) -> bytes:
    deadline = time.monotonic() + patience_s
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the other end does not come")
        time.sleep(0.01)
    return path.read_bytes()


def open_board(folder: pathlib.Path) -> mmap.mmap:
    """Arrivals of bursts, seen by both ends: 8 bytes of monotonic ns each."""
    with open(folder / "board", "a+b") as file:
        file.truncate(8 << 12)
        return mmap.mmap(file.fileno(), 8 << 12)


def receive(library, folder: pathlib.Path) -> None:
    board = open_board(folder)
    publish(folder / "receiver", library.describe())
    while not (folder / "end").exists():
        deadline = time.monotonic() + 0.2
        while time.monotonic() < deadline:
            for name in library.arrivals():
                if name.startswith("burst"):
                    number = int(name[5:])
                    board[8 * number:8 * number + 8] = time.monotonic_ns().to_bytes(8, "little")
            time.sleep(0.0002)


class Driver:
    def __init__(self, args, library, board: mmap.mmap):
        self.args, self.library, self.board, self.random = args, library, board, random.Random(args.seed)
        self.backlog, self.bursts, self.done_bytes, self.loaded = [], 0, 0, False
        self.notified = args.peer == "nixl"

    def look(self) -> None:
        for handle in list(self.backlog):
            if self.library.is_done(handle):
                self.backlog.remove(handle)
                self.done_bytes += PIECE
        while self.loaded and len(self.backlog) * PIECE < self.args.backlog_bytes:
            self.backlog.append(self.library.write(BURST + PIECE * self.random.randrange(32), PIECE, "piece"))

    def wait(self, seconds: float, happened=lambda: False) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not happened():
            self.look()
            time.sleep(0.0005)

    def burst(self) -> float:
        number, start = self.bursts, time.monotonic_ns()
        self.bursts += 1
        handle = self.library.write(0, BURST, f"burst{number}")
        ends = []

        def arrived() -> bool:
            if not ends and self.library.is_done(handle):
                ends.append(time.monotonic_ns())
            if self.notified and ends:
                ends[0] = int.from_bytes(self.board[8 * number:8 * number + 8], "little")
            return bool(ends and ends[0])

        self.wait(PATIENCE_S, arrived)
        if not arrived():
            raise TimeoutError("a burst does not arrive")
        self.done_bytes += BURST
        took_ms = (ends[0] - start) / 1e6
        self.wait(self.random.uniform(0.05, 0.2))
        return took_ms

    def phase(self, loaded: bool) -> None:
        self.loaded = loaded
        begin = time.monotonic()
        while time.monotonic() - begin < WARM_UP_S:
            self.burst()
        start, before, took = time.monotonic(), self.done_bytes, []
        while time.monotonic() - start < (self.args.loaded_seconds if loaded else self.args.idle_seconds):
            took.append(round(self.burst(), 3))
        seconds, size = time.monotonic() - start, self.done_bytes - before
        self.loaded = False
        self.wait(PATIENCE_S, lambda: not self.backlog)
        print(json.dumps({"what": "loaded" if loaded else "idle", "policy": self.args.peer, "seconds": seconds, "bytes": size, "bursts_ms": took}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=("nixl", "mooncake"))
    parser.add_argument("--listen", type=pathlib.Path)
    parser.add_argument("--connect", type=pathlib.Path)
    parser.add_argument("--address", required=True, help="of this end")
    parser.add_argument("--backlog-bytes", type=int, default=4 << 20)
    parser.add_argument("--idle-seconds", type=float, default=4)
    parser.add_argument("--loaded-seconds", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    memory = Memory()
    here = f"{args.address}:{17000 if args.listen else 17001}"
    library = Nixl(here, memory) if args.peer == "nixl" else Mooncake(here, memory)
    if args.listen:
        receive(library, args.listen)
        return 0
    library.connect(wait_for(args.connect / "receiver"))
    driver = Driver(args, library, open_board(args.connect))
    try:
        for phase in range(2 * args.repeats):
            driver.phase(phase % 2 == 1)
    finally:
        publish(args.connect / "end", b"")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
