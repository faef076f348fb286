/* Programs to text. A body used in several places is written out in each; the graph limits nesting and the
 * total number of steps (IPU__MAX_DEPTH, IPU__MAX_STEPS), the printer the size of the text. */
#include <inttypes.h>
#include <string.h>

#include "graph/text/literal.h"
#include "graph/text/print.h"

/* One function per kind of step: what follows its keyword. */

static void add(ipu__printer *p, const char *text) { ipu__text_add_bytes(&p->out, text, strlen(text)); }

static void add_view(ipu__printer *p, const char *before, uint32_t view)
{
    add(p, before);
    ipu__print_view(p, view);
}

static void add_quoted(ipu__printer *p, const char *before, const char *text)
{
    add(p, before);
    ipu__text_add_quoted(&p->out, text);
}

/* A step without a block ends with its location and a semicolon. */
static void end(ipu__printer *p, const ipu__step *step)
{
    ipu__print_at(p, step->location);
    add(p, ";");
}

static void print_sequence(ipu__printer *p, const ipu__step *step)
{
    ipu__print_at(p, step->location);
    ipu__print_block(p, step->body);
}

static void print_execute(ipu__printer *p, const ipu__step *step)
{
    add(p, " ");
    ipu__print_label(p, &p->compute_sets, p->g->compute_sets.at[step->object].name, step->object);
    end(p, step);
}

static void print_attribute(ipu__printer *p, const ipu_attribute *a)
{
    ipu__name_print(&p->out, a->name);
    add(p, " = ");
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: ipu__text_add(&p->out, "%" PRId64, a->i); break;
    case IPU_ATTRIBUTE_FLOAT: ipu__float_print(&p->out, a->f); break;
    case IPU_ATTRIBUTE_TEXT: ipu__text_add_quoted(&p->out, a->text); break;
    case IPU_ATTRIBUTE_INTS:
        add(p, "{");
        for (size_t i = 0; i < a->n_ints; i++)
            ipu__text_add(&p->out, "%s%" PRId64, i ? ", " : "", a->ints[i]);
        add(p, "}");
        break;
    }
}

static void print_kernel(ipu__printer *p, const ipu__step *step)
{
    const ipu__kernel_step *kernel = &p->g->kernel_steps.at[step->object];
    add(p, " ");
    ipu__name_print(&p->out, kernel->call.def->name);
    add(p, " (");
    for (int i = 0; i < kernel->call.n_operands; i++) add_view(p, i ? ", " : "", kernel->views[i]);
    add(p, ")");
    for (size_t i = 0; i < kernel->call.n_attributes; i++) {
        add(p, i ? ", " : " { ");
        print_attribute(p, &kernel->call.attributes[i]);
    }
    if (kernel->call.n_attributes) add(p, " }");
    if (kernel->n_tiles != p->g->n_tiles)
        ipu__text_add(&p->out, " on %" PRId64 "..%" PRId64, kernel->first_tile,
                      kernel->first_tile + kernel->n_tiles);
    end(p, step);
}

static void print_copy(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    add_view(p, " -> ", step->to);
    end(p, step);
}

static void print_read(ipu__printer *p, const ipu__step *step)
{
    add_quoted(p, " ", p->g->streams.at[step->object].handle);
    add_view(p, " -> ", step->to);
    end(p, step);
}

static void print_write(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    add_quoted(p, " -> ", p->g->streams.at[step->object].handle);
    end(p, step);
}

static void print_remote_read(ipu__printer *p, const ipu__step *step)
{
    add_quoted(p, " ", p->g->remote_buffers.at[step->object].handle);
    if (step->rows) add_view(p, " rows ", step->rows);
    add_view(p, " -> ", step->to);
    end(p, step);
}

static void print_remote_write(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    add_quoted(p, " -> ", p->g->remote_buffers.at[step->object].handle);
    if (step->rows) add_view(p, " rows ", step->rows);
    end(p, step);
}

static void print_repeat(ipu__printer *p, const ipu__step *step)
{
    ipu__text_add(&p->out, " %" PRId64, step->n);
    ipu__print_at(p, step->location);
    ipu__print_block(p, step->body);
}

static void print_while(ipu__printer *p, const ipu__step *step)
{
    ipu__print_at(p, step->location);
    ipu__print_block(p, step->other);
    add_view(p, " ", step->from);
    ipu__print_block(p, step->body);
}

static void print_if(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    ipu__print_at(p, step->location);
    ipu__print_block(p, step->body);
    if (step->other.program == 0) return;
    add(p, " else");
    ipu__print_block(p, step->other);
}

static void print_switch(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    ipu__print_at(p, step->location);
    add(p, " {");
    p->depth++;
    for (int64_t i = 0; i < step->n && p->status == IPU_OK; i++) {
        ipu__print_line(p);
        ipu__text_add(&p->out, "case %" PRId64, step->cases[i].value);
        ipu__print_block(p, step->cases[i].body);
    }
    if (step->other.program) {
        ipu__print_line(p);
        add(p, "default");
        ipu__print_block(p, step->other);
    }
    p->depth--;
    ipu__print_line(p);
    add(p, "}");
}

static void print_parallel(ipu__printer *p, const ipu__step *step)
{
    ipu__print_at(p, step->location);
    add(p, " {");
    p->depth++;
    for (int64_t i = 0; i < step->n && p->status == IPU_OK; i++) {
        ipu__print_line(p);
        add(p, "body");
        ipu__print_block(p, step->cases[i].body);
    }
    p->depth--;
    ipu__print_line(p);
    add(p, "}");
}

static void print_call(ipu__printer *p, const ipu__step *step)
{
    add(p, " ");
    ipu__print_label(p, &p->functions, p->g->functions.at[step->object].name, step->object);
    end(p, step);
}

static void print_sync(ipu__printer *p, const ipu__step *step)
{
    static const char *const types[] = {
        [IPU_SYNC_INTERNAL] = " internal", [IPU_SYNC_EXTERNAL] = " external", [IPU_SYNC_GLOBAL] = " global"};
    add(p, types[step->n]);
    end(p, step);
}

static void print_print(ipu__printer *p, const ipu__step *step)
{
    if (step->text) add_quoted(p, " ", step->text);
    add_view(p, " ", step->from);
    end(p, step);
}

static void print_abort_if(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    add_quoted(p, " ", step->text ? step->text : "");
    end(p, step);
}

static void print_error(ipu__printer *p, const ipu__step *step)
{
    add_quoted(p, " ", step->text ? step->text : "");
    if (step->from) add_view(p, " ", step->from);
    end(p, step);
}

static void print_write_undef(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->to);
    end(p, step);
}

static void print_cross_replica_copy(ipu__printer *p, const ipu__step *step)
{
    add_view(p, " ", step->from);
    add_view(p, " -> ", step->to);
    add(p, " {");
    for (int64_t i = 0; i < step->n; i++)
        ipu__text_add(&p->out, "%s%" PRId64, i ? ", " : "", step->replicas[i]);
    add(p, "}");
    end(p, step);
}

static void print_all_reduce(ipu__printer *p, const ipu__step *step)
{
    if (step->from) add_view(p, " ", step->from);
    end(p, step);
}

static void (*const printers[])(ipu__printer *p, const ipu__step *step) = {
    [IPU__STEP_SEQUENCE]           = print_sequence,
    [IPU__STEP_EXECUTE]            = print_execute,
    [IPU__STEP_KERNEL]             = print_kernel,
    [IPU__STEP_COPY]               = print_copy,
    [IPU__STEP_READ]               = print_read,
    [IPU__STEP_WRITE]              = print_write,
    [IPU__STEP_REMOTE_READ]        = print_remote_read,
    [IPU__STEP_REMOTE_WRITE]       = print_remote_write,
    [IPU__STEP_REPEAT]             = print_repeat,
    [IPU__STEP_WHILE_TRUE]         = print_while,
    [IPU__STEP_WHILE_FALSE]        = print_while,
    [IPU__STEP_IF]                 = print_if,
    [IPU__STEP_SWITCH]             = print_switch,
    [IPU__STEP_PARALLEL]           = print_parallel,
    [IPU__STEP_CALL]               = print_call,
    [IPU__STEP_SYNC]               = print_sync,
    [IPU__STEP_PRINT]              = print_print,
    [IPU__STEP_ABORT_IF]           = print_abort_if,
    [IPU__STEP_ERROR]              = print_error,
    [IPU__STEP_WRITE_UNDEF]        = print_write_undef,
    [IPU__STEP_CROSS_REPLICA_COPY] = print_cross_replica_copy,
    [IPU__STEP_ALL_REDUCE]         = print_all_reduce,
    [IPU__STEP_ALL_REDUCE_WAIT]    = print_all_reduce,
};

_Static_assert(sizeof printers / sizeof *printers == IPU__N_STEP_KINDS, "every kind of step can be printed");

void ipu__print_block(ipu__printer *p, ipu__body body)
{
    static const char *const words[] = {
#define X(name, text) [IPU__STEP_##name] = text,
        IPU__STEP_LIST(X)
#undef X
    };
    if (body.program == 0 || body.n_steps == 0) {
        add(p, " { }");
        return;
    }
    add(p, " {");
    p->depth++;
    for (uint32_t i = 0; i < body.n_steps && p->status == IPU_OK; i++) {
        const ipu__step *step = &p->g->programs.at[body.program].steps.at[i];
        ipu__print_line(p);
        add(p, words[step->kind]);
        printers[step->kind](p, step);
    }
    p->depth--;
    ipu__print_line(p);
    add(p, "}");
}
