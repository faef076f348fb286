/* What terminfo knows of the terminal. In its own file because term.h defines names such as `lines` and
 * `columns`. */
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#include "live/screen.h"

bool live_terminal_fail(char *problem, size_t size, const char *why)
{
    const char *name = getenv("TERM");
    snprintf(problem, size,
             "the terminal \"%s\" %s: set TERM to what it is (xterm-256color, linux), or use --once or --csv",
             name ? name : "", why);
    return false;
}

bool live_terminal_check(char *problem, size_t size)
{
    int error;
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK)
        return live_terminal_fail(problem, size,
                                  error < 0 ? "cannot be looked up: there is no terminfo" : "is not known");
    const char *place = tigetstr("cup");
    bool        can   = place && place != (char *)-1;
    del_curterm(cur_term); /* newterm looks it up again */
    return can || live_terminal_fail(problem, size, "cannot place text");
}
