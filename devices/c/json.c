#include <math.h>
#include <string.h>

#include "internal.h"

#define MAX_COUNT 9007199254740991.0 /* 2^53 - 1 */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static void skip_space(const char **at, const char *end) {
  while (*at < end && is_space(**at)) ++*at;
}

bool tk_utf8_next(const char **at, const char *end, uint32_t *point) {
  const uint8_t *bytes = (const uint8_t *)*at;
  size_t available = (size_t)(end - *at), length, i;
  uint32_t least;
  if (bytes[0] < 0x80) {
    *point = bytes[0];
    ++*at;
    return true;
  }
  if (bytes[0] >= 0xc2 && bytes[0] < 0xe0) {
    length = 2, least = 0x80, *point = bytes[0] & 0x1fu;
  } else if (bytes[0] >= 0xe0 && bytes[0] < 0xf0) {
    length = 3, least = 0x800, *point = bytes[0] & 0x0fu;
  } else if (bytes[0] >= 0xf0 && bytes[0] < 0xf5) {
    length = 4, least = 0x10000, *point = bytes[0] & 0x07u;
  } else {
    return false;
  }
  if (available < length) return false;
  for (i = 1; i < length; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return false;
    *point = (*point << 6) | (bytes[i] & 0x3fu);
  }
  *at += length;
  return *point >= least && *point <= 0x10ffff && (*point < 0xd800 || *point > 0xdfff);
}

static bool read_hex(const char *at, const char *end, uint32_t *unit) {
  int i;
  if (end - at < 4) return false;
  *unit = 0;
  for (i = 0; i < 4; i++) {
    char c = at[i];
    uint32_t digit = is_digit(c)              ? (uint32_t)(c - '0')
                     : (c >= 'a' && c <= 'f') ? (uint32_t)(c - 'a' + 10)
                     : (c >= 'A' && c <= 'F') ? (uint32_t)(c - 'A' + 10)
                                              : 16;
    if (digit == 16) return false;
    *unit = *unit << 4 | digit;
  }
  return true;
}

/* The character of an escape, behind its backslash; false if it is not valid. */
static bool read_escape(const char **at, const char *end, uint32_t *point) {
  static const char letters[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  const char *found;
  uint32_t low;
  if (*at == end || **at == '\0') return false;
  if (**at != 'u') {
    found = strchr(letters, **at);
    if (found == NULL) return false;
    ++*at;
    *point = (uint32_t)meanings[found - letters];
    return true;
  }
  if (!read_hex(*at + 1, end, point)) return false;
  *at += 5;
  if (*point == 0 || (*point >= 0xdc00 && *point <= 0xdfff)) return false;
  if (*point < 0xd800 || *point > 0xdbff) return true;
  if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u' || !read_hex(*at + 2, end, &low)) return false;
  if (low < 0xdc00 || low > 0xdfff) return false;
  *at += 6;
  *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

/* Moves behind a string at `*at`; false if it is not valid. */
static bool check_string(const char **at, const char *end) {
  uint32_t point;
  if (*at == end || **at != '"') return false;
  ++*at;
  while (*at < end && **at != '"') {
    if (**at == '\\') {
      ++*at;
      if (!read_escape(at, end, &point)) return false;
    } else if (!tk_utf8_next(at, end, &point) || point < 0x20) {
      return false;
    }
  }
  if (*at == end) return false;
  ++*at;
  return true;
}

static bool skip_digits(const char **at, const char *end) {
  const char *start = *at;
  while (*at < end && is_digit(**at)) ++*at;
  return *at > start;
}

static bool check_number(const char **at, const char *end) {
  const char *start = *at, *whole;
  if (**at == '-') ++*at;
  whole = *at;
  if (!skip_digits(at, end) || (*whole == '0' && *at > whole + 1)) return false;
  if (*at < end && **at == '.') {
    ++*at;
    if (!skip_digits(at, end)) return false;
  }
  if (*at < end && (**at == 'e' || **at == 'E')) {
    ++*at;
    if (*at < end && (**at == '+' || **at == '-')) ++*at;
    if (!skip_digits(at, end)) return false;
  }
  return isfinite(tk_parse_number(start, (size_t)(*at - start)));
}

static bool check_word(const char **at, const char *end, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(end - *at) < length || memcmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

static bool is_repeated(const char *object, tk_json key) {
  tk_members members = {object + 1, key.data};
  tk_json earlier, value;
  while (members.at < key.data && tk_next_member(&members, &earlier, &value))
    if (tk_compare_strings(earlier, key) == 0) return true;
  return false;
}

/* Moves behind a value at `*at`; false if it is not valid. */
static bool check_value(const char **at, const char *end, int depth) {
  const char *start = *at;
  char close;
  if (start == end) return false;
  if (*start == '"') return check_string(at, end);
  if (*start == '-' || is_digit(*start)) return check_number(at, end);
  if (*start != '{' && *start != '[') return check_word(at, end, *start == 't' ? "true" : *start == 'f' ? "false" : "null");
  if (depth == TK_MAX_DEPTH) return false;
  close = *start == '{' ? '}' : ']';
  ++*at;
  skip_space(at, end);
  if (*at < end && **at == close) {
    ++*at;
    return true;
  }
  for (;;) {
    if (close == '}') {
      tk_json key;
      key.data = *at;
      if (!check_string(at, end)) return false;
      key.length = (size_t)(*at - key.data);
      if (is_repeated(start, key)) return false;
      skip_space(at, end);
      if (!check_word(at, end, ":")) return false;
      skip_space(at, end);
    }
    if (!check_value(at, end, depth + 1)) return false;
    skip_space(at, end);
    if (*at == end) return false;
    if (**at == close) break;
    if (**at != ',') return false;
    ++*at;
    skip_space(at, end);
  }
  ++*at;
  return true;
}

tk_result tk_json_check(const char *text, size_t length, tk_json *value) {
  const char *at = text, *end = text + length, *start;
  skip_space(&at, end);
  start = at;
  if (!check_value(&at, end, 0)) return TK_MALFORMED;
  value->data = start;
  value->length = (size_t)(at - start);
  skip_space(&at, end);
  return at == end ? TK_OK : TK_MALFORMED;
}

/* The functions below read texts that were checked. */

static void skip_string(const char **at) {
  for (++*at; **at != '"'; ++*at)
    if (**at == '\\') ++*at;
  ++*at;
}

static void skip_value(const char **at, const char *end) {
  int depth = 0;
  do {
    char c = **at;
    if (c == '"') {
      skip_string(at);
    } else if (c == '{' || c == '[') {
      depth++;
      ++*at;
    } else if (c == '}' || c == ']') {
      depth--;
      ++*at;
    } else if (depth > 0) {
      ++*at;
    } else {
      while (*at < end && **at != ',' && **at != '}' && **at != ']' && !is_space(**at)) ++*at;
    }
  } while (depth > 0);
}

tk_members tk_members_of(tk_json value) {
  tk_members members;
  members.at = value.data + 1;
  members.end = value.data + value.length;
  return members;
}

bool tk_next_element(tk_members *elements, tk_json *value) {
  skip_space(&elements->at, elements->end);
  if (elements->at < elements->end && *elements->at == ',') elements->at++;
  skip_space(&elements->at, elements->end);
  if (elements->at == elements->end || *elements->at == ']' || *elements->at == '}') return false;
  value->data = elements->at;
  skip_value(&elements->at, elements->end);
  value->length = (size_t)(elements->at - value->data);
  return true;
}

bool tk_next_member(tk_members *members, tk_json *key, tk_json *value) {
  if (!tk_next_element(members, key)) return false;
  skip_space(&members->at, members->end);
  members->at++; /* the colon */
  return tk_next_element(members, value);
}

tk_characters tk_characters_of(tk_json string) {
  tk_characters characters;
  characters.at = string.data + 1;
  characters.end = string.data + string.length - 1;
  return characters;
}

bool tk_next_character(tk_characters *characters, uint32_t *point) {
  if (characters->at >= characters->end) return false;
  if (*characters->at != '\\') return tk_utf8_next(&characters->at, characters->end, point);
  characters->at++;
  return read_escape(&characters->at, characters->end, point);
}

bool tk_json_is_object(tk_json value) { return value.length > 0 && value.data[0] == '{'; }

bool tk_json_is(tk_json value, const char *text) {
  tk_characters characters;
  const char *end = text + strlen(text);
  uint32_t point, expected;
  if (value.length == 0 || value.data[0] != '"') return false;
  characters = tk_characters_of(value);
  while (tk_next_character(&characters, &point))
    if (text == end || !tk_utf8_next(&text, end, &expected) || point != expected) return false;
  return text == end;
}

bool tk_json_member(tk_json object, const char *name, tk_json *value) {
  tk_members members;
  tk_json key;
  if (!tk_json_is_object(object)) return false;
  members = tk_members_of(object);
  while (tk_next_member(&members, &key, value))
    if (tk_json_is(key, name)) return true;
  return false;
}

bool tk_json_element(tk_json array, size_t index, tk_json *value) {
  tk_members elements;
  if (array.length == 0 || array.data[0] != '[') return false;
  elements = tk_members_of(array);
  while (tk_next_element(&elements, value))
    if (index-- == 0) return true;
  return false;
}

bool tk_json_number(tk_json value, double *number) {
  if (value.length == 0 || (value.data[0] != '-' && !is_digit(value.data[0]))) return false;
  *number = tk_parse_number(value.data, value.length);
  return true;
}

bool tk_json_count(tk_json value, uint64_t *count) {
  double number;
  if (!tk_json_number(value, &number) || !(number >= 0 && number <= MAX_COUNT)) return false;
  *count = (uint64_t)number;
  return (double)*count == number;
}

bool tk_json_boolean(tk_json value, bool *boolean) {
  if (value.length == 0 || (value.data[0] != 't' && value.data[0] != 'f')) return false;
  *boolean = value.data[0] == 't';
  return true;
}

bool tk_json_string(tk_json value, char *text, size_t capacity) {
  tk_characters characters;
  tk_writer writer;
  uint32_t point;
  if (value.length == 0 || value.data[0] != '"' || capacity == 0) return false;
  tk_writer_init(&writer, text, capacity);
  characters = tk_characters_of(value);
  while (tk_next_character(&characters, &point)) tk_put_character(&writer, point);
  return !writer.failed;
}
