/* When Toom-Cook is faster, and the scratch it needs. */
#include "op/conv/cpu/lanes_toom.h"

/* Vector operations with their loads and stores, for a row of one tile: measured, they are to stand beside
 * multiply-adds. */
enum { X_OPERATIONS = 35, Y_OPERATIONS = 25 };

bool ipu__toom_pays(const ipu__conv *c)
{
    if (c->k[1] != IPU__TOOM_KERNEL || c->k[2] != IPU__TOOM_KERNEL || c->y[2] < IPU__TOOM_WIDE
        || !IPU__SIMD_PICK(ipu__toom_loops_at).forward)
        return false;
    double tiles    = (double)ipu__op_ceil_div(c->y[2], IPU__TOOM_WIDE);
    double kernels  = (double)(c->in * c->out * c->y[1] * IPU__TOOM_KERNEL);
    double turned_x = (double)(c->in * c->x[1]) * X_OPERATIONS;
    double turned_y = (double)(c->out * c->y[1]) * Y_OPERATIONS;
    /* What is read is turned by each of two parts. */
    double turned = c->kind == IPU__CONV_INPUT_GRAD ? turned_x + 2 * turned_y : 2 * turned_x + turned_y;
    return tiles * (kernels * IPU__TOOM_POINTS + turned)
         < 0.9 * kernels * (double)(IPU__TOOM_KERNEL * c->y[2]);
}

int64_t ipu__toom_weights(const ipu__conv *c)
{
    return ipu__op_ceil_div(c->out * c->in * IPU__TOOM_KERNEL * IPU__TOOM_POINTS, IPU__LAYOUT_WIDTH)
         * IPU__LAYOUT_WIDTH;
}

int64_t ipu__toom_scratch(const ipu__conv *c, const ipu__lanes_shape *s)
{
    int64_t tiles  = c->kind == IPU__CONV_WEIGHT_GRAD ? ipu__toom_tiles(s) : 1;
    int64_t points = (c->in * c->x[1] + c->out * c->y[1]) * IPU__TOOM_POINTS * IPU__LAYOUT_WIDTH;
    return ipu__toom_weights(c) + tiles * points;
}
