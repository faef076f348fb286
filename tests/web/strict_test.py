"""Requests to `ipu monitor --web` that are not well formed, or that a proxy in front of it could read differently. tests/web_test.sh
runs it."""
import re

import tap
from monitor import Monitor, clean, world
from raw import alive, send, status
from tap import check, equal, until

TOKEN = "0123456789abcdef0123"


def request(*headers, target=b"/healthz", method=b"GET", host=b"Host: localhost"):
    """A request that ends its connection."""
    lines = [method + b" " + target + b" HTTP/1.1", *([host] if host else []), *headers, b"Connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def refused(m, cases):
    """Each of these is refused with this status and nothing else, and its connection is closed."""
    for name, (code, data) in cases.items():
        with check(f"{name}: {code}"):
            answer = send(m, data + request())
            equal(status(answer), code)
            if code == 400:  # what follows could be part of it; libmicrohttpd says some of its own refusals twice
                equal(set(re.findall(rb"HTTP/1\.1 (\d+)", answer)), {b"400"})


def ambiguous(m):
    """What could be read in two ways."""
    follows = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    refused(m, {
        "two Hosts": (400, request(b"Host: evil.example")),
        "the same Host twice": (400, request(b"Host: localhost")),
        "two Hosts in other letters": (400, request(b"hOST: localhost")),
        "no Host": (400, request(host=None)),
        "two lengths": (400, request(b"Content-Length: 0", b"Content-Length: 44") + follows),
        "the same length twice": (400, request(b"Content-Length: 0", b"Content-Length: 0")),
        "a list of lengths": (400, request(b"Content-Length: 0, 0")),
        "a length with a sign": (400, request(b"Content-Length: +0")),
        "a length in hex": (400, request(b"Content-Length: 0x0")),
        "a length that is empty": (400, request(b"Content-Length:")),
        "a length and chunks": (400, request(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"),
        "chunks and a length, for POST": (400, request(b"Transfer-Encoding: chunked", b"Content-Length: 5", method=b"POST") + b"0\r\n\r\n"),
        "two encodings": (400, request(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity")),
        "an encoding in disguise": (400, request(b"Transfer-Encoding: xchunked")),
        "a body": (400, request(b"Content-Length: 5") + b"hello"),
        "two tokens": (400, request(b"Authorization: Bearer a", b"Authorization: Bearer b")),
        "two Origins": (400, request(b"Origin: http://localhost", b"Origin: http://evil.example")),
        "two Sec-Fetch-Sites": (400, request(b"Sec-Fetch-Site: same-origin", b"Sec-Fetch-Site: cross-site")),
    })


def malformed(m):
    """What is no request."""
    refused(m, {
        "a blank before the colon": (400, request(b"X : y")),
        "a blank before the colon of Host": (400, request(host=b"Host : localhost")),
        "a second Host with a blank": (400, request(b"Host : evil.example")),
        "a tab before the colon": (400, request(b"Content-Length\t: 5")),
        "a name with a blank": (400, request(b"X Y: z")),
        "no name": (400, request(b": z")),
        "no colon": (400, request(b"nonsense")),
        "a header that is folded": (400, request(b"X: y", b" z")),
        "a Host that is folded": (400, request(host=b"Host:\r\n localhost")),
        "a first header that begins with a blank": (400, request(host=b" X: y\r\nHost: localhost")),
        "NUL in a value": (400, request(b"X: a\0b")),
        "NUL at the end of a value": (400, request(b"X: a\0")),
        "NUL after the Host": (400, request(host=b"Host: localhost\0.evil.example")),
        "NUL in a name": (400, request(b"Content-Length\0: 5")),
        "NUL before a name": (400, request(b"\0Content-Length: 5")),
        "NUL before a colon": (400, request(b"Host\0: evil.example")),
        "NUL in the path": (400, request(target=b"/healthz\0/x")),
        "NUL in the query": (400, request(target=b"/healthz?a\0b")),
        "NUL in the method": (400, request(method=b"GET\0X")),
        "a carriage return in a value": (400, request(b"X: a\rY: b")),
        "a control character in a value": (400, request(b"X: a\x01b")),
        "DEL in a value": (400, request(b"X: a\x7fb")),
        "%00 in the path": (400, request(target=b"/healthz%00")),
        "%00 before more of the path": (400, request(target=b"/%00healthz")),
        "%00 in the query": (400, request(target=b"/?token=a%00b")),
        "a % without digits": (400, request(target=b"/healthz%")),
        "a % with one digit": (400, request(target=b"/healthz%4")),
        "a % with letters": (400, request(target=b"/%zz")),
        "a % without digits in the query": (400, request(target=b"/?x=%gg")),
        "a byte beyond ASCII": (400, request(target=b"/\xc3\xa4")),
        "a tab in the path": (400, request(target=b"/a\tb")),
        "a path without a slash": (400, request(target=b"healthz")),
        "a proxy's path": (400, request(target=b"http://localhost/healthz")),
        "a star": (400, request(target=b"*", method=b"OPTIONS")),
        "a path of 8193 characters": (414, request(target=b"/" + b"a" * 8192)),
        "a query of 8193 characters": (414, request(target=b"/?" + b"a" * 8191)),
        "a path of 100000 characters": (414, request(target=b"/" + b"a" * 100000)),
        "103 headers": (431, request(*[b"X: y"] * 101)),
        "2000 headers": (431, request(*[b"X%d: y" % i for i in range(2000)])),
        "a header of 40000 bytes": (431, request(b"X: " + b"a" * 40000)),
        "a path that leads out": (404, request(target=b"/../../etc/passwd")),
        "a path that leads out, escaped": (404, request(target=b"/..%2f..%2fetc/passwd")),
        "a method that nobody knows": (405, request(method=b"BREW")),
        "a method in small letters": (405, request(method=b"get")),
    })
    for name, data in {"a blank in the path": request(target=b"/a b"), "two blanks": request(target=b" /healthz"),
                       "a blank at the end of the line": b"GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n",
                       "a query of 2000 words": request(target=b"/healthz?" + b"a=b&" * 2000),
                       "HTTP/2.0": b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", "HTTP/1.1x": b"GET /healthz HTTP/1.1x\r\nHost: localhost\r\n\r\n",
                       "NUL after the version": b"GET /healthz HTTP/1.1\0\r\nHost: localhost\r\n\r\n"}.items():
        with check(f"{name}: not served"):
            code = status(send(m, data))
            assert code in (None, 400, 431, 505), code


def foreign(m):
    """Pages of other sites."""
    port = str(m.port).encode()
    refused(m, {
        "a foreign Origin": (403, request(b"Origin: http://evil.example")),
        "an Origin of nobody": (403, request(b"Origin: null")),
        "an empty Origin": (403, request(b"Origin: ")),
        "an Origin that begins as ours": (403, request(b"Origin: http://localhost.evil.example")),
        "an Origin on another port": (403, request(b"Origin: http://localhost:1")),
        "an Origin of another scheme": (403, request(b"Origin: ftp://localhost")),
        "a foreign Origin that says it is ours": (403, request(b"Origin: http://evil.example", b"Sec-Fetch-Site: same-origin")),
        "a Host that is not ours": (403, request(host=b"Host: evil.example")),
        "that Host and its own Origin": (403, request(b"Origin: http://evil.example", host=b"Host: evil.example")),
    })
    for name, data in {"our Origin": request(b"Origin: http://127.0.0.1:" + port, host=b"Host: 127.0.0.1:" + port),
                       "our Origin in other letters": request(b"Origin: HTTP://LocalHost"),
                       "our Origin behind a proxy with TLS": request(b"Origin: https://localhost")}.items():
        with check(f"{name}: 200"):
            equal(status(send(m, data)), 200)


def good(m):
    """What is unusual, and right."""
    for name, data in {
        "no blank after the colon": request(b"X:y"),
        "blanks and tabs around a value": request(b"X: \t y \t "),
        "an empty value": request(b"X:", b"Y: "),
        "a value beyond ASCII": request(b"X: \xc3\xa4\xff"),
        "a length of 0": request(b"Content-Length: 0"),
        "lines that end with a line feed only": b"GET /healthz HTTP/1.1\nHost: localhost\nX: y\nConnection: close\n\n",
        "empty lines before": b"\r\n\r\n" + request(),
        "an escaped letter": request(target=b"/h%65althz"),
        "a query": request(target=b"/healthz?a=b&c&=d&e=%20+&&?/"),
        "an empty query": request(target=b"/healthz?"),
        "a query of 8000 characters": request(target=b"/healthz?" + b"a=bbbbbb&" * 20 + b"c" * 7800),
        "two cookies": request(b"Cookie: a=b", b"Cookie: c=d"),
        "90 headers": request(*[b"X%d: y" % i for i in range(88)]),
        "a header of 20000 bytes": request(b"X: " + b"a " * 10000),
        "HTTP/1.0": b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n",
    }.items():
        with check(f"{name}: 200"):
            equal(status(send(m, data)), 200)
    with check("a request that comes in two parts, split anywhere: 200"):
        data = request(b"X: y", target=b"/healthz?a=b")
        for i in range(1, len(data)):
            with m.connect() as s:
                s.sendall(data[:i])
                s.sendall(data[i:])
                equal(status(s.recv(200)), 200, i)
    with check("a connection that stays open is judged each time"):
        keep = request().replace(b"close", b"keep-alive")
        answer = send(m, keep + keep + request(b"Host: localhost") + keep)
        equal(re.findall(rb"HTTP/1\.1 (\d+)", answer), [b"200", b"200", b"400"])


def with_token():
    """A token does not make up for a request that is wrong."""
    m = Monitor({**world("token"), "IPU_MONITOR_TOKEN": TOKEN})
    until(lambda: m.ask("/healthz")[0] == 200)
    bearer = b"Authorization: Bearer " + TOKEN.encode()
    sample = {"target": b"/api/sample"}
    refused(m, {
        "with the token, two Hosts": (400, request(bearer, b"Host: b", **sample)),
        "with the token, a blank before a colon": (400, request(bearer, b"X : y", **sample)),
        "with the token, a foreign Origin": (403, request(bearer, b"Origin: http://evil.example", **sample)),
        "the token, twice": (400, request(bearer, bearer, **sample)),
        "NUL behind the token": (400, request(bearer + b"\0", **sample)),
        "the token and %00": (400, request(target=b"/?token=" + TOKEN.encode() + b"%00x")),
    })
    with check("with the token: 200"):
        equal(status(send(m, request(bearer, b"Origin: http://any.name:80", host=b"Host: any.name:80", **sample))), 200)
    equal(m.stop(), 143)


def main():
    """All of it."""
    m = Monitor(world("strict"))
    until(lambda: m.ask("/healthz")[0] == 200)
    ambiguous(m)
    malformed(m)
    foreign(m)
    good(m)
    with check("it said nothing on standard error, and ends in order"):
        alive(m)
        equal(m.stop(), 143)
        equal(m.stderr(), "")
    with_token()


if __name__ == "__main__":
    try:
        main()
    finally:
        clean()
    tap.finish()
