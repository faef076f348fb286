/* Whether this is compiled with a sanitizer: tests then shorten what is merely slow, and skip what cannot
 * work. */
#ifndef IPU_BASE_SANITIZED_H
#define IPU_BASE_SANITIZED_H

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { IPU__THREAD_SANITIZED = 1, IPU__SANITIZED = 1 };
#elif defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { IPU__THREAD_SANITIZED = 0, IPU__SANITIZED = 1 };
#else
enum { IPU__THREAD_SANITIZED = 0, IPU__SANITIZED = 0 };
#endif

#endif
