/* Text of unknown origin as UTF-8. */
#ifndef IPU_SUMMARY_UTF8_H
#define IPU_SUMMARY_UTF8_H

/* A copy in which what is no UTF-8 is U+FFFD. Owned: ipu__free. NULL: out of memory. */
char *ipu__utf8_copy(const char *text);

#endif
