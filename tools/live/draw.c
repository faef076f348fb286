/* The live view on the terminal. */
#include <ncurses.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "live/screen.h"
#include "live/state.h"

#define KEYS \
    "q Quit  h Help  Tab Table  s Sort  r Reverse  / Filter  a All  p Pause  +/- Interval  k Kill  e Detail"

enum { MOST_COLUMNS = 16, HEADER = 2, MOST_ALERTS = 4, TEXT = 512 };

/* ---- columns ---- */

typedef struct layout {
    int widths[MOST_COLUMNS]; /* 0 if left out */
} layout;

static int total_of(const layout *l, int n)
{
    int total = 0;
    for (int c = 0; c < n; c++) total += l->widths[c] ? l->widths[c] + 1 : 0;
    return total - 1;
}

/* Drops the most dispensable column. Returns false if there is none left to drop. */
static bool spare_one(layout *l, const live_column *columns, int n)
{
    int which = -1;
    for (int c = 0; c < n; c++)
        if (l->widths[c] && columns[c].dispensable > (which < 0 ? 0 : columns[which].dispensable)) which = c;
    if (which >= 0) l->widths[which] = 0;
    return which >= 0;
}

static layout lay_out(const live_view *v, live_table table, int width)
{
    const live_column *columns = live_columns(table);
    int                n = live_n_columns(table), parts = 0;
    layout             l = {0};
    for (int c = 0; c < n; c++) l.widths[c] = live_column_is_used(v, table, c) ? columns[c].width : 0;
    while (total_of(&l, n) > width && spare_one(&l, columns, n)) {}
    int left = width - total_of(&l, n);
    for (int c = 0; c < n; c++) parts += l.widths[c] ? columns[c].stretch : 0;
    for (int c = 0; c < n && left > 0; c++) {
        if (!l.widths[c] || !columns[c].stretch) continue;
        int more = left * columns[c].stretch / parts;
        left -= more;
        parts -= columns[c].stretch;
        l.widths[c] += more;
    }
    return l;
}

/* ---- tables ---- */

static void draw_headings(const live_view *v, live_table table, const layout *l, int y)
{
    const live_column *columns = live_columns(table);
    const live_rows   *r       = &v->rows[table];
    live_style         style   = v->table == table ? LIVE_HEADING : LIVE_MARKED;
    live_put(y, 0, COLS, style, "");
    for (int c = 0, x = 0; c < live_n_columns(table); c++) {
        char text[LIVE_CELL];
        if (!l->widths[c]) continue;
        snprintf(text, sizeof text, "%s%s", columns[c].heading,
                 c == r->sort ? live_sign_sorted(r->reverse) : "");
        (columns[c].right ? live_put_right : live_put)(y, x, l->widths[c], style, text);
        x += l->widths[c] + 1;
    }
}

static live_style style_of(const live_view *v, live_table table, int row)
{
    static const struct {
        const char *state;
        live_style  style;
    } styles[] = {{"error", LIVE_BAD}, {"free", LIVE_DIM}, {"busy", LIVE_BUSY}, {"held", LIVE_WARNING}};
    for (size_t i = 0; table == LIVE_IPUS && i < sizeof styles / sizeof *styles; i++)
        if (!strcmp(styles[i].state, live_ipu_state(v, row))) return styles[i].style;
    return LIVE_PLAIN;
}

static void draw_cell(const live_view *v, live_table table, int c, int row, int y, int x, int width,
                      live_style style)
{
    const live_column  *column = &live_columns(table)[c];
    const watch_sample *s      = &v->picture.sample;
    char                text[LIVE_CELL];
    if (column->kind == LIVE_BAR) {
        int by = s->ipus[row].process;
        live_put_bar(y, x, width, style, by < 0 ? -1 : s->processes[by].counters.utilisation);
    } else if (column->kind == LIVE_SPARK)
        live_put_spark(y, x, width, style, v->picture.histories + (size_t)row * LIVE_HISTORY, LIVE_HISTORY);
    else {
        column->text(v, row, text);
        (column->right ? live_put_right : live_put)(y, x, width, style, text);
    }
}

static void draw_row(const live_view *v, live_table table, const layout *l, int at, int y)
{
    const live_rows *r        = &v->rows[table];
    bool             selected = at == r->selected && v->table == table;
    live_style       style    = selected ? LIVE_SELECTED : style_of(v, table, r->order[at]);
    live_put(y, 0, COLS, selected ? LIVE_SELECTED : LIVE_PLAIN, "");
    for (int c = 0, x = 0; c < live_n_columns(table); c++) {
        if (!l->widths[c]) continue;
        draw_cell(v, table, c, r->order[at], y, x, l->widths[c], style);
        x += l->widths[c] + 1;
    }
}

static const char *empty_text(const live_view *v, live_table table)
{
    if (*v->filter) return "  nothing here has the text of the filter; Esc shows all";
    return table == LIVE_IPUS ? "  no IPUs" : "  no attached processes";
}

/* In `height` lines from y on, including headings. */
static void draw_table(live_view *v, live_table table, int y, int height)
{
    live_rows *r = &v->rows[table];
    layout     l = lay_out(v, table, COLS);
    if (height < 1) return;
    live_view_scroll(v, table, height - 1);
    draw_headings(v, table, &l, y);
    for (int i = 1; i < height; i++) {
        if (r->top + i - 1 < r->n)
            draw_row(v, table, &l, r->top + i - 1, y + i);
        else if (i == 1)
            live_put(y + i, 0, COLS, LIVE_DIM, empty_text(v, table));
    }
}

/* Both get the height they want if there is room; otherwise two thirds go to the one with the focus. */
static void draw_tables(live_view *v, int y, int height)
{
    int wish[LIVE_TABLES], given[LIVE_TABLES];
    for (int t = 0; t < LIVE_TABLES; t++) wish[t] = 1 + (v->rows[t].n > 0 ? v->rows[t].n : 1);
    int first = v->table, second = 1 - first, third = height / 3 < 2 ? 2 : height / 3;
    int least     = wish[second] < third ? wish[second] : third;
    given[first]  = wish[first] < height - least ? wish[first] : height - least;
    given[second] = wish[second] < height - given[first] ? wish[second] : height - given[first];
    draw_table(v, LIVE_IPUS, y, given[LIVE_IPUS]);
    draw_table(v, LIVE_PROCESSES,
               height - given[LIVE_IPUS] > given[LIVE_PROCESSES] ? y + given[LIVE_IPUS] + 1
                                                                 : y + given[LIVE_IPUS],
               given[LIVE_PROCESSES]);
}

/* ---- header ---- */

static void partition_text(const live_view *v, char out[TEXT])
{
    const watch_sample *s = &v->picture.sample;
    if (s->n_partitions == 1)
        snprintf(out, TEXT, "partition %s%s, %s", s->partitions[0].title,
                 s->partitions[0].active ? " [active]" : "", s->partitions[0].chip);
    else
        snprintf(out, TEXT, "%d partitions%s", s->n_partitions, v->several_owners ? " of several users" : "");
}

static void draw_title(const live *l)
{
    char      partition[TEXT], left[2 * TEXT], right[TEXT], clock[32] = "";
    time_t    seconds = (time_t)(l->view.picture.sample.time_ns / 1000000000);
    struct tm local;
    if (localtime_r(&seconds, &local)) strftime(clock, sizeof clock, "%H:%M:%S", &local);
    partition_text(&l->view, partition);
    snprintf(left, sizeof left, "ipu monitor  %s  %s", l->host, partition);
    snprintf(right, sizeof right, "%s%s  every %gs", l->paused ? "PAUSED  " : "", clock,
             watch_interval(l->w));
    int width = live_width(right);
    live_put(0, 0, COLS - width - 1, LIVE_TITLE, left);
    live_put(0, COLS - width, width, l->paused ? LIVE_WARNING : LIVE_TITLE, right);
}

static void draw_summary(const live *l)
{
    const watch_sample *s      = &l->view.picture.sample;
    int                 n_free = 0, n_errors = 0, n_known = 0;
    double              sum = 0;
    char                text[TEXT], share[32] = "", filter[LIVE_FILTER + 16] = "";
    for (int i = 0; i < s->n_partitions; i++) n_free += s->partitions[i].n_free;
    for (int i = 0; i < s->n_ipus; i++) {
        double u = s->ipus[i].process < 0 ? -1 : s->processes[s->ipus[i].process].counters.utilisation;
        n_errors += *s->ipus[i].error != 0;
        n_known += u >= 0;
        sum += u >= 0 ? u : 0;
    }
    if (n_known) snprintf(share, sizeof share, ", utilisation of these %.1f%%", 100 * sum / n_known);
    if (*l->view.filter) snprintf(filter, sizeof filter, "  filter: %s", l->view.filter);
    snprintf(text, sizeof text, "%d IPUs: %d free, %d with errors, %d attached%s; %d process%s%s", s->n_ipus,
             n_free, n_errors, s->n_ipus - n_free, share, s->n_processes, s->n_processes == 1 ? "" : "es",
             filter);
    live_put(1, 0, COLS, LIVE_PLAIN, text);
}

/* ---- alerts ---- */

static int alert_lines(const live *l)
{
    const alerts *a = watch_alerts(l->w);
    int           n = alerts_n(a);
    return alerts_n_rules(a) == 0 ? 0 : n == 0 ? 1 : n < MOST_ALERTS ? n : MOST_ALERTS;
}

/* Firing alerts come first; the rest are counted. */
static void draw_alerts(const live *l, int y, int height)
{
    const alerts *a = watch_alerts(l->w);
    char          text[TEXT], value[ALERT_VALUE];
    int           line = 0, n = alerts_n(a);
    if (height > 0 && n == 0) {
        snprintf(text, sizeof text, "%d alert%s: ok", alerts_n_rules(a), alerts_n_rules(a) == 1 ? "" : "s");
        live_put(y, 0, COLS, LIVE_GOOD, text);
    }
    for (alert_state state = ALERT_FIRING; state >= ALERT_PENDING; state--)
        for (int i = 0; i < n && line < height; i++) {
            const alert *one = alerts_at(a, i);
            if (one->state != state) continue;
            const alert_rule *rule = alerts_rule(a, one->rule);
            alert_value_text(rule, one->value, value);
            snprintf(text, sizeof text, "%s %s: %s: %s", state == ALERT_FIRING ? "FIRING " : "pending",
                     rule->text, one->subject, value);
            if (line == height - 1 && n > height)
                snprintf(text, sizeof text, "... and %d more alerts", n - line);
            live_put(y + line++, 0, COLS, state == ALERT_FIRING ? LIVE_BAD : LIVE_WARNING, text);
        }
}

/* ---- questions and pages ---- */

static void draw_question(const live *l)
{
    const char *lines[] = {"",
                           l->kill.who,
                           l->kill.what,
                           "",
                           "t  SIGTERM: asks it to end",
                           "K  SIGKILL: ends it at once, nothing is saved",
                           "n, Esc  leave it alone",
                           ""};
    int         n = sizeof lines / sizeof *lines, width = 60 < COLS ? 60 : COLS;
    int         y = LINES > n ? (LINES - n) / 2 : 0, x = (COLS - width) / 2;
    for (int i = 0; i < n; i++) {
        live_put(y + i, x, width, LIVE_SELECTED, "");
        live_put(y + i, x + 2, width - 4, LIVE_SELECTED, i == 0 ? "Send a signal to" : lines[i]);
    }
}

static void draw_page(live *l, int y, int height)
{
    live_page *p = &l->page;
    if (p->top > p->n - (height - 1)) p->top = p->n - (height - 1);
    if (p->top < 0) p->top = 0;
    live_put(y, 0, COLS, LIVE_HEADING, p->title);
    for (int i = 0; i < height - 1 && p->top + i < p->n; i++)
        live_put(y + 1 + i, 0, COLS, LIVE_PLAIN, p->lines[p->top + i]);
}

static void draw_footer(const live *l)
{
    char text[LIVE_FILTER + 32];
    if (l->mode == LIVE_ASK_FILTER) {
        snprintf(text, sizeof text, "filter: %s_", l->view.filter);
        live_put(LINES - 1, 0, COLS, LIVE_BOLD, text);
    } else if (*l->message)
        live_put(LINES - 1, 0, COLS, LIVE_WARNING, l->message);
    else if (l->mode == LIVE_READ)
        live_put(LINES - 1, 0, COLS, LIVE_DIM, "Up, Down, PgUp, PgDn to read on; any other key goes back");
    else
        live_put(LINES - 1, 0, COLS, LIVE_DIM, KEYS);
}

/* ---- all ---- */

static void draw_small(void)
{
    char text[64];
    snprintf(text, sizeof text, "too small: %dx%d", COLS, LINES);
    live_put(0, 0, COLS, LIVE_BOLD, text);
    snprintf(text, sizeof text, "needs %dx%d", LIVE_LEAST_COLUMNS, LIVE_LEAST_LINES);
    live_put(1, 0, COLS, LIVE_PLAIN, text);
    live_put(2, 0, COLS, LIVE_PLAIN, "q quits");
}

void live_draw(live *l)
{
    int y = HEADER, alerting = alert_lines(l);
    erase();
    if (LINES < LIVE_LEAST_LINES || COLS < LIVE_LEAST_COLUMNS) {
        draw_small();
        refresh();
        return;
    }
    draw_title(l);
    draw_summary(l);
    if (*l->view.picture.problem) live_put(y++, 0, COLS, LIVE_BAD, l->view.picture.problem);
    if (alerting > LINES - y - 5) alerting = LINES - y - 5; /* leaves two tables of two lines, and the last */
    if (l->mode == LIVE_READ)
        draw_page(l, y, LINES - y - 1);
    else {
        draw_tables(&l->view, y, LINES - y - 1 - alerting);
        draw_alerts(l, LINES - 1 - alerting, alerting);
    }
    draw_footer(l);
    if (l->mode == LIVE_ASK_KILL) draw_question(l);
    refresh();
}
