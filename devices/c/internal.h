/* Functions that the parts of the core share. */
#ifndef TWINKEEP_INTERNAL_H
#define TWINKEEP_INTERNAL_H

#include "twinkeep.h"

/* A number in decimal with a final zero; its length. */
size_t tk_decimal(uint64_t number, char text[21]);
/* The double nearest to a valid JSON number; infinity if it is too large. */
double tk_parse_number(const char *text, size_t length);
/* A character of valid UTF-8 at `at`, which is moved behind it; false at the first byte of one that is not valid. */
bool tk_utf8_next(const char **at, const char *end, uint32_t *point);

/* The characters of a JSON string, one after another. */
typedef struct {
  const char *at;
  const char *end;
} tk_characters;

/* Of a string that tk_json_check has accepted. */
tk_characters tk_characters_of(tk_json string);
/* False at the end. */
bool tk_next_character(tk_characters *characters, uint32_t *point);
/* -1, 0 or 1, in the order of their UTF-16 code units. */
int tk_compare_strings(tk_json a, tk_json b);

/* The members of an object or the elements of an array, one after another. */
typedef struct {
  const char *at;
  const char *end;
} tk_members;

/* Of an object or array that tk_json_check has accepted. */
tk_members tk_members_of(tk_json value);
bool tk_next_member(tk_members *members, tk_json *key, tk_json *value);
bool tk_next_element(tk_members *elements, tk_json *value);

/* A character in UTF-8. */
void tk_put_character(tk_writer *writer, uint32_t point);

#endif
