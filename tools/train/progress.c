/* A live line as wide as the terminal currently is, drawn with one write so that it does not flicker; or
 * plain lines at intervals. */
#include "train/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 256, BAR = 30, LEAST_BAR = 8, COMPILE_STEP = 20 };

static const double live_seconds  = 0.1; /* between updates on a terminal */
static const double plain_seconds = 10;  /* between plain lines */

double progress_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_open(progress *p, FILE *out)
{
    const char *term = getenv("TERM");
    bool        dumb = !term || !*term || !strcmp(term, "dumb");
    *p               = (progress){.out = out, .live = isatty(fileno(out)) && !dumb, .shown = progress_now()};
}

void progress_clock(double seconds, char *out, size_t size)
{
    long long s = llround(seconds);
    if (s >= 3600)
        snprintf(out, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%lld:%02lld", s / 60, s % 60);
}

/* One less than the terminal's: on some, a full line starts a new one. */
static int width(const progress *p)
{
    struct winsize size;
    if (ioctl(fileno(p->out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
    return size.ws_col - 1;
}

/* Appends two blanks and the text if it fits into `most` characters as a whole. */
static void append(char text[TEXT], int most, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char text[TEXT], int most, const char *format, ...)
{
    char    item[TEXT];
    size_t  n = strlen(text);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(item, sizeof item, format, args);
    va_end(args);
    if ((int)n + more + 2 > most || n + (size_t)more + 3 > TEXT) return;
    snprintf(text + n, TEXT - n, "  %s", item);
}

/* Known values, most important first. */
static void append_values(char text[TEXT], int most, const progress_state *s)
{
    char left[32];
    if (!isnan(s->loss)) append(text, most, "loss %.4f", s->loss);
    if (!isnan(s->accuracy)) append(text, most, "accuracy %.4f", s->accuracy);
    if (s->images_per_second > 0) append(text, most, "%.0f images/s", s->images_per_second);
    if (s->seconds_left < 0) return;
    progress_clock(s->seconds_left, left, sizeof left);
    append(text, most, "%s left", left);
}

/* A run that takes longer than expected may be past its end. */
static double share_of(const progress_state *s)
{
    if (s->total <= 0 || s->done <= 0) return 0;
    return s->done < s->total ? (double)s->done / (double)s->total : 1;
}

static void draw(progress *p, const progress_state *s)
{
    int    columns      = width(p), n_bar;
    char   values[TEXT] = "", bar[BAR + 3] = "", line[3 * TEXT];
    double share = share_of(s);
    int    head  = (int)strlen(s->what) + 6; /* "epoch 2/5  45% " */
    append_values(values, columns - head, s);
    n_bar = columns - head - (int)strlen(values) - 2;
    if (n_bar > BAR) n_bar = BAR;
    if (n_bar >= LEAST_BAR) {
        int full = (int)(share * n_bar);
        bar[0]   = '[';
        memset(bar + 1, '=', (size_t)full);
        memset(bar + 1 + full, ' ', (size_t)(n_bar - full));
        if (full < n_bar) bar[1 + full] = '>';
        bar[n_bar + 1] = ']';
    }
    snprintf(line, sizeof line, "%s %3d%%%s%s%s", s->what, (int)(100 * share), *bar ? " " : "", bar, values);
    fprintf(p->out, "\r%.*s\033[K", columns, line);
    fflush(p->out);
    p->drawn = true;
}

void progress_show(progress *p, const progress_state *s)
{
    double now    = progress_now();
    bool   is_new = p->live && strncmp(p->what, s->what, sizeof p->what - 1) != 0;
    if (!is_new && now - p->shown < (p->live ? live_seconds : plain_seconds)) return;
    p->shown = now;
    snprintf(p->what, sizeof p->what, "%s", s->what);
    if (p->live) {
        draw(p, s);
        return;
    }
    char values[TEXT] = "";
    append_values(values, TEXT, s);
    fprintf(p->out, "%s  %lld/%lld%s\n", s->what, (long long)s->done, (long long)s->total, values);
    fflush(p->out);
}

/* A line for each fifth; several compilations may follow one another, each starting at 0. */
void progress_compiling(progress *p, int done, int total)
{
    int percent = total > 0 ? (int)(100LL * done / total) : 100;
    if (percent < p->compiled) p->compiled = 0;
    if (p->live) {
        if (percent != p->compiled) fprintf(p->out, "\rGraph compilation: %d/100\033[K", percent);
        p->drawn    = p->drawn || percent != p->compiled;
        p->compiled = percent;
        fflush(p->out);
        return;
    }
    for (; p->compiled + COMPILE_STEP <= percent; fflush(p->out))
        fprintf(p->out, "Graph compilation: %d/100\n", p->compiled += COMPILE_STEP);
}

void progress_clear(progress *p)
{
    if (p->drawn) fputs("\r\033[K", p->out);
    p->drawn = false;
    fflush(p->out);
}

void progress_line(progress *p, const char *format, ...)
{
    va_list args;
    if (p->drawn) fputs("\r\033[K", p->out);
    p->drawn = false;
    va_start(args, format);
    vfprintf(p->out, format, args);
    va_end(args);
    fputc('\n', p->out);
    fflush(p->out);
    p->shown = progress_now();
}
