"""Bytes that are sent to a monitor as they are, and what it answers."""
import re
import socket

from tap import equal


def send(m, data, seconds=20):
    """What it answers to these bytes before it closes, or falls silent for a second after an answer."""
    with m.connect() as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it had enough already
        return receive(s, seconds)


def receive(s, seconds=20):
    """Everything until the end."""
    got = b""
    s.settimeout(seconds)
    try:
        while chunk := s.recv(65536):
            got += chunk
    except (ConnectionError, socket.timeout):
        pass
    return got


def status(answer):
    """The code of an answer; None: there is none."""
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    return int(match[1]) if match else None


def alive(m):
    """It still serves others."""
    equal(m.process.poll(), None)
    equal(m.ask("/healthz")[0], 200)
