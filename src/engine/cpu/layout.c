/* Layouts: choosing the memory layout of buffers between kernels.
 *
 * Every implementation says for each operand which layouts it accepts, and which of those without conversion
 * (impl.h). Operands that are tied, or share memory within one call, have the same layout: their buffers form a
 * group. A group gets the layout that all its uses accept and that needs the fewest bytes converted, or plain if
 * that gains nothing. This depends only on calls and implementations, so results do not vary.
 */
#include <string.h>

#include "engine/cpu/cpu.h"

typedef struct buffer {
    uint32_t         group;                  /* another of its group; itself if it represents the group */
    unsigned         takes;                  /* layouts (bits) that all uses accept */
    double           turned[IPU__N_LAYOUTS]; /* bytes converted */
    const ipu_shape *shape;                  /* of its first use */
} buffer;

static uint32_t group_of(buffer *buffers, uint32_t b)
{
    while (buffers[b].group != b) b = buffers[b].group = buffers[buffers[b].group].group;
    return b;
}

static void join(buffer *buffers, uint32_t a, uint32_t b)
{
    a = group_of(buffers, a);
    b = group_of(buffers, b);
    if (a == b) return;
    buffers[b].group = a;
    buffers[a].takes &= buffers[b].takes;
    for (int l = 0; l < IPU__N_LAYOUTS; l++) buffers[a].turned[l] += buffers[b].turned[l];
}

/* A buffer may be used with several shapes: a layout requires the dimensions that it divides to be the same
 * in all. */
static unsigned shape_layouts(const ipu_shape *first, const ipu_shape *shape)
{
    static const int n_cut[IPU__N_LAYOUTS] = {[IPU__LAYOUT_LANES] = 1, [IPU__LAYOUT_BLOCKED] = 2};
    unsigned         bits                  = 0;
    for (int l = 0; l < IPU__N_LAYOUTS; l++) {
        bool fits = ipu__layout_fits((ipu__memory_layout)l, first)
                 && ipu__layout_fits((ipu__memory_layout)l, shape);
        for (int d = 0; fits && d < n_cut[l]; d++) fits = first->dim[d] == shape->dim[d];
        if (fits) bits |= IPU__LAYOUT_BIT(l);
    }
    return bits;
}

static ipu__kernel_layouts layouts_of(const ipu__kernel *kernel, int operand)
{
    unsigned            plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    ipu__kernel_layouts found = {plain, plain, false};
    if (!kernel->impl || !kernel->impl->layouts) return found;
    found = kernel->impl->layouts(kernel->call, kernel->n_parts, operand);
    found.takes |= plain;
    for (int l = 0; l < IPU__N_LAYOUTS; l++) /* possibly the shape of a chunk */
        if (!ipu__layout_fits((ipu__memory_layout)l, &kernel->call->operand[operand].shape))
            found.takes &= ~IPU__LAYOUT_BIT(l);
    return found;
}

static double bytes_of(const ipu__kernel_value *value)
{
    double bytes = (double)ipu_type_size(value->type);
    for (int k = 0; k < value->shape.rank; k++) bytes *= (double)value->shape.dim[k];
    return bytes;
}

static void note_use(buffer *buffers, const ipu__exe_kernel *from, const ipu__kernel_layouts *layouts, int i)
{
    const ipu__kernel_value *value = &from->call.operand[i];
    uint32_t                 own   = from->buffer[i];
    if (!buffers[own].shape) buffers[own].shape = &value->shape;
    unsigned takes = layouts->takes & shape_layouts(buffers[own].shape, &value->shape);
    buffer  *b     = &buffers[group_of(buffers, own)];
    b->takes &= takes;
    for (int l = 0; l < IPU__N_LAYOUTS; l++)
        if (!(layouts->native & IPU__LAYOUT_BIT(l))) b->turned[l] += bytes_of(value);
}

static void only_plain(buffer *buffers, uint32_t b)
{
    buffers[group_of(buffers, b)].takes &= IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
}

/* Two operands that must have the same layout. One that is not a buffer is plain. */
static void tie(buffer *buffers, uint32_t a, uint32_t b)
{
    if (a != IPU__NONE && b != IPU__NONE)
        join(buffers, a, b);
    else if (a != IPU__NONE || b != IPU__NONE)
        only_plain(buffers, a != IPU__NONE ? a : b);
}

static void note_kernel(buffer *buffers, const ipu__kernel *kernel, const ipu__exe_kernel *from)
{
    int                 n = from->call.n_operands, first_tied = -1;
    ipu__kernel_layouts layouts[IPU__MAX_OPERANDS];
    for (int i = 0; i < n; i++) {
        layouts[i] = layouts_of(kernel, i);
        if (from->buffer[i] != IPU__NONE) note_use(buffers, from, &layouts[i], i);
    }
    for (int i = 0; i < n; i++) {
        if (!ipu__kernel_has(&from->call, i)) continue;
        if (layouts[i].tied) {
            if (first_tied >= 0) tie(buffers, from->buffer[first_tied], from->buffer[i]);
            first_tied = i;
        }
        for (int k = 0; k < i; k++)
            if (from->place[k] == from->place[i] && ipu__kernel_has(&from->call, k))
                tie(buffers, from->buffer[k], from->buffer[i]);
    }
}

static uint8_t cheapest(const buffer *b)
{
    int best = IPU__LAYOUT_PLAIN;
    for (int l = 0; l < IPU__N_LAYOUTS; l++)
        if ((b->takes & IPU__LAYOUT_BIT(l)) && b->turned[l] < b->turned[best]) best = l;
    return (uint8_t)best;
}

/* Sets the layouts of calls, for kernels with any that is not plain. */
static ipu_status set_layouts(const ipu__cpu *e, buffer *buffers, size_t i)
{
    const ipu__exe_kernel *from = &e->exe->kernels.at[i];
    ipu__kernel           *to   = &e->kernels[i];
    uint8_t                layout[IPU__MAX_OPERANDS];
    bool                   any = false;
    for (int k = 0; k < from->call.n_operands; k++) {
        uint32_t b = from->buffer[k];
        layout[k]  = b == IPU__NONE ? IPU__LAYOUT_PLAIN : cheapest(&buffers[group_of(buffers, b)]);
        any |= layout[k] != IPU__LAYOUT_PLAIN;
        ipu__kernel_layouts offered = layouts_of(to, k);
        if (from->buffer[k] != IPU__NONE && !(offered.native & IPU__LAYOUT_BIT(layout[k])))
            to->turned_bytes += bytes_of(&from->call.operand[k]);
    }
    if (!any) return IPU_OK;
    if (!to->own_call) {
        to->own_call = ipu__alloc(sizeof *to->own_call);
        if (!to->own_call) return ipu__fail_memory();
        *to->own_call = from->call;
        to->call      = to->own_call;
    }
    memcpy(to->own_call->layout, layout, (size_t)from->call.n_operands);
    return IPU_OK;
}

ipu_status ipu__cpu_choose_layouts(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    if (exe->n_buffers == 0 || !e->layouts || e->check) return IPU_OK;
    buffer *buffers = ipu__alloc_zeroed(exe->n_buffers * sizeof *buffers);
    if (!buffers) return ipu__fail_memory();
    for (uint32_t i = 0; i < exe->n_buffers; i++) {
        buffers[i].group = i;
        buffers[i].takes = ~0u;
    }
    for (size_t i = 0; i < exe->kernels.n; i++) note_kernel(buffers, &e->kernels[i], &exe->kernels.at[i]);
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < exe->kernels.n; i++) status = set_layouts(e, buffers, i);
    ipu__free(buffers);
    return status;
}
