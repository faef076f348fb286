/* Text of unknown origin as UTF-8. */
#ifndef IPU_SUMMARY_UTF8_H
#define IPU_SUMMARY_UTF8_H

/* A copy in which invalid UTF-8 is replaced by U+FFFD. Owned: ipu__free. NULL on allocation failure. */
char *ipu__utf8_copy(const char *text);

#endif
