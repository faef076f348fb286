/* Access tokens: read, generated, compared. */
#include "web/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

/* Characters valid in both an Authorization header and a cookie: RFC 6750's b64token. */
static bool is_token_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
        || (c && strchr("-._~+/=", c));
}

static tool_exit check(const char *where, const web_token *t)
{
    size_t n = strlen(t->text);
    for (size_t i = 0; i < n; i++)
        if (!is_token_character(t->text[i]))
            return tool_fail("%s: character %zu of the token is none of letters, digits and -._~+/=", where,
                             i + 1);
    if (n < WEB_TOKEN_LEAST)
        return tool_fail(
            "%s: expected a token of %d to %d characters, found %zu; `openssl rand -hex 24` makes a good one",
            where, WEB_TOKEN_LEAST, WEB_TOKEN_MOST, n);
    return TOOL_OK;
}

static tool_exit set(const char *where, const char *text, size_t n, web_token *out)
{
    if (n > WEB_TOKEN_MOST)
        return tool_fail("%s: expected a token of %d to %d characters, found more", where, WEB_TOKEN_LEAST,
                         WEB_TOKEN_MOST);
    memcpy(out->text, text, n);
    out->text[n] = 0;
    return check(where, out);
}

static tool_exit read_line(int fd, const char *path, web_token *out)
{
    struct stat about;
    char        text[WEB_TOKEN_MOST + 3]; /* a token and a line ending */
    if (fstat(fd, &about) != 0) return tool_fail("cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return tool_fail("%s: expected a file with a token, found something else", path);
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        return tool_fail("%s: others may read or write the token (mode %03o); `chmod 600 %s` first", path,
                         (unsigned)about.st_mode & 0777, path);
    if (about.st_uid != geteuid())
        return tool_fail("%s: the token belongs to user %u; expected a file of user %u's", path,
                         (unsigned)about.st_uid, (unsigned)geteuid());
    ssize_t n = read(fd, text, sizeof text);
    if (n < 0) return tool_fail("cannot read %s: %s", path, strerror(errno));
    const char *end    = memchr(text, '\n', (size_t)n);
    size_t      length = end ? (size_t)(end - text) : (size_t)n;
    if (length > 0 && text[length - 1] == '\r') length--;
    return set(path, text, length, out);
}

static tool_exit read_file(const char *path, web_token *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return tool_fail("cannot read the token: %s: %s", path, strerror(errno));
    tool_exit code = read_line(fd, path, out);
    close(fd);
    return code;
}

static tool_exit make(web_token *out)
{
    unsigned char bytes[24];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tool_fail("cannot make a token: %s; give one with --token-file", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out->text + 2 * i, 3, "%02x", bytes[i]);
    out->made = true;
    return TOOL_OK;
}

tool_exit web_token_get(const char *file, bool needed, web_token *out)
{
    static const char variable[] = "IPU_MONITOR_TOKEN";
    const char       *text       = getenv(variable);
    tool_exit         code       = TOOL_OK;
    *out                         = (web_token){0};
    if (file)
        code = read_file(file, out);
    else if (text)
        code = set(variable, text, strlen(text), out);
    else if (needed)
        code = make(out);
    unsetenv(variable); /* commands started by the monitor need not know it */
    return code;
}

bool web_token_is(const web_token *t, const char *given)
{
    size_t        n = given ? strlen(given) : 0, own = strlen(t->text);
    unsigned char different = own == 0 || n != own;
    for (size_t i = 0; i < own; i++) different |= (unsigned char)(t->text[i] ^ (n ? given[i % n] : 0));
    return !different;
}

void web_token_escape(const web_token *t, char out[3 * WEB_TOKEN_MOST + 1])
{
    for (const char *c = t->text; *c; c++) {
        if (strchr("+/=", *c))
            out += sprintf(out, "%%%02X", (unsigned char)*c);
        else
            *out++ = *c;
    }
    *out = 0;
}
