/* Makes each allocation of parsing, converting to half, optimising and printing a model fail in turn: no
 * crash, no leak, IPU_OUT_OF_MEMORY each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ipu/text.h"
#include "model/precision/precision.h"

static struct {
    long n, live, refuse; /* the number of the allocation to refuse, or 0 */
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        heap.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++heap.n == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    heap.live += p && !ptr;
    return p;
}

static const char text[] = "model seed 3 keys 2 {\n"
                           "  input x float[4,3];\n"
                           "  input p bool;\n"
                           "  parameter w float[3,2] = uniform(-1.0, 1.0) key 1;\n"
                           "  parameter b float[2] = {1, 2};\n"
                           "  state s float[4,2] at \"a.c\":3;\n"
                           "  constant k float[2,3] = {1, 2, 3, 4, 5, 6};\n"
                           "  constant zero float = {0};\n"
                           "  t = transpose(k) perm=[1,0];\n"
                           "  kk = add(t, t);\n"
                           "  y = matmul(x, kk);\n"
                           "  ~30 \"odd name\" = matmul(x, w);\n"
                           "  z = add(~30, b);\n"
                           "  a = relu(z);\n"
                           "  a2 = relu(z);\n"
                           "  c = add(a, zero);\n"
                           "  d = mul(c, a2);\n"
                           "  dead = neg(d);\n"
                           "  if p {\n"
                           "    e = add(d, y);\n"
                           "    f = mul(e, e);\n"
                           "    yield f, e;\n"
                           "  } else {\n"
                           "    yield d, y;\n"
                           "  } -> r, unused;\n"
                           "  loop 3 (u = r, v = r) index i if p {\n"
                           "    n = add(u, u);\n"
                           "    o = neg(v);\n"
                           "    yield n, o while p;\n"
                           "  } -> q, rest;\n"
                           "  output q = q;\n"
                           "  update s = q;\n"
                           "}\n";

/* Runs it all; on failure, releases what exists so far. */
static ipu_status run(void)
{
    ipu_model *m = NULL, *again = NULL;
    char      *printed = NULL;
    ipu_status status  = ipu_model_parse(text, strlen(text), "text", NULL, &m);
    if (status == IPU_OK) status = ipu__model_to_half(m, true);
    if (status == IPU_OK) status = ipu__model_half_partials(m);
    if (status == IPU_OK) status = ipu__model_round_at_random(m);
    if (status == IPU_OK) status = ipu_model_optimise(m, IPU_PASS_ALL);
    if (status == IPU_OK) status = ipu_model_print(m, IPU_PRINT_LOCATIONS, NULL, &printed);
    if (status == IPU_OK) status = ipu_model_parse(printed, strlen(printed), "printed", NULL, &again);
    ipu_model_destroy(m);
    ipu_model_destroy(again);
    ipu_free(printed);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    ipu__alloc_set(failing_alloc, NULL);
    if (run() != IPU_OK) fail_msg("%s", ipu_message());
    long n = heap.n;
    assert_int_equal(heap.live, 0);
    assert_true(n > 100);
    for (long i = 1; i <= n; i++) {
        heap.n            = 0;
        heap.refuse       = i;
        ipu_status status = run();
        if (status != IPU_OUT_OF_MEMORY)
            fail_msg("allocation %ld of %ld refused: %s %s", i, n, ipu_status_text(status), ipu_message());
        if (heap.live != 0) fail_msg("allocation %ld of %ld refused: %ld leak", i, n, heap.live);
    }
    ipu__alloc_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
