/* The line that shows how far a command is, on a terminal of any width and for numbers that no command should give. Made by the
 * tools' own source. */
#include "train/progress.c"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A terminal of so many columns: what is written to `out` can be read from `screen`. */
typedef struct terminal {
    int   screen;
    FILE *out;
} terminal;

static terminal open_terminal(unsigned short columns)
{
    terminal t = {posix_openpt(O_RDWR | O_NOCTTY), NULL};
    assert_true(t.screen >= 0 && grantpt(t.screen) == 0 && unlockpt(t.screen) == 0);
    t.out = fopen(ptsname(t.screen), "w");
    assert_non_null(t.out);
    assert_int_equal(ioctl(fileno(t.out), TIOCSWINSZ, &(struct winsize){.ws_col = columns, .ws_row = 24}), 0);
    return t;
}

/* Closes it; `text` is all that was written. */
static void read_terminal(terminal *t, char text[4096])
{
    size_t n = 0;
    fclose(t->out);
    for (ssize_t got; (got = read(t->screen, text + n, 4095 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(t->screen);
}

static void draw_once(unsigned short columns, long long done, long long total, char text[4096])
{
    progress p;
    terminal t = open_terminal(columns);
    progress_open(&p, t.out);
    assert_true(p.live);
    progress_show(
        &p,
        &(progress_state){
            .what = "IPU 0", .done = done, .total = total, .loss = NAN, .accuracy = NAN, .seconds_left = -1});
    progress_clear(&p);
    read_terminal(&t, text);
}

static void a_line_has_a_bar_and_is_cleared(void **state)
{
    char text[4096];
    (void)state;
    draw_once(80, 1, 2, text);
    assert_string_equal(text, "\rIPU 0  50% [===============>              ]\033[K\r\033[K");
}

/* A machine that is busy makes one run longer than all of them should be. */
static void more_than_all_is_all(void **state)
{
    static const long long more[] = {100, 101, 104, 208, 100000, 1LL << 60};
    char                   text[4096];
    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        draw_once(80, more[i], 100, text);
        assert_string_equal(text, "\rIPU 0 100% [==============================]\033[K\r\033[K");
    }
}

static void less_than_nothing_is_nothing(void **state)
{
    char text[4096];
    (void)state;
    draw_once(80, -5, 100, text);
    assert_string_equal(text, "\rIPU 0   0% [>                             ]\033[K\r\033[K");
    draw_once(80, 5, 0, text);
    assert_string_equal(text, "\rIPU 0   0% [>                             ]\033[K\r\033[K");
}

static void it_is_never_wider_than_the_terminal(void **state)
{
    char text[4096];
    (void)state;
    for (unsigned short columns = 1; columns < 60; columns++) {
        for (long long done = 0; done <= 300; done += 50) {
            draw_once(columns, done, 100, text);
            assert_int_equal(text[0], '\r');
            assert_true(strcspn(text + 1, "\033") < columns);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_a_bar_and_is_cleared),
        cmocka_unit_test(more_than_all_is_all),
        cmocka_unit_test(less_than_nothing_is_nothing),
        cmocka_unit_test(it_is_never_wider_than_the_terminal),
    };
    setenv("TERM", "xterm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
