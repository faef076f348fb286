"""A monitor that shows made-up IPUs in every state: for looks at the page that no real IPUs give at will.

made_up.py N_IPUS [SECONDS]: serves tools/web/page at a free port, prints its address, and ends after so long.
"""
import json
import math
import os
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WEB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "web", "page")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PARTITIONS = {1: [1], 4: [4], 64: [16, 48]}
BEGAN = time.time()
WORK = [("python3", "alice"), ("ipu", "bob"), ("train_resnet50.py", "carol"), ("<img src=x onerror=alert(1)>", "mallory")]


def share(i, t):
    """What IPU i does at time t: None if nobody has it."""
    kind = i % 8
    if kind in (3, 7) or (kind == 6 and math.sin(t / 50 + i) > 0.3):
        return None
    if kind == 5:
        return 0.0
    rng = random.Random(f"{i}/{int(t)}")
    return min(1.0, max(0.0, 0.55 + 0.35 * math.sin(t / (40 + 7 * kind) + i) + rng.uniform(-0.06, 0.06)))


def sample(n, t):
    """A sample of n IPUs, as watch_json has it."""
    partitions, ipus, processes, first = [], [], [], 0
    for k, size in enumerate(PARTITIONS.get(n, [n])):
        name = f"p{k + 1}"
        free = 0
        for index in range(size):
            i = first + index
            u = share(i, t)
            command, user = WORK[(i // 2) % len(WORK)]
            pid = None if u is None else 4000 + i
            free += u is None
            error = "IPUSOFTERR" if n > 1 and i % 32 == 3 else None
            ipus.append({"owner": "ops", "partition": name, "gcd": 0, "id": i, "index": index, "machine": f"10.1.5.{10 + i // 4}",
                         "type": "M2000", "board": f"0134.000{2 - i % 4 // 2}.82103{i // 4:02}", "number": 3 - i % 4, "error": error,
                         "utilisation": u, "pid": pid, "user": user if pid else None, "command": command if pid else None})
            if pid is None:
                continue
            processes.append({"pid": pid, "user": user, "command": command, "executable": "/usr/bin/" + command, "owner": "ops",
                              "partition": name, "gcd": 0, "device": index, "first_ipu": i, "ipus": 1, "since": BEGAN - 91 * (i + 3),
                              "seconds": t - BEGAN + 91 * (i + 3), "utilisation": u, "utilisation_session": 0.5, "runs": 1200 * i,
                              "supersteps": 91234 * (i + 1), "cycles": 4e9 * (i + 1) if i % 2 else None, "host_bytes": 3 << 28,
                              "tile_bytes": 612 << 20 if i % 2 else None, "runs_per_second": 41.5 * u, "host_bytes_per_second": 3e7 * u})
        partitions.append({"owner": "ops", "name": name, "gcd": 0, "active": k == 0, "elastic": False, "reconfigurable": True,
                           "stale": False, "chip": "gc200" if k == 0 else "bow", "architecture": "ipu2", "clock_hz": 1.33e9,
                           "ipus": size, "free": free, "processes": size - free})
        first += size
    alerts = [{"alert": "utilisation<5% for 10m", "state": "firing", "subject": "IPU 5 of p1 (pid 4005, carol)", "since": t - 742, "value": 0.0},
              {"alert": "held>8h", "state": "pending", "subject": "IPU 0 of p1 (pid 4000, alice)", "since": t - 12, "value": 28900.0},
              {"alert": "free<1", "state": "ok", "subject": None, "since": None, "value": None}] if n > 1 else []
    return {"time": t, "problem": None, "partitions": partitions, "ipus": ipus, "processes": processes, "alerts": alerts}


def history(n, t):
    """The ten minutes before."""
    looks = [t - 600 + i for i in range(600)]
    keys = ("owner", "partition", "gcd", "index")
    return {"host": "pod-07.lab", "version": "0.1.0", "interval": 1, "looks": looks,
            "ipus": [{**{k: ipu[k] for k in keys}, "utilisation": [share(ipu["id"], x) for x in looks]} for ipu in sample(n, t)["ipus"]]}


class Handler(BaseHTTPRequestHandler):
    """The page's files, and a stream of events."""

    def log_message(self, *_):
        """Says nothing."""

    def do_GET(self):
        """Files of tools/web/page, and /events."""
        if self.path == "/events":
            return self.events()
        path = os.path.join(WEB, "index.html" if self.path == "/" else os.path.basename(self.path))
        if not os.path.exists(path):
            return self.send_error(404)
        with open(path, "rb") as f:
            data = f.read()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[os.path.splitext(path)[1]])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self):
        """The history, then a sample a second."""
        n = self.server.n_ipus
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.wfile.write(f"event: history\ndata: {json.dumps(history(n, time.time()))}\n\n".encode())
            while True:
                self.wfile.write(f"event: sample\ndata: {json.dumps(sample(n, time.time()))}\n\n".encode())
                time.sleep(1)
        except OSError:
            pass


def serve(n):
    """A server of n IPUs in a thread of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.n_ipus = n
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/"


if __name__ == "__main__":
    print(serve(int(sys.argv[1]))[1], flush=True)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 600)
