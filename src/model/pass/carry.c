/* Loops without copies: finds carried values that the body may overwrite when it computes the next ones. */
#include "model/model.h"

typedef struct search {
    const ipu_model *m;
    uint32_t        *marks; /* by value: `mark` if it lies in the carried value's memory */
    uint32_t         mark;
} search;

static bool is_marked(const search *s, uint32_t id) { return id != 0 && s->marks[id] == s->mark; }

static bool uses(const search *s, const ipu__model_op *op);

static bool block_uses(const search *s, uint32_t block)
{
    if (block == IPU__NO_BLOCK) return false;
    const ipu__block *b   = &s->m->blocks.at[block];
    bool              any = is_marked(s, b->go_on);
    for (size_t i = 0; i < b->yields.n && !any; i++) any = is_marked(s, b->yields.at[i]);
    for (size_t i = 0; i < b->order.n && !any; i++) {
        const ipu__model_op *op = &s->m->ops.at[b->order.at[i]];
        any                     = !op->dead && uses(s, op);
    }
    return any;
}

static bool uses(const search *s, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (is_marked(s, op->in[i])) return true;
    return block_uses(s, op->body) || block_uses(s, op->otherwise);
}

/* Whether output `out` may be written over input `over`, and the op does not read that memory in any other
 * way. */
static bool may_overwrite(const search *s, const ipu__model_op *op, uint32_t out, uint32_t over)
{
    int  shares = op->def->kernel.operands[op->n_in + out].shares;
    bool shared = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!is_marked(s, op->in[i])) continue;
        if (op->in[i] != over || (shares != IPU__SHARES_ANY && shares != (int)i)) return false;
        shared = true;
    }
    return shared;
}

bool ipu__model_carries_in_place(const ipu_model *m, uint32_t block, uint32_t i, uint32_t *marks,
                                 uint32_t mark)
{
    search                  s    = {m, marks, mark};
    const ipu__block       *b    = &m->blocks.at[block];
    uint32_t                over = b->first_carried + i;
    const ipu__model_value *next = &m->values.at[b->yields.at[i]];
    bool                    done = false;
    if (next->kind != IPU__VALUE_OP || next->block != block) return false;
    marks[over] = mark;
    for (size_t k = 0; k < b->order.n; k++) {
        const ipu__model_op *op = &m->ops.at[b->order.at[k]];
        if (op->dead || !uses(&s, op)) continue;
        if (done) return false;
        bool is_view = op->kind == IPU__MODEL_OP && op->def->view;
        if (b->order.at[k] != next->of) {
            if (is_view) marks[op->first_out] = mark;
            continue;
        }
        if (op->kind != IPU__MODEL_OP || is_view || !may_overwrite(&s, op, next->at, over)) return false;
        done = true;
    }
    for (size_t k = 0; k < b->yields.n; k++)
        if (is_marked(&s, b->yields.at[k])) return false;
    return done && !is_marked(&s, b->go_on);
}
