/* The live view's main loop: looks, keys, signals. */
#include "live/live.h"

#include <errno.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "live/screen.h"
#include "live/state.h"
#include "output.h"

enum {
    ESCAPE      = 27,
    ENTER       = 13,
    CTRL_N      = 14,
    CTRL_P      = 16,
    BACKSPACE   = 8,
    DELETE      = 127,
    FAR         = 1 << 20,
    SAY_SECONDS = 5
};

void live_say(live *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(l->message, sizeof l->message, format, args);
    va_end(args);
    l->message_until_ns = tool_clock() + SAY_SECONDS * TOOL_SECOND;
}

static void say_text(void *to, const char *text) { live_say(to, "%s", text); }

/* ---- looking ---- */

static void show(live *l)
{
    char problem[LIVE_MESSAGE];
    if (l->paused) return;
    if (!live_view_take(&l->view, l->w)) live_say(l, "out of memory: this is an earlier picture");
    if (l->mode == LIVE_READ && l->page.kind != LIVE_PAGE_HELP)
        live_page_detail(&l->page, &l->view, problem, sizeof problem);
}

static void look(live *l)
{
    watch_look(l->w);
    show(l);
}

/* ---- what keys do ---- */

static void change_interval(live *l, int step)
{
    static const double steps[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86400};
    int                 n = sizeof steps / sizeof *steps, i = 0;
    double              now = watch_interval(l->w);
    if (step > 0)
        while (i < n - 1 && steps[i] <= now) i++;
    else
        for (i = n - 1; i > 0 && steps[i] >= now;) i--;
    watch_set_interval(l->w, steps[i]);
}

static void open_detail(live *l)
{
    char problem[LIVE_MESSAGE];
    if (live_page_detail(&l->page, &l->view, problem, sizeof problem))
        l->mode = LIVE_READ;
    else
        live_say(l, "%s", problem);
}

static void ask_to_kill(live *l)
{
    char problem[LIVE_MESSAGE];
    bool pinned = live_kill_begin(&l->kill, l->w, &l->view, problem, sizeof problem);
    show(l);
    flushinp(); /* keys typed before the question are no answer to it */
    if (pinned)
        l->mode = LIVE_ASK_KILL;
    else
        live_say(l, "%s", problem);
}

static void answer_kill(live *l, int key)
{
    char said[LIVE_MESSAGE] = "nothing was sent";
    if (key == 't' || key == 'K') live_kill_send(&l->kill, key == 't' ? SIGTERM : SIGKILL, said, sizeof said);
    live_kill_end(&l->kill);
    live_say(l, "%s", said);
    l->mode = LIVE_SHOW;
}

static void edit_filter(live *l, int key)
{
    char  *filter = l->view.filter;
    size_t n      = strlen(filter);
    if (key == ENTER || key == KEY_ENTER || key == ESCAPE) l->mode = LIVE_SHOW;
    if (key == ESCAPE) *filter = 0;
    if (key == BACKSPACE || key == DELETE || key == KEY_BACKSPACE) {
        while (n > 0 && ((unsigned char)filter[--n] & 0xC0) == 0x80) {}
        filter[n] = 0;
    }
    if (key >= ' ' && key < 256 && key != DELETE && n + 1 < LIVE_FILTER) {
        filter[n]     = (char)key; /* UTF-8 arrives byte by byte */
        filter[n + 1] = 0;
    }
    live_view_arrange(&l->view);
}

static void turn_page(live *l, int key)
{
    switch (key) {
    case KEY_UP: l->page.top--; break;
    case KEY_DOWN: l->page.top++; break;
    case KEY_PPAGE: l->page.top -= LINES / 2; break;
    case KEY_NPAGE: l->page.top += LINES / 2; break;
    case KEY_HOME: l->page.top = 0; break;
    case KEY_END: l->page.top = l->page.n; break;
    default: l->mode = LIVE_SHOW;
    }
    if (l->page.top < 0) l->page.top = 0;
}

static void toggle_pause(live *l)
{
    l->paused = !l->paused;
    show(l);
}

static void clear_filter(live *l)
{
    l->view.filter[0] = 0;
    live_view_arrange(&l->view);
}

static void reverse(live *l)
{
    l->view.rows[l->view.table].reverse ^= true;
    live_view_arrange(&l->view);
}

static void sort_by(live *l, int step)
{
    live_view_sort(&l->view, step);
    live_view_arrange(&l->view);
}

static void toggle_all(live *l)
{
    watch_set_all(l->w, !watch_shows_all(l->w));
    l->paused = false;
    look(l);
}

static void open_help(live *l)
{
    live_page_help(&l->page);
    l->mode = LIVE_READ;
}

static void act(live *l, int key)
{
    switch (key) {
    case 'q':
    case KEY_F(10): l->over = true; break;
    case KEY_UP:
    case CTRL_P: live_view_move(&l->view, -1); break;
    case KEY_DOWN:
    case CTRL_N: live_view_move(&l->view, 1); break;
    case KEY_PPAGE: live_view_move(&l->view, -LINES / 3); break;
    case KEY_NPAGE: live_view_move(&l->view, LINES / 3); break;
    case KEY_HOME: live_view_move(&l->view, -FAR); break;
    case KEY_END: live_view_move(&l->view, FAR); break;
    case '\t': l->view.table = 1 - l->view.table; break;
    case 's':
    case '>':
    case KEY_F(6): sort_by(l, 1); break;
    case '<': sort_by(l, -1); break;
    case 'r': reverse(l); break;
    case '/': l->mode = LIVE_ASK_FILTER; break;
    case ESCAPE: clear_filter(l); break;
    case 'a': toggle_all(l); break;
    case 'p':
    case ' ': toggle_pause(l); break;
    case '+': change_interval(l, 1); break;
    case '-': change_interval(l, -1); break;
    case 'k':
    case KEY_F(9): ask_to_kill(l); break;
    case 'e':
    case ENTER:
    case KEY_ENTER: open_detail(l); break;
    case 'h':
    case '?':
    case KEY_F(1): open_help(l); break;
    default: break;
    }
}

static void on_key(live *l, int key)
{
    if (key == KEY_RESIZE) return;
    l->message[0] = 0;
    switch (l->mode) {
    case LIVE_SHOW: act(l, key); break;
    case LIVE_ASK_FILTER: edit_filter(l, key); break;
    case LIVE_ASK_KILL: answer_kill(l, key); break;
    case LIVE_READ: turn_page(l, key); break;
    }
}

/* ---- the loop ---- */

/* Until a key, a signal, the next look, or the end of a message. */
static void wait_a_while(live *l)
{
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = watch_signal_fd(), .events = POLLIN}};
    int           ms  = watch_due_ms(l->w);
    if (*l->message) {
        int64_t left = (l->message_until_ns - tool_clock()) / 1000000 + 1;
        if (left < ms) ms = left < 0 ? 0 : (int)left;
    }
    int ready  = poll(p, 2, ms);
    int number = watch_take_signal(l->w);
    if (ready > 0 && !number && (p[0].revents & (POLLHUP | POLLERR | POLLNVAL)))
        number = SIGHUP; /* the terminal is gone */
    if (number) {
        l->over = true;
        l->code = (tool_exit)(128 + number);
    }
    if (*l->message && tool_clock() >= l->message_until_ns) l->message[0] = 0;
}

static void run_screen(live *l, int64_t count)
{
    show(l);
    for (int64_t looks = 1; !l->over;) {
        int key;
        live_draw(l);
        wait_a_while(l);
        while (!l->over && (key = getch()) != ERR) on_key(l, key);
        if (l->over || watch_due_ms(l->w) > 0) continue;
        if (looks == count) break;
        look(l);
        looks++;
    }
}

tool_exit live_run(watch *w, int64_t count)
{
    live l = {.w = w, .kill.fd = -1};
    char problem[LIVE_MESSAGE];
    if (!watch_look(w) && watch_sample_of(w)->n_partitions == 0) return tool_fail("%s", watch_problem(w));
    if (!live_screen_begin(problem, sizeof problem)) return tool_fail("%s", problem);
    if (gethostname(l.host, sizeof l.host - 1) != 0) l.host[0] = 0;
    watch_tell_to(w, say_text, &l);
    live_view_init(&l.view);
    run_screen(&l, count);
    live_screen_end();
    watch_tell_to(w, NULL, NULL);
    live_kill_end(&l.kill);
    live_view_fini(&l.view);
    live_page_fini(&l.page);
    return l.code;
}
