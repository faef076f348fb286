"""A monitor to be tested, processes that it can see, and questions to it."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import tap

IPU = os.environ["IPU_BIN"]
PROGRAMS = os.path.join(os.environ["BUILD"], "tests")
BOX = tempfile.mkdtemp(prefix="ipu-web-")
started = []  # processes, for the end


def clean():
    """The end of the sandbox, and of what a check that failed left in it."""
    for p in started:
        if p.poll() is None:
            p.kill()
            p.wait()
    shutil.rmtree(BOX, ignore_errors=True)


def world(name, **more):
    """An environment with IPUs of its own."""
    run, home = os.path.join(BOX, name, "run"), os.path.join(BOX, name, "home")
    os.makedirs(home, exist_ok=True)
    os.makedirs(run, mode=0o700, exist_ok=True)
    drop = ("IPUOF_", "IPU_PARTITION", "IPU_ELASTIC", "IPU_DEVICE", "GCDA_", "IPU_ENGINE_OPTIONS", "IPU_MONITOR_TOKEN")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    return {**env, "HOME": home, "IPU_RUNTIME_DIR": run, **more}


class Monitor:
    """`ipu monitor --web`, started with its port free to choose, unless `listen` says otherwise."""

    def __init__(self, env, *options, listen="127.0.0.1:0"):
        self.errors = tempfile.TemporaryFile("w+", dir=BOX)
        self.process = subprocess.Popen([IPU, "monitor", "--web", "--listen", listen, *options], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors)
        started.append(self.process)
        self.line = self.process.stdout.readline().rstrip("\n")
        found = re.search(r"^listening on (http://(\[[^]]*\]|[^:/]*):(\d+)/)", self.line)
        assert found, f"{self.line!r} {self.stderr()}"
        self.url, self.port = found[1], int(found[3])
        self.host = "::1" if "[" in found[2] else "127.0.0.1"

    def stderr(self):
        """What it said there."""
        self.errors.seek(0)
        return self.errors.read()

    def connect(self, timeout=30):
        """A plain socket."""
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def ask(self, path, method="GET", headers=None):
        """The status, headers (by their names in small letters) and body of an answer."""
        c = http.client.HTTPConnection(self.host, self.port, timeout=180)
        try:
            c.putrequest(method, path, skip_host=bool(headers and "Host" in headers), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                c.putheader(name, value)
            c.endheaders()
            answer = c.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            c.close()

    def sample(self, **headers):
        """The newest sample."""
        status, _, body = self.ask("/api/sample", headers=headers)
        tap.equal(status, 200)
        return json.loads(body)

    def events(self, headers=None):
        """Yields (event, data) as they come; comments as (None, text)."""
        c = http.client.HTTPConnection(self.host, self.port, timeout=180)
        c.request("GET", "/events", headers=headers or {})
        answer = c.getresponse()
        tap.equal((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"))
        event = {}
        try:
            for line in answer:
                line = line.decode().rstrip("\n")
                if line.startswith(":"):
                    yield None, line
                elif line:
                    key, _, value = line.partition(": ")
                    event[key] = value
                elif event:
                    yield event.get("event"), {**event, "data": json.loads(event.get("data", "null"))}
                    event = {}
        finally:
            answer.close()
            c.close()

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])

    def files(self):
        """Open files."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu(self):
        """Seconds of processors that it used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as f:
            words = f.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def sanitized(self):
        """Whether figures of memory and time mean nothing."""
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as f:
            return bool(re.search(r"lib[at]san", f.read()))

    def stop(self, with_signal=signal.SIGTERM):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(timeout=180)


def run(env, *words):
    """`ipu` with these words: exit status, output, errors."""
    p = subprocess.run([IPU, *words], env=env, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=180, check=False)
    return p.returncode, p.stdout, p.stderr


class Holder:
    """A process with an IPU: `hold` or `busy`, under any name."""

    def __init__(self, env, *words, program="hold", name=None):
        path = os.path.join(PROGRAMS, program)
        if name:
            folder = tempfile.mkdtemp(dir=BOX)
            path = shutil.copy(path, os.path.join(folder.encode(), name if isinstance(name, bytes) else name.encode()))
        self.process = subprocess.Popen([path, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        started.append(self.process)
        self.pid = self.process.pid
        said = self.process.stdout.readline()
        assert said.strip() == b"attached", said

    def end(self):
        """Lets the IPU go."""
        self.process.stdin.close()
        return self.process.wait(timeout=180)
