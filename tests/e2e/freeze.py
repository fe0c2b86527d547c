"""Stops single threads of a node from outside, as a debugger does: one part of it falls silent while the others go on."""
import contextlib
import ctypes
import os
import pathlib

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL: threads too.


def ptrace(request: int, thread: int):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {thread}")


def threads_named(pid: int, name: str) -> list[int]:
    return [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() if (task / "comm").read_text().strip() == name]


@contextlib.contextmanager
def frozen(pid: int, name: str):
    """Threads `name` of a child process do nothing within; it may be killed meanwhile, but waited for only afterwards. Enter and leave it on one thread: the kernel
    wants that of a debugger."""
    threads = threads_named(pid, name)
    assert threads, f"process {pid} has no thread {name}"
    for thread in threads:
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WAIT_ALL)
    try:
        yield
    finally:
        for thread in threads:
            try:
                ptrace(PTRACE_DETACH, thread)
            except OSError:  # It was killed; its process is not over until we have seen it.
                os.waitpid(thread, WAIT_ALL)
