"""`ipu monitor --web` as programs see it: addresses, paths, tokens, events, metrics. tests/web_test.sh runs it."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import tap
from monitor import BOX, IPU, Holder, Monitor, clean, run, world
from tap import check, equal, until

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
PATHS = {"/": "text/html; charset=utf-8", "/monitor.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8",
         "/icon.svg": "image/svg+xml", "/api/sample": "application/json", "/api/history": "application/json",
         "/metrics": "text/plain; version=0.0.4; charset=utf-8", "/healthz": "text/plain; charset=utf-8"}


def addresses():
    """Where it listens, and how it ends."""
    env = world("addresses")
    for listen, pattern in (("127.0.0.1:0", r"http://127\.0\.0\.1:\d+/$"), ("localhost:0", r"http://localhost:\d+/$"),
                            ("[::1]:0", r"http://\[::1\]:\d+/$")):
        try:
            m = Monitor(env, listen=listen)
        except AssertionError as e:
            if "::1" in listen and re.search("Cannot assign|not supported", str(e)):
                tap.skip("no IPv6 here")
                continue
            raise
        with check(f"listens on {listen} and says where"):
            assert re.search(pattern, m.line), m.line
            equal(m.ask("/healthz", headers={"Host": m.url[7:-1]})[0], 200)
            equal(m.stop(signal.SIGINT), 130)
            equal(m.stderr(), "")
    m = Monitor(env)
    with check("a port that is in use is an error that says so"):
        code, out, err = run(env, "monitor", "--web", "--listen", f"127.0.0.1:{m.port}")
        equal((code, out), (1, ""))
        assert "something else does" in err, err
    with check("SIGTERM ends it, and an open stream with it, in order"):
        events = m.events()
        equal(next(events)[0], "history")
        equal(m.stop(), 143)
        rest = list(events)  # a stream that was torn off would raise IncompleteRead
        assert all(name in ("sample", None) for name, _ in rest), rest
    with check("the port can be taken again at once"):
        again = Monitor(env, listen=f"127.0.0.1:{m.port}")
        equal(again.port, m.port)
        equal(again.stop(), 143)
    with check("--count ends it"):
        code, out, err = run(env, "monitor", "--web", "--listen", "127.0.0.1:0", "--count", "2", "--interval", "0.1")
        equal((code, err), (0, ""))
        assert out.startswith("listening on "), out


    with check("where it cannot say that it listens, it does not go on"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            p = subprocess.run([IPU, "monitor", "--web", "--listen", "127.0.0.1:0"], env=env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert p.returncode == 1 and "cannot write to standard output" in p.stderr, p


def misuse():
    """Command lines that are wrong."""
    env = world("misuse")
    for listen in ("8091", "127.0.0.1", "127.0.0.1:", ":8091", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1", "::1:80", "[::1]80", "[::1", ""):
        with check(f"--listen {listen!r} is refused"):
            code, out, err = run(env, "monitor", "--web", "--listen", listen)
            equal((code, out), (2, ""))
            assert "expected HOST:PORT" in err, err
    with check("an address that is not this host's"):
        code, _, err = run(env, "monitor", "--web", "--listen", "192.0.2.1:0")
        assert code == 1 and "cannot listen on 192.0.2.1:0" in err, err
    for words, expected in ((("--listen", "127.0.0.1:0"), "--listen needs --web"), (("--token-file", "x"), "--token-file needs --web"),
                            (("--web", "--csv"), "do not go together"), (("--web", "--json"), "do not go together"),
                            (("--web", "--interval", "0"), "no number"), (("--web", "--alert", "sadness>1"), "sadness")):
        with check(f"{' '.join(words)} is refused"):
            code, out, err = run(env, "monitor", *words)
            equal((code, out), (2, ""))
            assert expected in err, err
    path = os.path.join(BOX, "token")
    for content, mode, expected in ((None, 0, "No such file"), ("x" * 15, 0o600, "16 to 256 characters, found 15"),
                                    ("x" * 257, 0o600, "found more"), ("", 0o600, "found 0"), ("sixteen letters!", 0o600, "none of letters"),
                                    ("x" * 32, 0o644, "others may read"), ("x" * 32, 0o620, "others may read")):
        with check(f"a token file of {content!r:.20} and mode {mode:o} is refused"):
            if content is not None:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(content)
                os.chmod(path, mode)
            code, out, err = run(env, "monitor", "--web", "--listen", "127.0.0.1:0", "--token-file", path)
            equal((code, out), (1, ""))
            assert expected in err and (content or "?") not in err, err
    with check("a token file that is a folder, or a pipe, is refused"):
        os.mkfifo(path + ".pipe", 0o600)
        for p in (BOX, path + ".pipe"):
            code, _, err = run(env, "monitor", "--web", "--listen", "127.0.0.1:0", "--token-file", p)
            assert code == 1 and "expected a file" in err, err
    with check("a token in the environment that is too short is refused"):
        code, _, err = run({**env, "IPU_MONITOR_TOKEN": "short"}, "monitor", "--web", "--listen", "127.0.0.1:0")
        assert code == 1 and "IPU_MONITOR_TOKEN" in err, err


def paths(m):
    """What there is to ask for."""
    for path, kind in PATHS.items():
        with check(f"GET {path}"):
            status, headers, body = m.ask(path)
            equal((status, headers["content-type"]), (200, kind))
            equal(int(headers["content-length"]), len(body))
            assert headers["content-security-policy"].startswith("default-src 'none'; "), headers
            for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("cache-control", "no-store"),
                                ("x-frame-options", "DENY")):
                equal(headers.get(name), value, name)
        with check(f"HEAD {path}"):
            status, headers, body = m.ask(path, "HEAD")
            equal((status, headers["content-type"], body), (200, kind, b""))
    with check("what the page is made of is in the binary, byte for byte"):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "web", "page")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                assert m.ask("/" if name == "index.html" else "/" + name)[2] == f.read(), name
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FROB"):
        with check(f"{method} is not allowed"):
            status, headers, _ = m.ask("/api/sample", method)
            equal((status, headers["allow"]), (405, "GET, HEAD"))
    for path in ("/nothing", "/api", "/api/", "/index.html", "//", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/monitor.css/"):
        with check(f"{path} is not there"):
            equal(m.ask(path)[0], 404)
    for host, status in (("evil.example", 403), (f"evil.example:{m.port}", 403), ("", 403), ("127.0.0.1.evil.example", 403), ("localhost:x", 403),
                         ("localhost", 200), ("LOCALHOST:9000", 200), ("[::1]:22", 200), (f"127.0.0.1:{m.port}", 200)):
        with check(f"with Host: {host!r} it is {status}"):
            equal(m.ask("/api/sample", headers={"Host": host})[0], status)
            equal(m.ask("/healthz", headers={"Host": host})[0], status)


    for site, mode, status in (("cross-site", "no-cors", 403), ("same-site", "cors", 403), ("cross-site", None, 403), ("cross-site", "navigate", 200),
                               ("same-origin", "cors", 200), ("none", "navigate", 200)):
        with check(f"asked by a page, {site}, {mode}: {status}"):
            headers = {"Sec-Fetch-Site": site, **({"Sec-Fetch-Mode": mode} if mode else {})}
            equal([m.ask(p, headers=headers)[0] for p in ("/", "/api/sample", "/metrics")], [status] * 3)


def samples(m, env):
    """JSON, and the stream of it."""
    with check("/api/sample is what --jsonl prints"):
        code, out, err = run(env, "monitor", "--jsonl", "--count", "1")
        equal((code, err), (0, ""))
        mine, theirs = m.sample(), json.loads(out)
        equal(mine["ipus"], theirs["ipus"])
        equal(mine["partitions"], theirs["partitions"])
        equal(set(mine), set(theirs))
    with check("/api/history remembers each look"):
        history = json.loads(m.ask("/api/history")[2])
        equal([i["index"] for i in history["ipus"]], [0, 1, 2, 3])
        equal({len(i["utilisation"]) for i in history["ipus"]}, {len(history["looks"])})
        equal(history["looks"], sorted(history["looks"]))
        before = len(history["looks"])
        until(lambda: len(json.loads(m.ask("/api/history")[2])["looks"]) > before)
    events = m.events()
    with check("a stream begins with the history, and says when to come back"):
        name, event = next(events)
        equal((name, event["retry"]), ("history", "2000"))
        equal(len(event["data"]["ipus"]), 4)
    with check("then each look follows"):
        ids = [int(next(events)[1]["id"]) for _ in range(4)]
        equal(ids, sorted(set(ids)))
    with check("a process that attaches is in the stream, and gone when it ends"):
        holder = Holder(env, "2")
        seen = next(e["data"] for _, e in events if e["data"]["processes"])
        equal([(p["pid"], p["device"], p["first_ipu"]) for p in seen["processes"]], [(holder.pid, 2, 2)])
        equal([i["pid"] for i in seen["ipus"]], [None, None, holder.pid, None])
        holder.end()
        equal(next(e["data"] for _, e in events if not e["data"]["processes"])["ipus"][2]["pid"], None)
    events.close()


def parse(text):
    """Lines of either form of metrics: {(name, labels): value}, with every escape undone."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)', line)
        assert match, line
        labels = {k: v.replace(r"\n", "\n").replace(r"\"", '"').replace(r"\\", "\\")
                  for k, v in re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or "")}
        key = (match[1], tuple(sorted(labels.items())))
        assert key not in found, f"twice: {line}"
        found[key] = float(match[3])
    return found


def values(metrics, name):
    """[(labels, value)] of one metric."""
    return [(dict(labels), value) for (n, labels), value in metrics.items() if n == name]


def judges(plain, modern):
    """promtool, and the parser of Prometheus' own library."""
    promtool = shutil.which("promtool")
    if promtool:
        with check("promtool finds nothing to say about it"):
            p = subprocess.run([promtool, "check", "metrics"], input=plain, text=True, capture_output=True, check=False)
            equal((p.returncode, p.stdout, p.stderr), (0, "", ""))
    else:
        tap.skip("no promtool here (Debian: prometheus)")
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_modern
        from prometheus_client.parser import text_string_to_metric_families as read_plain
    except ImportError:
        tap.skip("no prometheus_client here (Debian: python3-prometheus-client)")
        return
    with check("Prometheus' own parsers read both forms, and find the same"):
        def keep(families):
            return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples if "scrape" not in s.name}
        equal(keep(read_modern(modern)), keep(read_plain(plain)))
        types = {f.name: f.type for f in read_modern(modern)}
        equal((types["openipu_runs"], types["ipum_hardware"], types["ipu_attached"], types["exporter_ticks"]), ("counter", "info", "gauge", "unknown"))
        equal({f.name: f.unit for f in read_modern(modern)}["openipu_host_bytes"], "bytes")


def documented(modern):
    """The table of docs/tools.md."""
    with check("docs/tools.md lists exactly these metrics, with their types and labels"):
        ending = {"counter": "_total", "info": "_info"}
        types = {name + ending.get(kind, ""): kind for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", modern, re.M)}
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "tools.md"), encoding="utf-8") as f:
            rows = re.findall(r"^\| `([a-z_]+)` \| (gauge|counter|info|unknown) \| ([a-z, ]*?) *\|", f.read(), re.M)
        equal({name: kind for name, kind, _ in rows}, types)
        labels = {name: set(filter(None, re.split(", ", text))) for name, _, text in rows}
        for name, pairs in parse(modern):
            equal({k for k, _ in pairs}, labels[name], name)


def negotiation(m):
    """Who asks for which form."""
    for accept, modern in (("application/openmetrics-text; version=1.0.0", True), ("application/openmetrics-text;version=\"1.0.0\"", True),
                           ("application/openmetrics-text", True), ("application/openmetrics-text; version=0.0.1", False),
                           ("application/openmetrics-text;version=0.0.1;q=0.9,application/openmetrics-text;version=1.0.0;q=0.75,text/plain;q=0.5", True),
                           ("text/plain;version=0.0.4", False), ("*/*", False), ("", False), ("," * 5000, False)):
        with check(f"Accept: {accept[:60]} gives {'OpenMetrics' if modern else 'text'}"):
            _, headers, body = m.ask("/metrics", headers={"Accept": accept})
            equal(headers["content-type"].startswith("application/openmetrics-text; version=1.0.0"), modern)
            equal(body.endswith(b"\n# EOF\n"), modern)


def metrics(m, env):
    """Metrics of a process that works and of ones with names that hurt."""
    worker = Holder(env, "0", program="busy")
    quote = Holder(env, "1", name='a"b\\c{d="e"}')
    line = Holder(env, "2", name="two\nlines\xff".encode("latin-1"))
    until(lambda: len(m.sample()["processes"]) == 3)
    plain = m.ask("/metrics")[2].decode()
    modern = m.ask("/metrics", headers=OPENMETRICS)[2].decode()
    found = parse(plain)
    with check("ipu_attached tells which IPUs are in use"):
        equal([(x["ipu"], v) for x, v in values(found, "ipu_attached")], [("0", 1), ("1", 1), ("2", 1), ("3", 0)])
    with check("the vendor's names are there"):
        equal({v for _, v in values(found, "ipu_tile_clk_speed")}, {1330e6})
        equal({v for _, v in values(found, "gcipuinfo_clock_frequency")}, {1330e6})
        equal({x["type"] for x, _ in values(found, "ipum_hardware_info")}, {"M2000"})
        assert values(found, "exporter_ticks")[0][1] > 0
        assert not re.search("chassis_|ipu_link_err_cnt|NaN", plain)
    with check("names with quotes, backslashes, newlines and broken UTF-8 come back whole, or harmless"):
        names = {x["command"] for x, _ in values(found, "openipu_runs_total")}
        assert 'a"b\\c{d="e"}' in names, names
        equal(len(names), 3)
        equal(found.keys() - parse(modern).keys(), set())
    with check("sizes and free IPUs of partitions"):
        equal([v for _, v in values(found, "openipu_partition_ipus") + values(found, "openipu_partition_free_ipus")], [4, 1])
    with check("what is not measured has no line"):
        equal(values(found, "openipu_cycles_total"), [])
        equal([x["ipu"] for x, _ in values(found, "openipu_utilisation_ratio")], ["0", "1", "2"])
    judges(plain, modern)
    documented(modern)
    negotiation(m)
    with check("counters of a process that lives go up, never back"):
        def counters():
            now = parse(m.ask("/metrics")[2].decode())
            return {k: v for k, v in now.items() if k[0].endswith("_total")}
        first = last = counters()
        while last[runs_of(last, worker.pid)] < first[runs_of(first, worker.pid)] + 20:
            now = counters()
            assert all(now[k] >= v for k, v in last.items()), "a counter went back"
            last = now
    with check("utilisation of a process that works half of the time is neither 0 nor 1"):
        until(lambda: 0.1 < max(v for _, v in values(parse(m.ask("/metrics")[2].decode()), "openipu_utilisation_ratio")) < 0.95)
    for h in (worker, quote, line):
        h.end()
    with check("processes that ended have no lines any more"):
        until(lambda: not values(parse(m.ask("/metrics")[2].decode()), "openipu_runs_total"))


def runs_of(counters, pid):
    """The key of a process's runs."""
    return next(k for k in counters if k[0] == "openipu_runs_total" and ("pid", str(pid)) in k[1])


def troubles():
    """Errors of IPUs, alerts, configurations that go wrong while it runs."""
    env = world("troubles", IPUOF_CONFIG_PATH=os.path.join(BOX, "p.conf"))
    conf = env["IPUOF_CONFIG_PATH"]
    good = '{"partition": "p", "ipus": 2}'

    def configure(text):
        with open(conf + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(conf + ".new", conf)
    configure(good)
    told = os.path.join(BOX, "told")
    m = Monitor({**env, "IPU_MONITOR_TOKEN": "0123456789abcdef0123"}, "--interval", "0.2", "--alert", "errors>0", "--exec",
                f'echo "$IPU_ALERT_STATE ${{IPU_MONITOR_TOKEN-none}}" >> {told}')
    token = {"Authorization": "Bearer 0123456789abcdef0123"}

    def state():
        return {v for _, v in values(parse(m.ask("/metrics", headers=token)[2].decode()), "openipu_alert_state")}
    with check("an alert that does not hold is ok"):
        until(lambda: m.sample(**token)["partitions"])
        equal(state(), {0})
    with check("an IPU with an error is in the sample and the metrics, and the alert fires"):
        Holder({**env, "GCDA_OPTIONS": '{"simulateSOCError.errorList":"IPUSOFTERR","simulateSOCError.triggerCount":"3"}'}, "0", program="busy").process.wait()
        until(lambda: m.sample(**token)["ipus"][0]["error"] == "IPUSOFTERR")
        until(lambda: state() == {2})
        equal([v for _, v in values(parse(m.ask("/metrics", headers=token)[2].decode()), "openipu_error")], [1, 0])
        equal(m.sample(**token)["alerts"][0]["state"], "firing")
    with check("the alert's command ran, and did not see the token"):
        until(lambda: os.path.exists(told) and open(told, encoding="utf-8").read() == "firing none\n")
    with check("a configuration that goes wrong: 503 with the reason, the last picture stays"):
        configure('{"partition": "p", "ipuz": 2}')
        until(lambda: m.ask("/healthz", headers=token)[0] == 503)
        assert b'key "ipuz" is not known' in m.ask("/healthz", headers=token)[2]
        sample = m.sample(**token)
        assert "ipuz" in sample["problem"] and len(sample["ipus"]) == 2, sample
        now = parse(m.ask("/metrics", headers=token)[2].decode())
        equal((values(now, "openipu_up")[0][1], values(now, "openipu_look_failures_total")[0][1] > 0), (0, True))
    with check("without the token /healthz says only that it is not ok"):
        status, _, body = m.ask("/healthz")
        equal((status, body), (503, b"not ok\n"))
    with check("mended, it is well again"):
        configure(good)
        until(lambda: m.ask("/healthz")[0] == 200)
        equal(m.sample(**token)["problem"], None)
    equal(m.stop(), 143)


def tokens():
    """Listening where others can reach it."""
    env = world("tokens")
    m = Monitor(env, listen="0.0.0.0:0")
    with check("off the loopback a token is made and printed with the address"):
        token = re.fullmatch(r"listening on http://[^/]+/\?token=([0-9a-f]{48})", m.line)[1]
        other = Monitor(env, listen="0.0.0.0:0")
        assert token not in other.line, "the same token twice"
        equal(other.stop(), 143)
    until(lambda: m.ask("/healthz")[0] == 200)
    for path in [p for p in PATHS if p != "/healthz"] + ["/events", "/nothing"]:
        with check(f"{path} needs it"):
            status, headers, _ = m.ask(path)
            equal((status, headers["www-authenticate"]), (401, "Bearer"))
    wrong = (token[:-1], token + "0", token[:-1] + ("0" if token[-1] != "0" else "1"), "", "0" * 48, token.upper() + "x", token + token)
    with check("nothing but it will do"):
        for t in wrong:
            equal(m.ask("/api/sample", headers={"Authorization": f"Bearer {t}"})[0], 401, t)
            equal(m.ask("/api/sample", headers={"Cookie": f"ipu_monitor_{m.port}={t}"})[0], 401, t)
            equal(m.ask(f"/?token={t}")[0], 401, t)
        for header in (f"Basic {token}", token, f"Bearer{token}", f"Bearer {token} x"):
            equal(m.ask("/api/sample", headers={"Authorization": header})[0], 401, header)
    with check("as a bearer it opens everything"):
        for path, kind in PATHS.items():
            status, headers, _ = m.ask(path, headers={"Authorization": f"Bearer {token}"})
            equal((status, headers["content-type"]), (200, kind))
        equal(m.ask("/api/sample", headers={"Authorization": f"bearer  {token}", "Host": "any.name"})[0], 200)
    with check("in the address it becomes a cookie, and goes out of sight"):
        status, headers, _ = m.ask(f"/?token={token}")
        equal((status, headers["location"]), (303, "./"))
        cookie, *flags = headers["set-cookie"].split("; ")
        equal((cookie, set(flags)), (f"ipu_monitor_{m.port}={token}", {"HttpOnly", "SameSite=Strict", "Path=/"}))
        equal(m.ask("/", headers={"Cookie": cookie})[0], 200)
        events = m.events(headers={"Cookie": "a=b; " + cookie})
        equal(next(events)[0], "history")
        events.close()
    with check("in the address of anything else it does nothing"):
        equal(m.ask(f"/api/sample?token={token}")[0], 401)
    equal(m.stop(), 143)

    path = os.path.join(BOX, "good-token")
    secret = "MDEyMzQ1Njc4OQ+/abcdef=="
    with open(path, "w", encoding="utf-8") as f:
        f.write(secret + "\r\nmore\n")
    os.chmod(path, 0o600)
    m = Monitor({**env, "IPU_MONITOR_TOKEN": "another-one-of-the-environment"}, "--token-file", path)
    with check("--token-file: its first line, before the environment's, on the loopback too, and not printed"):
        assert secret not in m.line and "token" in m.line, m.line
        equal(m.ask("/api/sample")[0], 401)
        equal(m.ask("/api/sample", headers={"Authorization": "Bearer another-one-of-the-environment"})[0], 401)
        until(lambda: m.ask("/api/sample", headers={"Authorization": f"Bearer {secret}"})[0] == 200)
        equal(m.ask("/?token=MDEyMzQ1Njc4OQ%2B%2Fabcdef%3D%3D")[0], 303)
        equal(m.stop(), 143)


def main():
    """All of it."""
    addresses()
    misuse()
    env = world("main")
    m = Monitor(env, "--interval", "0.2")
    until(lambda: m.ask("/healthz")[0] == 200)
    paths(m)
    samples(m, env)
    metrics(m, env)
    with check("it said nothing on standard error, and ends in order"):
        equal(m.stop(), 143)
        equal(m.stderr(), "")
    troubles()
    tokens()


if __name__ == "__main__":
    try:
        main()
    finally:
        clean()
    tap.finish()
    sys.exit(1)
