/* Shared by layers: parameters and states named after their layer. The public half is ipu/nn.h. */
#ifndef IPU_MODEL_NN_NN_H
#define IPU_MODEL_NN_NN_H

#include "ipu/nn.h"
#include "model/model.h"

/* Returns false after an error, such as a missing name or too small a rank. */
bool ipu__nn_begin(ipu_model *m, const char *caller, ipu_value x, const char *name, int least_rank);

/* The parameter "LAYER.WHAT", with the type of `like`. */
ipu_value ipu__nn_parameter(ipu_model *m, const char *layer, const char *what, ipu_value like,
                            ipu_shape shape, ipu_initial initial);
/* The state "LAYER.WHAT". */
ipu_value ipu__nn_state(ipu_model *m, const char *layer, const char *what, ipu_type type, ipu_shape shape,
                        double initial);

ipu_initial ipu__nn_uniform(double bound); /* -bound to bound */

/* ---- the parts of ipu_nn_train_with ---- */

#define IPU__NN_STEP "optimizer_step" /* the state that counts steps, if the optimizer needs it */
enum { IPU__NN_RATE_NAME = 40 };
void ipu__nn_rate_name(size_t group, char name[IPU__NN_RATE_NAME]);

/* The group of the parameter of that name; 0 is the default group. */
size_t ipu__nn_group_of(const ipu_nn_training *how, const char *name);
bool   ipu__nn_group_is_frozen(const ipu_nn_training *how, size_t group);
/* Returns false after an error: an invalid number, or a pattern that matches nothing. */
bool ipu__nn_check_training(ipu_model *m, const ipu_nn_training *how);
/* Gradients of the scaled sum of the losses; null for frozen or unused parameters. */
void ipu__nn_gradients(ipu_model *m, const ipu_nn_training *how, const ipu_value *w, size_t n, ipu_value *dw);
/* Whether the loss scale is a state that adjusts itself; that state, created on the first call; whether all
 * gradients are finite, as a scalar; updating the scale after a step. */
#define IPU__NN_SCALE "loss_scale"
#define IPU__NN_GOOD_STEPS "loss_scale_good_steps"
bool      ipu__nn_finds_scale(const ipu_nn_training *how);
ipu_value ipu__nn_scale(ipu_model *m, const ipu_nn_training *how);
ipu_value ipu__nn_all_finite(ipu_model *m, const ipu_value *dw, size_t n);
void      ipu__nn_update_scale(ipu_model *m, const ipu_nn_training *how, ipu_value all_finite);
/* The seed for rounding weights of half if the model's `rounds_at_random` is set: the state uint32[2] {seed,
 * step} of that name, whose step counts runs. It is the same in all replicas, because their weights are. */
#define IPU__NN_ROUNDING_SEED "rounding_seed"
/* Multiplies dw by `scale`, undoes the loss scale and clips; then a step for each parameter that has a
 * gradient. */
void ipu__nn_step(ipu_model *m, const ipu_nn_training *how, double scale, const ipu_value *w, ipu_value *dw,
                  size_t n);

#endif
