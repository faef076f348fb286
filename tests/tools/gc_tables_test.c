/* Tables of gc-monitor for data that no test can have at will: other namespaces, long times, many boards.
 * Drawn by the tool's own sources, which depend on nothing but their arguments. */
#include "monitor/monitor_table.c"
#include "table.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N_IPUS = 4, SECOND = 1000000000 };

static ipu_machine   machine = {.host     = "10.1.5.10",
                                .type     = "M2000",
                                .software = "2.6.0",
                                .server   = "1.11.0",
                                .firmware = "2.5.9",
                                .board    = {"0134.0002.8210321", "0134.0001.8210321"},
                                .n_ipus   = N_IPUS};
static ipu_single    singles[N_IPUS];
static ipu_attached  processes[8];
static ipu_partition partition;

static const int64_t now = INT64_C(1700000000) * SECOND;

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < N_IPUS; i++)
        singles[i] = (ipu_single){.index   = i,
                                  .machine = &machine,
                                  .number  = N_IPUS - 1 - i,
                                  .board   = machine.board[i / 2],
                                  .error   = "no errors"};
    partition = (ipu_partition){.name           = "p1",
                                .active         = true,
                                .reconfigurable = true,
                                .arch           = "ipu2",
                                .clock_hz       = 1.85e9,
                                .routing        = "DNC",
                                .singles        = singles,
                                .n_ipus         = N_IPUS,
                                .processes      = processes};
    return 0;
}

static void attach(int64_t pid, const char *command, int64_t seconds, int first, int n)
{
    ipu_attached *a = &processes[partition.n_processes++];
    *a              = (ipu_attached){.pid      = pid,
                                     .user     = "ipuuser",
                                     .command  = command,
                                     .since_ns = now - seconds * SECOND,
                                     .id       = first,
                                     .first    = first,
                                     .n_ipus   = n};
    for (int i = first; first >= 0 && i < first + n; i++) singles[i].process = a;
}

/* What is printed below the title, which is three lines. */
static void expect(int columns, int raise, const char *expected)
{
    char        *text  = NULL;
    size_t       bytes = 0;
    FILE        *out   = open_memstream(&text, &bytes);
    monitor_view view  = {.name = "p1", .raise = raise, .columns = columns, .now_ns = now};
    monitor_print(out, &partition, &view);
    fclose(out);
    const char *body = text;
    for (int i = 0; i < 3; i++) body = strchr(body, '\n') + 1;
    assert_string_equal(body, expected);
    free(text);
}

/* ---- processes ---- */

// clang-format off

#define GROUPS \
    "+-----------------------------------------------------+------------------------+-----------------+\n" \
    "|         Attached processes in partition p1          |          IPU           |      Board      |\n"
#define RULE \
    "+--------+----------------------+--------+------------+----+----------+--------+--------+--------+\n"
#define HEADS \
    "|  PID   |       Command        |  Time  |    User    | ID |  Clock   |  Temp  |  Temp  | Power  |\n"

static void a_row_for_each_ipu_and_board_sensors_once_a_board(void **state)
{
    (void)state;
    attach(31247, "python3", 241, 0, 4);
    expect(80, 0,
    GROUPS RULE HEADS RULE
    "| 31247  |       python3        |  4m1s  |  ipuuser   | 0  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    "| 31247  |       python3        |  4m1s  |  ipuuser   | 1  | 1850MHz  |  N/A   |        |        |\n"
    RULE
    "| 31247  |       python3        |  4m1s  |  ipuuser   | 2  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    "| 31247  |       python3        |  4m1s  |  ipuuser   | 3  | 1850MHz  |  N/A   |        |        |\n"
    RULE);
}

static void two_processes_on_one_board(void **state)
{
    (void)state;
    attach(7, "train", 13, 0, 1);
    attach(8, "a-program-with-a-long-name", 3600, 1, 1);
    expect(98, 4,
    GROUPS RULE HEADS RULE
    "|   7    |        train         |  13s   |  ipuuser   | 4  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    "|   8    |...am-with-a-long-name|  1h0m  |  ipuuser   | 5  | 1850MHz  |  N/A   |        |        |\n"
    RULE);
}

static void ipus_beyond_those_shown_have_no_id(void **state)
{
    (void)state;
    attach(7, "train", 0, 3, 1);
    attach(8, "train", 0, -1, 2);
    attach(9, "train", 0, -1, 1);
    expect(1, 0,
    GROUPS RULE HEADS RULE
    "|   7    |        train         |   0s   |  ipuuser   | 3  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    RULE
    "|   8    |        train         |   0s   |  ipuuser   | -  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    "|   8    |        train         |   0s   |  ipuuser   | -  | 1850MHz  |  N/A   |        |        |\n"
    RULE
    "|   9    |        train         |   0s   |  ipuuser   | -  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    RULE);
}

static void the_command_fills_the_terminal(void **state)
{
    (void)state;
    static const struct {
        int columns, width;
    } cases[] = {{0, 41}, {1, 22}, {98, 22}, {99, 23}, {117, 41}, {158, 82}, {163, 87}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(command_width(cases[i].columns), cases[i].width);
}

/* ---- other namespaces ---- */

#define OTHER_RULE \
    "+----+------------------------------+--------------+-----------+-----------+-----------+\n"
#define OTHER_HEAD \
    "+--------------------------------------------------------------+-----------------------+\n" \
    "|          IPUs in p1 attached from other namespaces           |         Board         |\n" \
    OTHER_RULE \
    "| ID |       Application host       |    Clock     |   Temp    |   Temp    |   Power   |\n" \
    OTHER_RULE

static void processes_of_other_namespaces_have_a_table_of_their_own(void **state)
{
    (void)state;
    attach(0, "python3", 5, 2, 2);
    expect(80, 0,
    OTHER_HEAD
    "| 2  |          localhost           |   1850MHz    |    N/A    |    N/A    |    N/A    |\n"
    "| 3  |          localhost           |   1850MHz    |    N/A    |           |           |\n"
    OTHER_RULE);
}

static void both_tables_where_there_are_both(void **state)
{
    (void)state;
    attach(0, "python3", 5, 0, 1);
    attach(7, "train", 13, 1, 1);
    expect(80, 0,
    GROUPS RULE HEADS RULE
    "|   7    |        train         |  13s   |  ipuuser   | 1  | 1850MHz  |  N/A   |  N/A   |  N/A   |\n"
    RULE
    OTHER_HEAD
    "| 0  |          localhost           |   1850MHz    |    N/A    |    N/A    |    N/A    |\n"
    OTHER_RULE);
}

// clang-format on

/* ---- cells ---- */

static void expect_cell(const char *text, int width, const char *expected)
{
    char  *made  = NULL;
    size_t bytes = 0;
    FILE  *out   = open_memstream(&made, &bytes);
    table_row(out, &width, &text, 1);
    fclose(out);
    assert_string_equal(made, expected);
    free(made);
}

static void an_odd_blank_goes_to_the_right_and_long_text_loses_its_beginning(void **state)
{
    (void)state;
    expect_cell("ab", 5, "| ab  |\n");
    expect_cell("", 3, "|   |\n");
    expect_cell("abcde", 5, "|abcde|\n");
    expect_cell("172.31.100.130", 13, "|...31.100.130|\n");
}

static void cells_count_characters_and_let_no_control_through(void **state)
{
    (void)state;
    expect_cell("\303\244\303\266", 4, "| \303\244\303\266 |\n");
    expect_cell("ab\303\244\303\266\303\274", 4, "|...\303\274|\n");
    expect_cell("a\033[2J\x7f\n", 7, "|a?[2J??|\n");
}

static void times_are_short(void **state)
{
    (void)state;
    static const struct {
        int64_t     seconds;
        const char *text;
    } cases[] = {
        {-5, "0s"},       {0, "0s"},      {59, "59s"},       {60, "1m0s"},    {241, "4m1s"},
        {3599, "59m59s"}, {3600, "1h0m"}, {86399, "23h59m"}, {86400, "1d0h"}, {8640000 - 1, "99d23h"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[MONITOR_TIME];
        monitor_time(now - cases[i].seconds * SECOND, now, text);
        assert_string_equal(text, cases[i].text);
        assert_true(strlen(text) <= 8);
    }
    char text[MONITOR_TIME];
    monitor_time(0, now, text); /* a record that is just being written */
    assert_string_equal(text, "0s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_row_for_each_ipu_and_board_sensors_once_a_board, begin),
        cmocka_unit_test_setup(two_processes_on_one_board, begin),
        cmocka_unit_test_setup(ipus_beyond_those_shown_have_no_id, begin),
        cmocka_unit_test_setup(the_command_fills_the_terminal, begin),
        cmocka_unit_test_setup(processes_of_other_namespaces_have_a_table_of_their_own, begin),
        cmocka_unit_test_setup(both_tables_where_there_are_both, begin),
        cmocka_unit_test_setup(an_odd_blank_goes_to_the_right_and_long_text_loses_its_beginning, begin),
        cmocka_unit_test_setup(cells_count_characters_and_let_no_control_through, begin),
        cmocka_unit_test_setup(times_are_short, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
