/* Source locations: how an error names the user's file and line.
 *
 * Every builder function (`ipu_graph_add_variable`, `ipu_tensor_slice`, ...) is a function and, in C, a macro
 * of the same name that first records where it was called:
 *
 *     #define ipu_program_add(...) (IPU_ENTER, ipu_program_add(__VA_ARGS__), ipu_leave())
 *
 * Bindings call `ipu_here` themselves before a builder call. Code that builds on behalf of its caller
 * compiles with IPU_NO_LOCATIONS, so that errors name the caller.
 */
#ifndef IPU_LOCATION_H
#define IPU_LOCATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Set this thread's location for the builder calls that follow. `file` is not copied until such a call, and
 * must remain valid until then. NULL if unknown. */
void ipu_here(const char *file, int line);

/* Used by the macros. Builder calls nest, as in f(g, h(x)), and arguments are evaluated after the location of
 * f was recorded: `ipu_leave` restores the location in force before `ipu_enter`. */
void ipu_enter(const char *file, int line);
void ipu_leave(void);

#define IPU_ENTER ipu_enter(__FILE__, __LINE__)
#define IPU_LEFT(name, type)                   \
    static inline type name##_left(type value) \
    {                                          \
        ipu_leave();                           \
        return value;                          \
    }

#ifdef __cplusplus
}
#endif
#endif
