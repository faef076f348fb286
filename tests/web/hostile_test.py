"""Clients that mean harm to `ipu monitor --web`: it goes on, answers others, and its memory stays. tests/web_test.sh runs it."""
import concurrent.futures
import json
import os
import random
import resource
import socket
import sys
import threading
import time

import tap
from monitor import Monitor, clean, run, world
from raw import alive, send, status
from tap import check, equal, note, together, until

MIB = 1 << 20


def malformed(m):
    """Requests that are none."""
    host = b"Host: localhost\r\n"
    cases = {
        "nothing at all": b"",
        "only newlines": b"\r\n" * 500,
        "HTTP/0.9": b"GET /\r\n\r\n",
        "a version that is none": b"GET / HTTP/9.9\r\n" + host + b"\r\n",
        "a version of noise": b"GET / \xff\xfe\x00\r\n\r\n",
        "no path": b"GET\r\n\r\n",
        "a path without a slash": b"GET x HTTP/1.1\r\n" + host + b"\r\n",
        "bytes of 0 in the path": b"GET /\0/../x HTTP/1.1\r\n" + host + b"\r\n",
        "an escaped 0 in the path": b"GET /%00 HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n",
        "bytes of 0 in a header": b"GET / HTTP/1.1\r\n" + host + b"X: a\0b\r\n\r\n",
        "UTF-8 that is none": b"GET /\xc3\x28\xff HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n",
        "a header without a colon": b"GET / HTTP/1.1\r\n" + host + b"nonsense\r\n\r\n",
        "a header that begins with a blank": b"GET / HTTP/1.1\r\n folded\r\n" + host + b"\r\n",
        "no Host": b"GET / HTTP/1.1\r\n\r\n",
        "two Hosts": b"GET / HTTP/1.1\r\n" + host + b"Host: evil.example\r\nConnection: close\r\n\r\n",
        "a length below 0": b"GET / HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n",
        "a length beyond any": b"GET / HTTP/1.1\r\n" + host + b"Content-Length: 99999999999999999999\r\n\r\n",
        "chunks that are none": b"GET / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "both lengths": b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "a body for GET": b"GET / HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n\r\nhello",
        "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a proxy's request": b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\n" + host + b"\r\n",
    }
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        answers = dict(zip(cases, pool.map(lambda data: send(m, data), cases.values())))
    for name, answer in answers.items():
        with check(f"{name}: refused, and others are served"):
            code = status(answer)
            assert code in (None, 400, 403, 404, 405, 413, 505), code
            alive(m)


def huge(m):
    """Requests that are too large."""
    sizes = {
        "a path of 1 MiB": b"GET /" + b"a" * MIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a question of 1 MiB": b"GET /?token=" + b"a" * MIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a header of 1 MiB": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * MIB + b"\r\n\r\n",
        "100000 headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(100000)) + b"\r\n",
        "a cookie of 1 MiB": b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a=b; " * (MIB // 5) + b"\r\n\r\n",
        "a method of 1 MiB": b"G" * MIB + b" / HTTP/1.1\r\n\r\n",
        "a line that never ends": b"x" * 8 * MIB,
    }
    for name, data in sizes.items():
        with check(f"{name}: refused"):
            assert status(send(m, data)) in (None, 400, 413, 414, 431, 501), status(send(m, data))
            alive(m)
    with check("a body of 8 MiB for POST is not read"):
        code = status(send(m, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n" + bytes(8 * MIB)))
        assert code in (None, 405), code  # its answer may be lost with the connection
        alive(m)


def pipelined(m):
    """Many requests in one go."""
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with check("100 requests in one go get 100 answers"):
        answers = send(m, 99 * one + one[:-2] + b"Connection: close\r\n\r\n")
        equal(answers.count(b"HTTP/1.1 200 OK"), 100)
    with check("a stream that was only asked about by HEAD does not begin"):
        answers = send(m, b"HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n" + one[:-2] + b"Connection: close\r\n\r\n")
        equal((answers.count(b"HTTP/1.1 200 OK"), answers.count(b"event:"), answers[-3:]), (2, 0, b"ok\n"))
    with check("HTTP/1.0 gets its stream, without chunks"):
        with m.connect() as s:
            s.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
            got = b""
            while b"event: sample" not in got:
                got += s.recv(65536)
            assert got.partition(b"\r\n\r\n")[2].startswith(b"retry: 2000\nevent: history\n"), got[:2000]
    with check("what follows a refused one is not served as a request of its own"):
        answer = send(m, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n" + one + one)
        equal(answer.count(b"HTTP/1.1 200"), 0)


def noise(m):
    """Random bytes, and requests with random faults, the same ones every time."""
    rng = random.Random(1)
    whole = b"GET /api/sample?x=y HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\nCookie: a=b\r\nConnection: close\r\n\r\n"
    with check("400 connections of noise"):
        for i in range(400):
            data = bytearray(rng.randbytes(rng.randrange(600)) if i % 2 else whole)
            for _ in range(rng.randrange(1, 6) if data else 0):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with m.connect() as s:
                s.sendall(data)
                s.settimeout(0.01)
                try:
                    s.recv(4096)
                except OSError:
                    pass
        alive(m)


def loris(m):
    """Clients that ask a byte at a time, or nothing."""
    slow, silent = [m.connect() for _ in range(20)], [m.connect() for _ in range(20)]
    begin = time.monotonic()
    open_ones = set(slow)
    for s in slow:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    while open_ones and time.monotonic() - begin < 60:
        for s in list(open_ones):
            try:
                s.sendall(b"x")
            except OSError:
                open_ones.discard(s)
        time.sleep(0.5)
    with check("a client that asks a byte at a time is cut off"):
        equal(len(open_ones), 0)
        seconds = time.monotonic() - begin
        assert seconds >= 5, f"too soon: {seconds} s"
    with check("so is one that says nothing"):
        for s in silent:
            s.settimeout(60)
            equal(s.recv(1), b"")
    for s in slow + silent:
        s.close()


def flood():
    """As many connections as can be had, left open."""
    m = Monitor(world("flood"))
    until(lambda: m.ask("/healthz")[0] == 200)
    before, files = m.memory(), m.files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    many, n = [], min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    begin = time.monotonic()
    for _ in range(n):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex((m.host, m.port))
        many.append(s)
    with check(f"{n} connections: no more than the limit are served"):
        time.sleep(1)
        assert m.files() <= files + 256, m.files()
        equal(m.process.poll(), None)

    def answers():
        """others are served while they stay open"""
        try:
            return m.ask("/healthz")[0] == 200
        except OSError:
            return False
    with check("others are served again soon, while all of them stay open"):
        until(answers, 60, 0.5)
        note(f"after {n} connections others are served again within {time.monotonic() - begin:.1f} s")
    for s in many:
        s.close()
    with check("its memory and files are what they were"):
        until(lambda: m.files() <= files + 2, 60)
        if not m.sanitized():
            assert m.memory() < before + 24 * MIB, (before, m.memory())
            note(f"memory: {before / MIB:.1f} MiB before {n} connections, {m.memory() / MIB:.1f} MiB after")
    equal(m.stop(), 143)


def half_open():
    """Streams that nobody reads, of looks that are large: 256 IPUs, ten times a second."""
    env = world("half-open")
    equal(run(env, "partition", "create", "huge", "--target", "bow-pod256")[0], 0)
    m = Monitor(env, "--interval", "0.1")
    until(lambda: len(json.loads(m.ask("/api/history")[2])["looks"]) > 5)
    with check("256 IPUs are in the sample"):
        equal(len(m.sample()["ipus"]), 256)
    before, streams = m.memory(), []
    for _ in range(64):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((m.host, m.port))
        s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        streams.append(s)

    def is_full():
        """as many streams as there may be"""
        return m.ask("/events", "GET")[0] == 503 if len(streams) == 64 else False
    with check("a stream too many is refused, and told when to come back"):
        until(is_full, 20)
        code, headers, _ = m.ask("/events")
        equal((code, headers["retry-after"]), (503, "10"))
    most = 0

    def has_room():
        """who does not read is cut off"""
        nonlocal most
        most = max(most, m.memory())
        with m.connect() as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.settimeout(10)
            return status(s.recv(200)) == 200
    begin = time.monotonic()
    with check("streams that nobody reads are cut off, and others take their places"):
        until(has_room, 90, 0.5)
        note(f"64 streams of 256 IPUs that nobody reads: cut off after {time.monotonic() - begin:.0f} s; "
             f"memory {before / MIB:.1f} MiB before, {most / MIB:.1f} MiB at most")
        if not m.sanitized():
            assert most < before + 64 * MIB, (before, most)
    with check("a reader of everything gets every look meanwhile"):
        events = m.events()

        def without_gaps():
            """of ten looks none is missing, which a reader on a busy machine may be too slow for"""
            ids = [int(e["id"]) for name, e in (next(events) for _ in range(10)) if name == "sample"]
            equal(ids, sorted(set(ids)))
            return ids == list(range(ids[0], ids[0] + len(ids)))
        until(without_gaps)
        events.close()
    with check("a stop does not wait for clients that do not read"):
        begin = time.monotonic()
        equal(m.stop(), 143)
        equal(m.stderr(), "")
        assert time.monotonic() - begin < 20, time.monotonic() - begin
    for s in streams:
        s.close()


def heartbeat():
    """A stream with nothing to say for a long time."""
    m = Monitor(world("heartbeat"), "--interval", "3600")
    with check("a stream without news says now and then that it is there"):
        events = m.events()
        equal([next(events)[0], next(events)[0]], ["history", "sample"])
        begin = time.monotonic()
        equal(next(events), (None, ": still here"))
        assert 12 <= time.monotonic() - begin, "too often"
    with check("and ends in order"):
        threading.Timer(0.2, m.process.terminate).start()
        equal(list(events), [])
        equal(m.process.wait(timeout=60), 143)


def all_at_once(m):
    """What takes no time, one after the other, while the patient ones wait."""
    malformed(m)
    huge(m)
    pipelined(m)
    noise(m)


def main():
    """All of it."""
    m = Monitor(world("hostile"))
    until(lambda: m.ask("/healthz")[0] == 200)
    before, files = m.memory(), m.files()

    def quick():
        all_at_once(m)

    def slow():
        loris(m)
    together(quick, slow, flood, half_open, heartbeat)
    with check("after all of it: it serves, its files are closed, its memory is small"):
        alive(m)
        until(lambda: m.files() <= files + 2, 60)
        if not m.sanitized():
            assert m.memory() < before + 24 * MIB, (before, m.memory())
            note(f"memory: {before / MIB:.1f} MiB before, {m.memory() / MIB:.1f} MiB after all; processor time {m.cpu():.2f} s")
    with check("it said nothing on standard error, and ends in order"):
        equal(m.stop(), 143)
        equal(m.stderr(), "")


if __name__ == "__main__":
    try:
        main()
    finally:
        clean()
    tap.finish()
    sys.exit(os.EX_SOFTWARE)
