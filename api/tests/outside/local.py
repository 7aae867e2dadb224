"""What the scripts need of this machine: a free port, and patience."""

import socket
import time


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(what, asked, patience=120):
    until = time.monotonic() + patience
    while not (found := asked()):
        assert time.monotonic() < until, f"{what} did not come within {patience} s"
        time.sleep(0.1)
    return found
