#include <string.h>

#include "internal.h"

void tk_writer_init(tk_writer *writer, char *data, size_t capacity) {
  writer->data = data;
  writer->capacity = capacity;
  writer->length = 0;
  writer->failed = false;
  writer->hash = NULL;
  data[0] = '\0';
}

void tk_put_bytes(tk_writer *writer, const char *text, size_t length) {
  if (writer->failed) return;
  if (writer->hash != NULL) {
    tk_sha256_update(writer->hash, text, length);
    return;
  }
  if (length >= writer->capacity - writer->length) {
    writer->failed = true;
    return;
  }
  memcpy(writer->data + writer->length, text, length);
  writer->length += length;
  writer->data[writer->length] = '\0';
}

void tk_put(tk_writer *writer, const char *text) { tk_put_bytes(writer, text, strlen(text)); }

void tk_put_integer(tk_writer *writer, int64_t number) {
  char text[21];
  if (number < 0) tk_put(writer, "-");
  tk_put_bytes(writer, text, tk_decimal(number < 0 ? (uint64_t)0 - (uint64_t)number : (uint64_t)number, text));
}

void tk_put_character(tk_writer *writer, uint32_t point) {
  char bytes[4];
  size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4, i;
  for (i = length - 1; i > 0; i--, point >>= 6) bytes[i] = (char)(0x80 | (point & 0x3f));
  bytes[0] = (char)(length == 1 ? point : (0xf00u >> length & 0xffu) | point);
  tk_put_bytes(writer, bytes, length);
}

/* As RFC 8785, section 3.2.2.2. */
static void put_escaped(tk_writer *writer, uint32_t point) {
  static const char escapes[] = "\b\t\n\f\r\"\\";
  static const char letters[] = "btnfr\"\\";
  const char *found = point < 0x80 && point > 0 ? strchr(escapes, (int)point) : NULL;
  char text[7] = "\\u0000";
  if (found != NULL) {
    text[1] = letters[found - escapes];
    tk_put_bytes(writer, text, 2);
  } else if (point < 0x20) {
    text[4] = (char)('0' + (point >> 4));
    text[5] = "0123456789abcdef"[point & 15];
    tk_put_bytes(writer, text, 6);
  } else {
    tk_put_character(writer, point);
  }
}

void tk_put_string(tk_writer *writer, const char *utf8) {
  const char *end = utf8 + strlen(utf8);
  uint32_t point;
  tk_put(writer, "\"");
  while (utf8 < end) {
    if (!tk_utf8_next(&utf8, end, &point)) {
      writer->failed = true;
      return;
    }
    put_escaped(writer, point);
  }
  tk_put(writer, "\"");
}

void tk_put_name(tk_writer *writer, const char *name) {
  char last = writer->length == 0 ? '{' : writer->data[writer->length - 1];
  if (last != '{') tk_put(writer, ",");
  tk_put_string(writer, name);
  tk_put(writer, ":");
}

/* The next UTF-16 code unit, the order of RFC 8785; -1 at the end. `low` is the second half of a pair, or 0. */
static long next_unit(tk_characters *characters, uint32_t *low) {
  uint32_t point = *low;
  *low = 0;
  if (point != 0) return (long)point;
  if (!tk_next_character(characters, &point)) return -1;
  if (point < 0x10000) return (long)point;
  *low = 0xdc00 + ((point - 0x10000) & 0x3ff);
  return (long)(0xd800 + ((point - 0x10000) >> 10));
}

int tk_compare_strings(tk_json a, tk_json b) {
  tk_characters as = tk_characters_of(a), bs = tk_characters_of(b);
  uint32_t low_a = 0, low_b = 0;
  long unit_a, unit_b;
  do {
    unit_a = next_unit(&as, &low_a);
    unit_b = next_unit(&bs, &low_b);
  } while (unit_a == unit_b && unit_a >= 0);
  return unit_a < unit_b ? -1 : unit_a > unit_b;
}

static void put_canonical_string(tk_writer *writer, tk_json string) {
  tk_characters characters = tk_characters_of(string);
  uint32_t point;
  tk_put(writer, "\"");
  while (tk_next_character(&characters, &point)) put_escaped(writer, point);
  tk_put(writer, "\"");
}

/* Looks for the next key in each pass, so that no memory for a sorted list is needed. */
static void put_canonical_object(tk_writer *writer, tk_json object) {
  tk_json last = {NULL, 0};
  tk_put(writer, "{");
  for (;;) {
    tk_members members = tk_members_of(object);
    tk_json key, value, next = {NULL, 0}, next_value = {NULL, 0};
    while (tk_next_member(&members, &key, &value)) {
      if (last.data != NULL && tk_compare_strings(key, last) <= 0) continue;
      if (next.data != NULL && tk_compare_strings(key, next) >= 0) continue;
      next = key;
      next_value = value;
    }
    if (next.data == NULL) break;
    if (last.data != NULL) tk_put(writer, ",");
    put_canonical_string(writer, next);
    tk_put(writer, ":");
    tk_put_canonical(writer, next_value);
    last = next;
  }
  tk_put(writer, "}");
}

void tk_put_canonical(tk_writer *writer, tk_json value) {
  if (value.data[0] == '{') {
    put_canonical_object(writer, value);
  } else if (value.data[0] == '[') {
    tk_members elements = tk_members_of(value);
    tk_json element;
    bool first = true;
    tk_put(writer, "[");
    while (tk_next_element(&elements, &element)) {
      if (!first) tk_put(writer, ",");
      tk_put_canonical(writer, element);
      first = false;
    }
    tk_put(writer, "]");
  } else if (value.data[0] == '"') {
    put_canonical_string(writer, value);
  } else if (value.data[0] == '-' || (value.data[0] >= '0' && value.data[0] <= '9')) {
    tk_put_number(writer, tk_parse_number(value.data, value.length));
  } else {
    tk_put_bytes(writer, value.data, value.length);
  }
}
