/* The topology of a launch as a box: hosts, IPU-Link domains, instances, replicas, each below what contains
 * it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launch/poprun.h"

enum { MOST_COLUMNS = 64, TITLE = 13 };

static void repeat(char c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) putchar(c);
}

static void put_centred(const char *text, int64_t width)
{
    int64_t n = (int64_t)strlen(text), left = (width - n) / 2;
    if (left < 0) left = 0;
    repeat(' ', left);
    printf("%.*s", (int)(n < width ? n : width), text);
    repeat(' ', width - left - n);
}

/* Cells of equal width, `n` over `total` characters including the bars between them. */
static void put_row(const poprun *p, const char *title, int64_t n, int64_t total, bool is_host)
{
    int64_t width = (total - (n - 1)) / n;
    putchar('|');
    put_centred(title, TITLE);
    for (int64_t i = 0; i < n; i++) {
        char text[300];
        snprintf(text, sizeof text, "%lld", (long long)i);
        putchar('|');
        put_centred(is_host ? p->hosts[i] : text, i == n - 1 ? total - (width + 1) * (n - 1) : width);
    }
    puts("|");
}

static void put_rule(char c, int64_t total)
{
    putchar('|');
    repeat(c, TITLE + 1 + total);
    puts("|");
}

/* Wide enough for the longest host name and for five characters per replica. */
static int64_t columns(const poprun *p)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < p->n_hosts; i++) {
        int64_t n = (int64_t)strlen(p->hosts[i]);
        if (n > longest) longest = n;
    }
    int64_t per_host = p->n_replicas / p->n_hosts * 6 - 1;
    if (per_host < longest + 2) per_host = longest + 2;
    return (per_host + 1) * p->n_hosts - 1;
}

static void put_list(const poprun *p)
{
    int64_t instances = p->n_instances / p->n_hosts, replicas = p->n_replicas / p->n_hosts;
    for (int64_t h = 0; h < p->n_hosts; h++)
        printf("host %s: instances %" PRId64 " to %" PRId64 ", replicas %" PRId64 " to %" PRId64 "\n",
               p->hosts[h], h * instances, (h + 1) * instances - 1, h * replicas, (h + 1) * replicas - 1);
}

void poprun_print_topology(const poprun *p)
{
    int64_t total = columns(p);
    if (p->n_replicas > MOST_COLUMNS) {
        put_list(p);
        return;
    }
    putchar(' ');
    repeat('=', TITLE + 1 + total);
    puts("");
    putchar('|');
    put_centred("poprun topology", TITLE + 1 + total);
    puts("|");
    put_rule('=', total);
    put_row(p, "hosts", p->n_hosts, total, true);
    put_rule('-', total);
    put_row(p, "ILDs", 1, total, false);
    put_rule('-', total);
    put_row(p, "instances", p->n_instances, total, false);
    put_rule('-', total);
    put_row(p, "replicas", p->n_replicas, total, false);
    putchar(' ');
    repeat('-', TITLE + 1 + total);
    puts("");
}
