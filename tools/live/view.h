/* What the live view shows, apart from the terminal: a picture of one look, its rows in order, which of them is selected.
 *
 * A picture is a copy, so that it can stand still (pause) while looks, and alerts, go on. Rows are filtered by text and sorted
 * by a column. What is selected stays so by what it is, not by where it stands.
 */
#ifndef TOOLS_LIVE_VIEW_H
#define TOOLS_LIVE_VIEW_H

#include "monitor/watch.h"

enum { LIVE_FILTER = 64, LIVE_CELL = 256, LIVE_HISTORY = 240, LIVE_PROBLEM = 512 };

typedef enum live_table { LIVE_IPUS, LIVE_PROCESSES, LIVE_TABLES } live_table;

typedef struct live_picture {
    watch_sample sample;
    float       *histories; /* LIVE_HISTORY for each IPU, filled from the right */
    bool         all;       /* partitions */
    char         problem[LIVE_PROBLEM];
} live_picture;

typedef struct live_view live_view;

/* How a cell is drawn. */
typedef enum live_kind { LIVE_TEXT, LIVE_BAR, LIVE_SPARK } live_kind;

typedef struct live_column {
    const char *heading;
    int         width;       /* at least */
    int         stretch;     /* its part of the width that is left */
    int         dispensable; /* what is left out first in a narrow terminal has the highest; 0: never */
    bool        right;
    live_kind   kind;
    void (*text)(const live_view *v, int row, char out[LIVE_CELL]);
    double (*number)(const live_view *v, int row); /* to sort by; NULL: the text */
} live_column;

typedef struct live_rows {
    int *order; /* rows that are shown, into ipus or processes */
    int  n;
    int  selected; /* in `order`; -1: there is none */
    int  top;      /* first that is seen */
    int  sort;     /* column */
    bool reverse;
} live_rows;

struct live_view {
    live_picture picture;
    live_rows    rows[LIVE_TABLES];
    live_table   table; /* that keys are for */
    char         filter[LIVE_FILTER];
    bool         several_owners, several_partitions;
};

void live_view_init(live_view *v);
void live_view_fini(live_view *v);

/* Take the picture of the last look. False: out of memory; what was there stays. */
bool live_view_take(live_view *v, const watch *w);

/* Anew after filter or sorting have changed. False: out of memory. */
bool live_view_arrange(live_view *v);

/* Move the selection of the table by so many rows; far more than there are is to an end. */
void live_view_move(live_view *v, int rows);
/* Make the selection be seen in a window of so many rows. */
void live_view_scroll(live_view *v, live_table table, int rows);

/* The column to sort by: the next or the one before. */
void live_view_sort(live_view *v, int step);

/* The process that is selected, or that holds the IPU that is; NULL: none. */
const watch_process *live_view_process(const live_view *v);
/* The IPU that is selected; NULL: none. */
const watch_ipu *live_view_ipu(const live_view *v);

int                live_n_columns(live_table table);
const live_column *live_columns(live_table table);
/* The column that rows are sorted by at first. */
int live_first_sort(live_table table);
/* Is it of use for what is shown? */
bool live_column_is_used(const live_view *v, live_table table, int column);

/* "free", "held", "busy", "error". */
const char *live_ipu_state(const live_view *v, int ipu);

#endif
