/* Turns PNG files into inputs of networks. Resizes like Pillow's BILINEAR: with a triangle filter as wide as
 * a pixel of the coarser grid, so that shrinking averages. */
#include "run/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/dataset.h"
#include "output.h"

/* ---- the model's input ---- */

static bool is_channels(int64_t n) { return n == 1 || n == 3; }

/* Returns false if the shape is not one of pictures. */
static bool read_shape(const ipu_onnx_port *port, picture_form *out)
{
    const int64_t *dim = port->shape.dim;
    *out = (picture_form){.n = dim[0] < 0 ? 1 : dim[0], .channels = 1, .shape = port->shape, .std = 1};
    out->shape.dim[0] = out->n;
    if (port->rank == 4) {
        out->channels_last = !is_channels(dim[1]) && is_channels(dim[3]);
        out->channels      = out->channels_last ? dim[3] : dim[1];
        out->height        = out->channels_last ? dim[1] : dim[2];
        out->width         = out->channels_last ? dim[2] : dim[3];
    } else if (port->rank == 3) {
        out->height = dim[1];
        out->width  = dim[2];
    } else if (port->rank == 2) {
        out->height = out->width = llround(sqrt((double)(dim[1] > 0 ? dim[1] : 0)));
        if (out->height * out->width != dim[1]) return false;
    }
    return is_channels(out->channels) && out->height > 0 && out->width > 0 && out->n > 0;
}

tool_exit picture_metadata(const ipu_onnx *file, const char *path, bool *raw, double *mean, double *std)
{
    ipu_onnx_info info;
    ipu_onnx_get_info(file, &info);
    for (size_t i = 0; i < info.n_metadata; i++) {
        const char *key, *value;
        char       *end;
        ipu_onnx_metadata_at(file, i, &key, &value);
        if (!strcmp(key, PICTURE_RAW)) *raw = !strcmp(value, "true");
        double *number = !strcmp(key, PICTURE_MEAN) ? mean : !strcmp(key, PICTURE_STD) ? std : NULL;
        if (!number) continue;
        *number = strtod(value, &end);
        if (end == value || *end || !isfinite(*number) || (number == std && *number == 0))
            return tool_fail("%s: metadata \"%s\": \"%s\" is no number to use", path, key, value);
    }
    return TOOL_OK;
}

tool_exit picture_form_find(const onnx_file *f, picture_form *out)
{
    char text[256];
    if (f->n_inputs != 1)
        return tool_fail("%s has %zu inputs: expected one, of pictures", f->path, f->n_inputs);
    const ipu_onnx_port *port     = &f->inputs[0];
    bool                 is_array = port->kind == IPU_ONNX_ARRAY && port->has_type && port->type == IPU_FLOAT;
    if (!is_array || port->rank < 2 || port->rank > 4 || !read_shape(port, out)) {
        onnx_port_text(port, text, sizeof text);
        return tool_fail(
            "%s: input \"%s\" is %s: expected float [N, 1 or 3, height, width], [N, height, width, 1 or 3], "
            "[N, height, width] or [N, pixels of a square], all but N known",
            f->path, port->name, text);
    }
    out->digit = out->channels == 1 && out->height == 28 && out->width == 28;
    return picture_metadata(f->onnx, f->path, &out->raw, &out->mean, &out->std);
}

int64_t picture_n_elements(const picture_form *form) { return form->channels * form->height * form->width; }

/* ---- resizing ---- */

/* Resizes along one dimension: `n_lines` lines of `from` elements, `stride` apart, become lines of `to`. */
static void resize_lines(const double *in, int64_t from, double *out, int64_t to, int64_t n_lines,
                         int64_t line_in, int64_t line_out, int64_t step_in, int64_t step_out)
{
    double scale = (double)from / (double)to, reach = fmax(scale, 1);
    for (int64_t i = 0; i < to; i++) {
        double  centre = ((double)i + 0.5) * scale - 0.5;
        int64_t first = llround(ceil(centre - reach)), last = llround(floor(centre + reach));
        if (first < 0) first = 0;
        if (last > from - 1) last = from - 1;
        for (int64_t k = 0; k < n_lines; k++) {
            double sum = 0, weights = 0;
            for (int64_t j = first; j <= last; j++) {
                double weight = fmax(0, 1 - fabs((double)j - centre) / reach);
                sum += weight * in[k * line_in + j * step_in];
                weights += weight;
            }
            out[k * line_out + i * step_out] = weights > 0 ? sum / weights : 0;
        }
    }
}

/* Resizes one plane; `between` has room for height x new width. */
static void resize(const double *in, int64_t height, int64_t width, double *between, const picture_form *form,
                   double *out)
{
    resize_lines(in, width, between, form->width, height, width, form->width, 1, 1);
    resize_lines(between, height, out, form->height, form->width, 1, 1, form->width, form->width);
}

/* ---- reading ---- */

/* Channel `c` of `n` from the picture [height, width, 1 or 3], or its luma (ITU-R BT.601). */
static void take_plane(const ipu_array *a, int64_t c, int64_t n, double *out)
{
    const uint8_t *pixels = a->data;
    int64_t        has = a->shape.rank == 3 ? a->shape.dim[2] : 1, count = a->shape.dim[0] * a->shape.dim[1];
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = pixels + i * has;
        if (has == 3)
            out[i] = n == 3 ? p[c] : 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
        else
            out[i] = p[0];
    }
}

static void put_plane(const picture_form *form, const double *plane, int64_t c, float *out)
{
    int64_t count = form->height * form->width;
    for (int64_t i = 0; i < count; i++) {
        double x = form->raw ? plane[i] : (plane[i] / 255 - form->mean) / form->std;
        out[form->channels_last ? i * form->channels + c : c * count + i] = (float)x;
    }
}

static tool_exit convert(const picture_form *form, const ipu_array *a, float *out)
{
    int64_t height = a->shape.dim[0], width = a->shape.dim[1];
    double *plane   = calloc((size_t)(height * width), sizeof *plane);
    double *between = calloc((size_t)(height * form->width), sizeof *between);
    double *resized = calloc((size_t)(form->height * form->width), sizeof *resized);
    bool    ok      = plane && between && resized;
    for (int64_t c = 0; ok && c < form->channels; c++) {
        take_plane(a, c, form->channels, plane);
        resize(plane, height, width, between, form, resized);
        put_plane(form, resized, c, out);
    }
    free(plane);
    free(between);
    free(resized);
    return ok ? TOOL_OK : tool_fail("out of memory");
}

tool_exit picture_read(const picture_form *form, const char *path, float *out)
{
    ipu_array picture = {0}, digit = {0};
    if (ipu_png_read(path, &picture) != IPU_OK
        || (form->digit && ipu_picture_digit(&picture, &digit) != IPU_OK)) {
        ipu_array_free(&picture);
        return tool_fail("%s", ipu_message());
    }
    tool_exit code = convert(form, form->digit ? &digit : &picture, out);
    ipu_array_free(&picture);
    ipu_array_free(&digit);
    return code;
}
