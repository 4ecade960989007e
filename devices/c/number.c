#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024
#error "double must be IEEE 754 binary64"
#endif

/* Significant digits of a number that decide how it is rounded; a double needs at most 767 (with one more for the rest). */
#define SIGNIFICANT 768

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t tk_decimal(uint64_t number, char text[21]) {
  char reversed[20];
  size_t length = 0, i;
  do {
    reversed[length++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  for (i = 0; i < length; i++) text[i] = reversed[length - 1 - i];
  text[length] = '\0';
  return length;
}

/* Digits with an exponent, without a decimal point: its character depends on the locale. `digits` has room for 8 more bytes. */
static double value_of(char *digits, size_t count, long exponent) {
  char text[21];
  size_t length = tk_decimal((uint64_t)(exponent < 0 ? -exponent : exponent), text);
  digits[count] = 'e';
  digits[count + 1] = exponent < 0 ? '-' : '+';
  memcpy(digits + count + 2, text, length + 1);
  return strtod(digits, NULL);
}

double tk_parse_number(const char *text, size_t length) {
  char digits[SIGNIFICANT + 1 + 24];
  size_t count = 0, i = 0;
  long exponent = 0, written = 0;
  bool negative = text[0] == '-', fraction = false, rest = false;
  double value;
  for (i = negative ? 1 : 0; i < length && text[i] != 'e' && text[i] != 'E'; i++) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    if (count < SIGNIFICANT) {
      if (count > 0 || text[i] != '0') digits[count++] = text[i];
      if (fraction) exponent--;
    } else {
      rest = rest || text[i] != '0';
      if (!fraction) exponent++;
    }
  }
  if (i < length) {
    bool below = text[++i] == '-';
    if (text[i] == '-' || text[i] == '+') i++;
    /* Larger exponents than those of any double and text; not more, so that the sum does not overflow. */
    for (; i < length; i++)
      if (written < 100000000) written = written * 10 + (text[i] - '0');
    exponent += below ? -written : written;
  }
  if (count == 0) return negative ? -0.0 : 0.0;
  if (rest) {
    digits[count++] = '1';
    exponent--;
  }
  value = value_of(digits, count, exponent);
  return negative ? -value : value;
}

/* The nearest number with so many digits; false if it is not this double. `exponent` is that of the last digit. */
static bool try_digits(double number, int count, char *digits, long *exponent) {
  char text[48];
  int i, used = 0;
  long scientific = 0;
  bool below;
  snprintf(text, sizeof text, "%.*e", count - 1, number);
  /* The decimal point may have several bytes. */
  for (i = 0; text[i] != 'e'; i++)
    if (is_digit(text[i])) digits[used++] = text[i];
  below = text[++i] == '-';
  for (i++; is_digit(text[i]); i++) scientific = scientific * 10 + (text[i] - '0');
  *exponent = (below ? -scientific : scientific) - (count - 1);
  if (value_of(digits, (size_t)count, *exponent) == number) return true;
  /* Above a power of two doubles are twice as far apart as below it: a number further above can still be this double. */
  for (i = count - 1; i >= 0 && digits[i] == '9'; i--) digits[i] = '0';
  if (i < 0) return false;
  digits[i]++;
  return value_of(digits, (size_t)count, *exponent) == number;
}

/* ECMA-262, Number::toString, which RFC 8785 refers to. */
void tk_put_number(tk_writer *writer, double number) {
  char digits[48];
  long exponent = 0, point;
  int count, i;
  if (!isfinite(number)) {
    writer->failed = true;
    return;
  }
  if (number == 0) {
    tk_put(writer, "0"); /* also for -0 */
    return;
  }
  if (number < 0) {
    tk_put(writer, "-");
    number = -number;
  }
  /* 15 digits of a normal number give every shorter form, with zeros at the end. Subnormal numbers have fewer digits. */
  for (count = number < DBL_MIN ? 1 : 15; count < 17 && !try_digits(number, count, digits, &exponent); count++) continue;
  if (count == 17) (void)try_digits(number, 17, digits, &exponent);
  while (count > 1 && digits[count - 1] == '0') {
    count--;
    exponent++;
  }
  point = count + exponent; /* digits before the decimal point */
  if (point > 0 && point <= 21) {
    size_t whole = (size_t)(point < count ? point : count);
    tk_put_bytes(writer, digits, whole);
    for (i = count; i < point; i++) tk_put(writer, "0");
    if (point < count) {
      tk_put(writer, ".");
      tk_put_bytes(writer, digits + point, (size_t)(count - point));
    }
  } else if (point > -6 && point <= 0) {
    tk_put(writer, "0.");
    for (i = 0; i > point; i--) tk_put(writer, "0");
    tk_put_bytes(writer, digits, (size_t)count);
  } else {
    char text[21];
    long shown = point - 1;
    tk_put_bytes(writer, digits, 1);
    if (count > 1) {
      tk_put(writer, ".");
      tk_put_bytes(writer, digits + 1, (size_t)count - 1);
    }
    tk_put(writer, shown < 0 ? "e-" : "e+");
    tk_put_bytes(writer, text, tk_decimal((uint64_t)(shown < 0 ? -shown : shown), text));
  }
}
