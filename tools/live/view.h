/* What the live view shows, apart from the terminal: a picture of one look, its rows in order, the selection.
 *
 * A picture is a copy, so that it can be paused while looks and alerts go on. Rows are filtered by text and
 * sorted by a column. The selection follows the selected object, not its position.
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
    int         width;       /* minimum */
    int         stretch;     /* its share of the width that is left over */
    int         dispensable; /* in a narrow terminal the highest is left out first; 0: never */
    bool        right;
    live_kind   kind;
    void (*text)(const live_view *v, int row, char out[LIVE_CELL]);
    double (*number)(const live_view *v, int row); /* sort key; NULL: the text */
} live_column;

typedef struct live_rows {
    int *order; /* visible rows, as indices into ipus or processes */
    int  n;
    int  selected; /* index into `order`, or -1 */
    int  top;      /* first visible */
    int  sort;     /* column */
    bool reverse;
} live_rows;

struct live_view {
    live_picture picture;
    live_rows    rows[LIVE_TABLES];
    live_table   table; /* the table with the focus */
    char         filter[LIVE_FILTER];
    bool         several_owners, several_partitions;
};

void live_view_init(live_view *v);
void live_view_fini(live_view *v);

/* Copies the last look. Returns false if out of memory; the old picture then stays. */
bool live_view_take(live_view *v, const watch *w);

/* Redone after the filter or sorting changes. Returns false if out of memory. */
bool live_view_arrange(live_view *v);

/* Moves the table's selection by `rows`, stopping at the ends. */
void live_view_move(live_view *v, int rows);
/* Scrolls so that the selection is visible in a window of `rows`. */
void live_view_scroll(live_view *v, live_table table, int rows);

/* Selects the next or previous column to sort by. */
void live_view_sort(live_view *v, int step);

/* The selected process, or the one that holds the selected IPU; NULL if none. */
const watch_process *live_view_process(const live_view *v);
/* The selected IPU, or NULL. */
const watch_ipu *live_view_ipu(const live_view *v);

int                live_n_columns(live_table table);
const live_column *live_columns(live_table table);
/* The column that rows are initially sorted by. */
int live_first_sort(live_table table);
/* Whether the column is useful for what is shown. */
bool live_column_is_used(const live_view *v, live_table table, int column);

/* "free", "held", "busy", "error". */
const char *live_ipu_state(const live_view *v, int ipu);

#endif
