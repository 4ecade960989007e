/* Included before each file of the core, to compile it as for a locale whose decimal point is a comma. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int comma_snprintf(char *text, size_t size, const char *format, int precision, double number) {
  int length = snprintf(text, size, format, precision, number);
  char *point = strchr(text, '.');
  if (point != NULL) *point = ',';
  return length;
}

static inline double comma_strtod(const char *text, char **end) {
  if (strchr(text, '.') != NULL) abort();
  return strtod(text, end);
}

#define snprintf comma_snprintf
#define strtod comma_strtod
