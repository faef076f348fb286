/* Source locations: how an error names the user's file and line.
 *
 * Every builder function (`ipu_graph_add_variable`, `ipu_tensor_slice`, ...) is a
 * function and, in C, a macro of the same name that first notes where it was called:
 *
 *     #define ipu_graph_add_variable(...) (IPU_HERE, ipu_graph_add_variable(__VA_ARGS__))
 *
 * Bindings call `ipu_here` themselves before a builder call. Code that builds on
 * behalf of its caller compiles with IPU_NO_LOCATIONS, so that errors name the caller.
 */
#ifndef IPU_LOCATION_H
#define IPU_LOCATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Set this thread's location for the builder calls that follow. `file` is not
 * copied before such a call and must live until then. NULL: unknown. */
void ipu_here(const char *file, int line);

#define IPU_HERE ipu_here(__FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#endif
