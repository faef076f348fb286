/* A page shown instead of the tables: help, or details of an IPU or a process. */
#ifndef TOOLS_LIVE_PAGE_H
#define TOOLS_LIVE_PAGE_H

#include "live/view.h"

enum { LIVE_LINE = 320, LIVE_TITLE_TEXT = 128 };

typedef enum live_page_kind { LIVE_PAGE_HELP, LIVE_PAGE_IPU, LIVE_PAGE_PROCESS } live_page_kind;

typedef struct live_page {
    live_page_kind kind;
    char           title[LIVE_TITLE_TEXT];
    char (*lines)[LIVE_LINE];
    int n, room;
    int top; /* first visible line */
} live_page;

void live_page_help(live_page *page);
/* Details of the selection. Returns false if there is none or the attributes cannot be read, with the reason
 * in *problem. */
bool live_page_detail(live_page *page, const live_view *v, char *problem, size_t size);
void live_page_fini(live_page *page);

#endif
