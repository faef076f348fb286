/* Products of 8 bits by oneDNN, one primitive each.
 *
 * Not used without VNNI, where its code adds pairs of products in 16 bits, which may saturate.
 */
#include "base/alloc.h"
#include "op/product/dnnl.h"
#include "op/quantize/quantize.h"

struct ipu__int8_gemm {
    dnnl_engine_t    engine;
    dnnl_primitive_t primitive;
    dnnl_stream_t    stream;
    dnnl_memory_t    a, b, out, scratch;
};

#define TRY_DNNL(call, what) IPU__TRY_DNNL(call, "a product of 8 bits", what)

/* Below this many products, calling oneDNN costs more than it saves. */
enum { LEAST_PRODUCTS = 1 << 15 };

bool ipu__int8_gemm_fits(unsigned cpu_features, const ipu__int8_dims *d)
{
    return (cpu_features & IPU__CPU_AVX512_VNNI) && !ipu__dnnl_uses_amx() && d->m > 0 && d->n > 0 && d->k > 0
        && (double)d->m * (double)d->n * (double)d->k >= LEAST_PRODUCTS;
}

typedef struct descs {
    dnnl_memory_desc_t a, b, out, scratch;
} descs;

static ipu_status describe(const ipu__int8_dims *d, dnnl_engine_t engine, descs *out,
                           dnnl_primitive_desc_t *out_primitive)
{
    dnnl_dims_t           a = {d->m, d->k}, b = {d->k, d->n}, y = {d->m, d->n};
    dnnl_dims_t           a_step = {d->k, 1}, b_step = {d->b_k, d->b_n}, y_step = {d->out_m, 1};
    dnnl_data_type_t      type = d->a_type == IPU_INT8 ? dnnl_s8 : dnnl_u8;
    dnnl_matmul_desc_t    matmul;
    dnnl_primitive_attr_t attributes;
    TRY_DNNL(dnnl_memory_desc_init_by_strides(&out->a, 2, a, type, a_step), "describe a");
    TRY_DNNL(dnnl_memory_desc_init_by_strides(&out->b, 2, b, dnnl_s8, b_step), "describe b");
    TRY_DNNL(dnnl_memory_desc_init_by_strides(&out->out, 2, y, dnnl_s32, y_step), "describe out");
    TRY_DNNL(dnnl_matmul_desc_init(&matmul, &out->a, &out->b, NULL, &out->out), "describe the product");
    TRY_DNNL(dnnl_primitive_attr_create(&attributes), "make attributes");
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(out_primitive, &matmul, attributes, engine, NULL);
    dnnl_primitive_attr_destroy(attributes);
    if (status != dnnl_success)
        return ipu__fail_dnnl(status, "a product of 8 bits", "choose an implementation");
    out->scratch = *dnnl_primitive_desc_query_md(*out_primitive, dnnl_query_scratchpad_md, 0);
    return IPU_OK;
}

ipu_status ipu__int8_gemm_bytes(const ipu__int8_dims *dims, size_t *out)
{
    dnnl_engine_t         engine;
    dnnl_primitive_desc_t primitive = NULL;
    descs                 d;
    *out = 0;
    TRY_DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0), "make an engine");
    int        threads = ipu__dnnl_enter();
    ipu_status status  = describe(dims, engine, &d, &primitive);
    ipu__dnnl_leave(threads);
    if (primitive) dnnl_primitive_desc_destroy(primitive);
    dnnl_engine_destroy(engine);
    if (status == IPU_OK) *out = dnnl_memory_desc_get_size(&d.scratch);
    return status == IPU_OUT_OF_MEMORY ? status : IPU_OK;
}

static ipu_status make(const ipu__int8_dims *dims, ipu__int8_gemm *g)
{
    dnnl_primitive_desc_t primitive = NULL;
    descs                 d;
    TRY_DNNL(dnnl_engine_create(&g->engine, dnnl_cpu, 0), "make an engine");
    IPU_TRY(describe(dims, g->engine, &d, &primitive));
    dnnl_status_t status = dnnl_primitive_create(&g->primitive, primitive);
    dnnl_primitive_desc_destroy(primitive);
    TRY_DNNL(status, "make a primitive");
    TRY_DNNL(dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags), "make a stream");
    TRY_DNNL(dnnl_memory_create(&g->a, &d.a, g->engine, DNNL_MEMORY_NONE), "make a's memory object");
    TRY_DNNL(dnnl_memory_create(&g->b, &d.b, g->engine, DNNL_MEMORY_NONE), "make b's memory object");
    TRY_DNNL(dnnl_memory_create(&g->out, &d.out, g->engine, DNNL_MEMORY_NONE), "make out's memory object");
    TRY_DNNL(dnnl_memory_create(&g->scratch, &d.scratch, g->engine, DNNL_MEMORY_NONE),
             "make scratch's memory object");
    return IPU_OK;
}

ipu_status ipu__int8_gemm_make(const ipu__int8_dims *dims, ipu__int8_gemm **out)
{
    ipu__int8_gemm *g = ipu__alloc_zeroed(sizeof *g);
    *out              = NULL;
    if (!g) return ipu__fail_memory();
    int        threads = ipu__dnnl_enter();
    ipu_status status  = make(dims, g);
    ipu__dnnl_leave(threads);
    if (status == IPU_OK)
        *out = g;
    else
        ipu__int8_gemm_free(g);
    return status;
}

void ipu__int8_gemm_free(ipu__int8_gemm *g)
{
    if (!g) return;
    if (g->primitive) dnnl_primitive_destroy(g->primitive);
    if (g->stream) dnnl_stream_destroy(g->stream);
    dnnl_memory_t memories[] = {g->a, g->b, g->out, g->scratch};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i]) dnnl_memory_destroy(memories[i]);
    if (g->engine) dnnl_engine_destroy(g->engine);
    ipu__free(g);
}

ipu_status ipu__int8_gemm_run(ipu__int8_gemm *g, const void *a, const int8_t *b, int32_t *out, void *scratch)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, g->a},
                              {DNNL_ARG_WEIGHTS, g->b},
                              {DNNL_ARG_DST, g->out},
                              {DNNL_ARG_SCRATCHPAD, g->scratch}};
    TRY_DNNL(dnnl_memory_set_data_handle(g->a, (void *)(uintptr_t)a), "use a");
    TRY_DNNL(dnnl_memory_set_data_handle(g->b, (void *)(uintptr_t)b), "use b");
    TRY_DNNL(dnnl_memory_set_data_handle(g->out, out), "use out");
    TRY_DNNL(dnnl_memory_set_data_handle(g->scratch, scratch), "use the scratch memory");
    TRY_DNNL(dnnl_primitive_execute(g->primitive, g->stream, 4, args), "multiply");
    return IPU_OK;
}
