/* matmul of floats by oneDNN: one primitive per part, made at load.
 *
 * oneDNN is limited to one OpenMP thread here, and by the engine when it runs: parts are the threads.
 * requires: that no part is empty of inner products (k > 0), which `fits` says.
 */
#include "base/alloc.h"
#include "op/product/dnnl.h"
#include "op/matmul/matmul.h"

typedef struct part {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_stream_t    stream;
    dnnl_memory_t    a, b, out, scratch;
} part;

typedef struct state {
    dnnl_engine_t engine;
    ipu__epilogue epilogue;
    int           n_parts;
    part          parts[];
} state;

bool ipu__matmul_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts; /* oneDNN finds out for itself what the CPU can do */
    ipu__matmul mm = ipu__matmul_get(call);
    return call->operand[IPU__MATMUL_OUT].type == IPU_FLOAT && mm.batch > 0 && mm.m > 0 && mm.n > 0
        && mm.k > 0;
}

#define TRY_DNNL(call, what) IPU__TRY_DNNL(call, "matmul", what)

/* Whether matrices of the batch follow one another in both operands. */
static bool is_stack(const ipu__matmul *mm)
{
    int64_t a = mm->m * mm->k, b = mm->k * mm->n;
    for (int i = mm->rank - 1; i >= 0; i--) {
        if (mm->dim[i] > 1 && (mm->a_step[i] != a || mm->b_step[i] != b)) return false;
        a *= mm->dim[i];
        b *= mm->dim[i];
    }
    return true;
}

/* Matrices one primitive takes at once: all of a part that has whole ones, else one. */
static int64_t n_at_once(const ipu__matmul *mm, const ipu__matmul_part *mine)
{
    bool whole = mine->row.end - mine->row.begin == mm->m && mine->column.end - mine->column.begin == mm->n
              && is_stack(mm);
    return whole ? mine->batch.end - mine->batch.begin : 1;
}

static bool is_empty(const ipu__matmul_part *mine)
{
    return mine->batch.begin == mine->batch.end || mine->row.begin == mine->row.end
        || mine->column.begin == mine->column.end;
}

typedef struct descs {
    dnnl_memory_desc_t a, b, out, scratch;
} descs;

/* Rank 2, or 3 with the first dimension a batch. */
static dnnl_status_t describe_memory(dnnl_memory_desc_t *out, int64_t batch, int64_t rows, int64_t columns,
                                     int64_t batch_stride, int64_t row_stride, int64_t column_stride)
{
    dnnl_dims_t dims = {batch, rows, columns}, strides = {batch_stride, row_stride, column_stride};
    int         skip = batch == 1;
    return dnnl_memory_desc_init_by_strides(out, 3 - skip, dims + skip, dnnl_f32, strides + skip);
}

static ipu_status describe(const ipu__matmul *mm, const ipu__matmul_part *mine, dnnl_engine_t engine,
                           descs *out, dnnl_primitive_desc_t *out_primitive)
{
    int64_t               batch = n_at_once(mm, mine), rows = mine->row.end - mine->row.begin;
    int64_t               columns = mine->column.end - mine->column.begin;
    dnnl_matmul_desc_t    matmul;
    dnnl_primitive_attr_t attributes;
    TRY_DNNL(describe_memory(&out->a, batch, rows, mm->k, mm->m * mm->k, mm->a_m, mm->a_k), "describe a");
    TRY_DNNL(describe_memory(&out->b, batch, mm->k, columns, mm->k * mm->n, mm->b_k, mm->b_n), "describe b");
    TRY_DNNL(describe_memory(&out->out, batch, rows, columns, mm->m * mm->n, mm->n, 1), "describe out");
    TRY_DNNL(dnnl_matmul_desc_init(&matmul, &out->a, &out->b, NULL, &out->out), "describe the product");
    TRY_DNNL(dnnl_primitive_attr_create(&attributes), "make attributes");
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(out_primitive, &matmul, attributes, engine, NULL);
    dnnl_primitive_attr_destroy(attributes);
    if (status != dnnl_success) return ipu__fail_dnnl(status, "matmul", "choose an implementation");
    out->scratch = *dnnl_primitive_desc_query_md(*out_primitive, dnnl_query_scratchpad_md, 0);
    return IPU_OK;
}

static ipu_status make_part(const ipu__matmul *mm, const ipu__matmul_part *mine, dnnl_engine_t engine,
                            part *out)
{
    descs                 d;
    dnnl_primitive_desc_t primitive = NULL;
    IPU_TRY(describe(mm, mine, engine, &d, &primitive));
    dnnl_status_t status = dnnl_primitive_create(&out->primitive, primitive);
    dnnl_primitive_desc_destroy(primitive);
    if (status != dnnl_success) return ipu__fail_dnnl(status, "matmul", "make a primitive");
    TRY_DNNL(dnnl_stream_create(&out->stream, engine, dnnl_stream_default_flags), "make a stream");
    TRY_DNNL(dnnl_memory_create(&out->a, &d.a, engine, DNNL_MEMORY_NONE), "make a's memory object");
    TRY_DNNL(dnnl_memory_create(&out->b, &d.b, engine, DNNL_MEMORY_NONE), "make b's memory object");
    TRY_DNNL(dnnl_memory_create(&out->out, &d.out, engine, DNNL_MEMORY_NONE), "make out's memory object");
    TRY_DNNL(dnnl_memory_create(&out->scratch, &d.scratch, engine, DNNL_MEMORY_NONE),
             "make scratch's memory object");
    return IPU_OK;
}

static ipu_status make_parts(const ipu__kernel_call *call, state *s)
{
    ipu__matmul mm = ipu__matmul_get(call);
    TRY_DNNL(dnnl_engine_create(&s->engine, dnnl_cpu, 0), "make an engine");
    for (int i = 0; i < s->n_parts; i++) {
        ipu__matmul_part mine = ipu__matmul_part_get(&mm, i, s->n_parts);
        if (!is_empty(&mine)) IPU_TRY(make_part(&mm, &mine, s->engine, &s->parts[i]));
    }
    return IPU_OK;
}

ipu_status ipu__matmul_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    *out     = NULL;
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    if (!s) return ipu__fail_memory();
    s->n_parts         = n_parts;
    int        threads = ipu__dnnl_enter();
    ipu_status status  = ipu__epilogue_init(&s->epilogue, call);
    if (status == IPU_OK) status = make_parts(call, s);
    ipu__dnnl_leave(threads);
    if (status == IPU_OK)
        *out = s;
    else
        ipu__matmul_onednn_release(s);
    return status;
}

void ipu__matmul_onednn_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    for (int i = 0; i < s->n_parts; i++) {
        part *p = &s->parts[i];
        if (p->primitive) dnnl_primitive_destroy(p->primitive);
        if (p->stream) dnnl_stream_destroy(p->stream);
        dnnl_memory_t memories[] = {p->a, p->b, p->out, p->scratch};
        for (size_t j = 0; j < sizeof memories / sizeof *memories; j++)
            if (memories[j]) dnnl_memory_destroy(memories[j]);
    }
    if (s->engine) dnnl_engine_destroy(s->engine);
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

static ipu_status largest_scratch(const ipu__matmul *mm, int n_parts, dnnl_engine_t engine, size_t *out)
{
    for (int i = 0; i < n_parts; i++) {
        ipu__matmul_part      mine = ipu__matmul_part_get(mm, i, n_parts);
        descs                 d;
        dnnl_primitive_desc_t primitive = NULL;
        if (is_empty(&mine)) continue;
        IPU_TRY(describe(mm, &mine, engine, &d, &primitive));
        dnnl_primitive_desc_destroy(primitive);
        size_t bytes = dnnl_memory_desc_get_size(&d.scratch);
        if (bytes > *out) *out = bytes;
    }
    return IPU_OK;
}

/* What oneDNN refuses for another reason than memory needs no scratch: `prepare` says why. */
size_t ipu__matmul_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__matmul   mm = ipu__matmul_get(call);
    dnnl_engine_t engine;
    size_t        bytes = 0;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return SIZE_MAX;
    int        threads = ipu__dnnl_enter();
    ipu_status status  = largest_scratch(&mm, n_parts, engine, &bytes);
    ipu__dnnl_leave(threads);
    dnnl_engine_destroy(engine);
    size_t more = ipu__epilogue_scratch_bytes(call); /* not at the same time as the primitive's */
    if (status == IPU_OUT_OF_MEMORY) return SIZE_MAX;
    return more > bytes ? more : bytes;
}

ipu_status ipu__matmul_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                  void *scratch, int index, int n_parts)
{
    const part *p = &((state *)prepared)->parts[index];
    if (!p->primitive) return IPU_OK;
    ipu__matmul      mm     = ipu__matmul_get(call);
    ipu__matmul_part mine   = ipu__matmul_part_get(&mm, index, n_parts);
    int64_t          step   = n_at_once(&mm, &mine);
    dnnl_exec_arg_t  args[] = {{DNNL_ARG_SRC, p->a},
                               {DNNL_ARG_WEIGHTS, p->b},
                               {DNNL_ARG_DST, p->out},
                               {DNNL_ARG_SCRATCHPAD, p->scratch}};
    TRY_DNNL(dnnl_memory_set_data_handle(p->scratch, scratch), "use the scratch memory");
    for (int64_t i = mine.batch.begin; i < mine.batch.end; i += step) {
        int64_t a_at, b_at;
        ipu__matmul_at(&mm, i, &a_at, &b_at);
        float *a   = (float *)operand[IPU__MATMUL_A] + a_at + mine.row.begin * mm.a_m;
        float *b   = (float *)operand[IPU__MATMUL_B] + b_at + mine.column.begin * mm.b_n;
        float *out = (float *)operand[IPU__MATMUL_OUT] + i * mm.m * mm.n + mine.row.begin * mm.n
                   + mine.column.begin;
        TRY_DNNL(dnnl_memory_set_data_handle(p->a, a), "use a");
        TRY_DNNL(dnnl_memory_set_data_handle(p->b, b), "use b");
        TRY_DNNL(dnnl_memory_set_data_handle(p->out, out), "use out");
        TRY_DNNL(dnnl_primitive_execute(p->primitive, p->stream, 4, args), "multiply");
        for (int64_t l = i; l < i + step; l++)
            ipu__matmul_finish(&mm, &((const state *)prepared)->epilogue, operand, l, mine.row.begin,
                               mine.row.end - mine.row.begin, mine.column.begin,
                               mine.column.end - mine.column.begin, scratch);
    }
    return IPU_OK;
}
