/* Host functions in a model: called during a run, to compute or to observe values.
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
 * A model, its text form and its executable refer to a function by name only; it must be registered in the process that
 * runs them, before the engine is created (NOT_FOUND: the message names it). A name stands for one function at a time,
 * so that a cached executable cannot call one it was not built for: give different functions different names.
 *
 * "copy" is predefined: each output is the input of the same number, converted.
 */
#ifndef IPU_OP_HOST_H
#define IPU_OP_HOST_H

#include "ipu/builder.h"
#include "ipu/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called on a thread of the engine, once for each time a run reaches the op and for each replica, but never
 * concurrently by one engine. Arrays are the op's operands, in the device's own memory: valid during the call, with
 * read-only inputs. Any status but IPU_OK ends the run with that status; use ipu_host_fail to say why. */
typedef ipu_status (*ipu_host_fn)(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out);

/* `name` is copied, `user` borrowed until unregistered. Statuses: INVALID (no name or function; another function has
 * that name, whereas the same one again is fine). May be called from any thread. */
ipu_status ipu_host_register(const char *name, ipu_host_fn fn, void *user);
/* Not while an engine that calls it is running. Unknown names are ignored. */
void ipu_host_unregister(const char *name);
bool ipu_host_is_registered(const char *name);

/* For use in functions: `return ipu_host_fail("no more rows")`. Returns ABORTED. */
ipu_status ipu_host_fail(const char *message);

enum { IPU_HOST_MOST_INPUTS = 16, IPU_HOST_MOST_OUTPUTS = 8 };

/* out[i] is the function's result in the type and shape of like[i], whose data are ignored. At least one output must
 * have elements. The function is called whenever its results are computed: not at all if nobody uses them. No
 * gradient. */
void ipu_host_call(ipu_builder *b, const char *function, const ipu_value *in, size_t n_in,
                   const ipu_array *like, ipu_value *out, size_t n_out);

/* Returns x, on which `function` is called (with n_out 0); if the gradient of x is computed, `gradient_function` is
 * called on that. Either may be NULL. Neither is called if nobody uses the result. */
ipu_value ipu_host_show(ipu_builder *b, ipu_value x, const char *function, const char *gradient_function);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_host_call(...) (IPU_ENTER, ipu_host_call(__VA_ARGS__), ipu_leave())
#define ipu_host_show(...) IPU_AT(ipu_host_show(__VA_ARGS__))
#endif
#endif
