/* The pictures of a dataset on one sheet. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/show.h"
#include "output.h"

enum { GAP = 2, PAPER = 96, MOST_ROWS = 40, SMALL = 48 };

/* Where pictures go: `columns` in each of `rows`, each pixel `zoom` x `zoom`. */
typedef struct layout {
    int64_t n_classes, rows, columns, zoom;
    bool    by_class;
    int64_t channels, height, width; /* of a picture */
} layout;

typedef struct picture {
    float  *pixels;
    int64_t row, column;
} picture;

static tool_exit lay_out(const ipu_dataset *set, int64_t count, layout *l)
{
    const ipu_shape *s = &ipu_dataset_field_at(set, 0)->shape;
    if (s->rank != 3 || (s->dim[0] != 1 && s->dim[0] != 3)) {
        char text[256];
        ipu_shape_text(s, text, sizeof text);
        return tool_fail("its samples have the shape %s: expected pictures, [1 or 3,height,width]", text);
    }
    int64_t n   = ipu_dataset_n_samples(set) < count ? ipu_dataset_n_samples(set) : count;
    *l          = (layout){.n_classes = ipu_dataset_n_classes(set),
                           .channels  = s->dim[0],
                           .height    = s->dim[1],
                           .width     = s->dim[2],
                           .zoom      = s->dim[1] < SMALL && s->dim[2] < SMALL ? 2 : 1};
    l->by_class = l->n_classes <= MOST_ROWS;
    l->columns  = l->by_class ? (n + l->n_classes - 1) / l->n_classes : (int64_t)ceil(sqrt((double)n));
    l->rows     = l->by_class ? l->n_classes : (n + l->columns - 1) / l->columns;
    return TOOL_OK;
}

/* Picks samples until each row is full or the samples run out. */
static ipu_status pick(const ipu_dataset *set, const layout *l, picture *out, int64_t *n, int64_t *filled)
{
    const int64_t n_pixels = l->channels * l->height * l->width;
    for (int64_t i = 0; i < ipu_dataset_n_samples(set) && *n < l->rows * l->columns; i++) {
        picture *p = &out[*n];
        int32_t  label;
        p->pixels = out[0].pixels + *n * n_pixels;
        IPU_TRY(ipu_dataset_get(set, i, (void *[]){p->pixels, &label}));
        p->row = l->by_class ? label : *n / l->columns;
        if (filled[p->row] == l->columns) continue;
        p->column = filled[p->row]++;
        (*n)++;
    }
    return IPU_OK;
}

/* Bytes stay as they are; floats are scaled from 0..1, or from their actual range, to 0..255. */
static void find_range(const picture *p, int64_t n, int64_t n_pixels, float *from, float *to)
{
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n_pixels; k++) {
            least = fminf(least, p[i].pixels[k]);
            most  = fmaxf(most, p[i].pixels[k]);
        }
    bool is_unit = least >= 0 && most <= 1, is_bytes = least >= 0 && most <= 255;
    *from = is_unit || is_bytes ? 0 : least;
    *to   = is_unit ? 1 : is_bytes ? 255 : most;
}

static void paint(const layout *l, const picture *p, float from, float to, const ipu_array *sheet)
{
    const int64_t zoom = l->zoom, width = sheet->shape.dim[1];
    const int64_t top  = GAP + p->row * (l->height * zoom + GAP),
                  left = GAP + p->column * (l->width * zoom + GAP);
    for (int64_t y = 0; y < l->height * zoom; y++)
        for (int64_t x = 0; x < l->width * zoom; x++)
            for (int64_t c = 0; c < l->channels; c++) {
                float    v  = p->pixels[(c * l->height + y / zoom) * l->width + x / zoom];
                uint8_t *at = (uint8_t *)sheet->data + ((top + y) * width + left + x) * l->channels + c;
                *at         = (uint8_t)(255 * fminf(fmaxf((v - from) / (to - from), 0), 1) + 0.5f);
            }
}

static tool_exit paint_all(const layout *l, const picture *p, int64_t n, const char *to)
{
    ipu_array sheet;
    float     least, most;
    int64_t   height = GAP + l->rows * (l->height * l->zoom + GAP),
            width    = GAP + l->columns * (l->width * l->zoom + GAP);
    if (ipu_array_create(IPU_UINT8, IPU_SHAPE(height, width, l->channels), &sheet) != IPU_OK)
        return tool_fail("%s", ipu_message());
    memset(sheet.data, PAPER, ipu_array_bytes(&sheet));
    find_range(p, n, l->channels * l->height * l->width, &least, &most);
    for (int64_t i = 0; i < n; i++) paint(l, &p[i], least, most, &sheet);
    ipu_status status = ipu_png_write(to, &sheet);
    ipu_array_free(&sheet);
    return status == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

/* Room for one picture more than is shown: samples whose row is already full are read into it. */
static tool_exit make_sheet(const ipu_dataset *set, const layout *l, const char *to)
{
    size_t most      = (size_t)(l->rows * l->columns) + 1,
           bytes     = (size_t)(l->channels * l->height * l->width) * sizeof(float);
    int64_t   n      = 0;
    picture  *p      = calloc(most, sizeof *p);
    float    *all    = calloc(most, bytes + 1);
    int64_t  *filled = calloc((size_t)l->rows + 1, sizeof *filled);
    tool_exit code;
    if (p) p[0].pixels = all;
    if (!p || !all || !filled)
        code = tool_fail("out of memory");
    else if (pick(set, l, p, &n, filled) != IPU_OK)
        code = tool_fail("%s", ipu_message());
    else
        code = paint_all(l, p, n, to);
    if (code == TOOL_OK) printf("%s: %lld pictures\n", to, (long long)n);
    free(p);
    free(all);
    free(filled);
    return code;
}

tool_exit dataset_sheet(const char *path, ipu_dataset_part part, int64_t count, const char *to)
{
    ipu_dataset *set;
    layout       l = {0};
    if (ipu_dataset_open(path, part, &(ipu_dataset_options){.raw = true}, &set) != IPU_OK)
        return tool_fail("%s", ipu_message());
    tool_exit code = lay_out(set, count, &l);
    if (code == TOOL_OK) code = make_sheet(set, &l, to);
    ipu_dataset_destroy(set);
    return code;
}
