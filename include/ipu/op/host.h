/* The host's part of a model: its own functions called during a run, and values shown while it goes.
 *
 *     static ipu_status twice(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
 *     {
 *         for (int64_t i = 0; i < ipu_array_n_elements(in); i++)
 *             ((float *)out->data)[i] = 2 * ((const float *)in->data)[i];
 *         return IPU_OK;
 *     }
 *     IPU_TRY(ipu_host_register("twice", twice, NULL));
 *     ipu_host_call(b, "twice", &x, 1, &(ipu_array){IPU_FLOAT, IPU_SHAPE(64)}, &y, 1);
 *
 * A model, its text form and its executable know a function by its name only; who runs them must have registered it in
 * the same process, before the engine is created (NOT_FOUND: the message names it). A name is one function at a time, so
 * that a cached executable cannot call another than it was built for: give different functions different names.
 *
 * "copy" is there from the start: each output is the input of the same number, converted.
 */
#ifndef IPU_OP_HOST_H
#define IPU_OP_HOST_H

#include "ipu/builder.h"
#include "ipu/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called by a thread of the engine's, once in a run for each time the op is reached and each replica; never twice at
 * once by one engine. Arrays are those of the op, in the device's own memory: valid during the call, inputs not to be
 * written. Other than IPU_OK ends the run with that status; ipu_host_fail says why. */
typedef ipu_status (*ipu_host_fn)(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out);

/* `name` is copied, `user` borrowed until it is unregistered. Statuses: INVALID (no name, no function; another function
 * has that name; the same one again is fine). From any thread. */
ipu_status ipu_host_register(const char *name, ipu_host_fn fn, void *user);
/* Not while an engine runs that calls it. No such name: nothing happens. */
void ipu_host_unregister(const char *name);
bool ipu_host_is_registered(const char *name);

/* For functions: `return ipu_host_fail("no more rows")`. Returns ABORTED. */
ipu_status ipu_host_fail(const char *message);

enum { IPU_HOST_MOST_INPUTS = 16, IPU_HOST_MOST_OUTPUTS = 8 };

/* out[i] is what the function gives in the type and shape of like[i], whose data are not looked at. Needs an output with
 * elements. It is called as often as the values it gives are computed: not if nobody uses them. It has no gradient. */
void ipu_host_call(ipu_builder *b, const char *function, const ipu_value *in, size_t n_in,
                   const ipu_array *like, ipu_value *out, size_t n_out);

/* x itself, which `function` is called with (n_out is 0); and the gradient of x with `gradient_function`, where one is
 * computed. Either may be NULL: not shown. Nothing is shown if nobody uses the result. */
ipu_value ipu_host_show(ipu_builder *b, ipu_value x, const char *function, const char *gradient_function);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_host_call(...) (IPU_ENTER, ipu_host_call(__VA_ARGS__), ipu_leave())
#define ipu_host_show(...) IPU_AT(ipu_host_show(__VA_ARGS__))
#endif
#endif
