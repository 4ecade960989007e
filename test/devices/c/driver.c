/*
 * Calls the core for test/devices/c/core.test.ts: reads a line with the name of a function and its arguments, and
 * writes a line with the result. Each argument and result is in hex; `-` is an empty one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../devices/c/twinkeep.h"

#define MOST 16

typedef struct {
  uint8_t *bytes;
  size_t length;
} argument;

static unsigned hex_digit(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* In memory of exactly its size, so that the sanitizer finds reads behind it. */
static argument read_argument(const char *hex, bool as_text) {
  argument read;
  size_t i;
  read.length = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
  read.bytes = malloc(read.length + (as_text || read.length == 0 ? 1 : 0));
  for (i = 0; i < read.length; i++) read.bytes[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
  if (as_text) read.bytes[read.length] = 0;
  return read;
}

static void write_hex(const char *bytes, size_t length) {
  size_t i;
  if (length == 0) fputs("-", stdout);
  for (i = 0; i < length; i++) printf("%02x", (unsigned)(uint8_t)bytes[i]);
}

static void write_writer(const tk_writer *writer) {
  if (writer->failed)
    fputs("failed", stdout);
  else
    write_hex(writer->data, writer->length);
}

static void write_json(tk_json value) {
  fputs(" ", stdout);
  write_hex(value.data, value.length);
}

static void run(int count, char **words) {
  static char memory[1 << 18];
  const char *name = words[0];
  bool text = strcmp(name, "canonical") != 0 && strcmp(name, "sha256") != 0 && strcmp(name, "hmac") != 0 && strcmp(name, "verify") != 0;
  argument a[MOST];
  const char *t[MOST];
  tk_writer writer;
  int i;
  for (i = 1; i < count; i++) {
    /* The message to verify is bytes, the other arguments of it are texts. */
    a[i] = read_argument(words[i], text || (strcmp(name, "verify") == 0 && i < 6));
    t[i] = (const char *)a[i].bytes;
  }
  tk_writer_init(&writer, memory, sizeof memory);
  if (strcmp(name, "number") == 0) {
    uint64_t bits = strtoull(t[1], NULL, 16);
    double number;
    memcpy(&number, &bits, sizeof number);
    tk_put_number(&writer, number);
    write_writer(&writer);
  } else if (strcmp(name, "parse") == 0) {
    tk_json value;
    double number;
    uint64_t bits;
    if (tk_json_check(t[1], a[1].length, &value) != TK_OK || !tk_json_number(value, &number)) {
      fputs("failed", stdout);
    } else {
      memcpy(&bits, &number, sizeof bits);
      printf("%016" PRIx64, bits);
    }
  } else if (strcmp(name, "string") == 0) {
    tk_put_string(&writer, t[1]);
    write_writer(&writer);
  } else if (strcmp(name, "integer") == 0) {
    tk_put_integer(&writer, strtoll(t[1], NULL, 10));
    write_writer(&writer);
  } else if (strcmp(name, "decoded") == 0) {
    tk_json value;
    size_t capacity = strtoull(t[2], NULL, 10);
    char *decoded = malloc(capacity);
    if (tk_json_check(t[1], a[1].length, &value) == TK_OK && tk_json_string(value, decoded, capacity))
      write_hex(decoded, strlen(decoded));
    else
      fputs("failed", stdout);
    free(decoded);
  } else if (strcmp(name, "canonical") == 0) {
    tk_json value;
    if (tk_json_check(t[1], a[1].length, &value) == TK_OK)
      tk_put_canonical(&writer, value);
    else
      writer.failed = true;
    write_writer(&writer);
  } else if (strcmp(name, "sha256") == 0) {
    tk_sha256 hash;
    uint8_t digest[32];
    size_t at = 0, part = 1;
    tk_sha256_init(&hash);
    /* In parts of growing length. */
    for (; at + part < a[1].length; at += part, part = part * 2 + 1) tk_sha256_update(&hash, a[1].bytes + at, part);
    tk_sha256_update(&hash, a[1].bytes + at, a[1].length - at);
    tk_sha256_final(&hash, digest);
    write_hex((const char *)digest, sizeof digest);
  } else if (strcmp(name, "repeated") == 0) {
    /* The SHA-256 of one byte, so many times. */
    tk_sha256 hash;
    uint8_t digest[32];
    size_t left = strtoull(t[2], NULL, 10);
    tk_sha256_init(&hash);
    for (; left > 0; left--) tk_sha256_update(&hash, a[1].bytes, 1);
    tk_sha256_final(&hash, digest);
    write_hex((const char *)digest, sizeof digest);
  } else if (strcmp(name, "hmac") == 0) {
    tk_hmac hmac;
    uint8_t tag[32];
    tk_hmac_init(&hmac, a[1].bytes, a[1].length);
    tk_hmac_update(&hmac, a[2].bytes, a[2].length);
    tk_hmac_final(&hmac, tag);
    write_hex((const char *)tag, sizeof tag);
  } else if (strcmp(name, "base64url") == 0) {
    char *encoded = malloc((a[1].length * 4 + 2) / 3 + 1);
    tk_base64url(a[1].bytes, a[1].length, encoded);
    write_hex(encoded, strlen(encoded));
    free(encoded);
  } else if (strcmp(name, "uuid") == 0) {
    char uuid[TK_UUID_SIZE];
    tk_uuid(a[1].bytes, uuid);
    write_hex(uuid, strlen(uuid));
  } else if (strcmp(name, "window") == 0) {
    tk_window window = {0, 0};
    for (i = 1; i < count; i++) fputs(tk_window_accept(&window, strtoull(t[i], NULL, 10)) ? "1" : "0", stdout);
  } else if (strcmp(name, "element") == 0) {
    tk_json value, element;
    if (tk_json_check(t[1], a[1].length, &value) == TK_OK && tk_json_element(value, strtoull(t[2], NULL, 10), &element))
      write_hex(element.data, element.length);
    else
      fputs("failed", stdout);
  } else {
    /* tenant_id, device_id, secret, then as the function takes them. */
    tk_device device;
    tk_session session;
    tk_result result;
    device.tenant_id = t[1];
    device.device_id = t[2];
    device.secret = t[3];
    device.key_version = 1;
    if (strcmp(name, "session") == 0) {
      result = tk_session_open(&device, strtoull(t[4], NULL, 10), a[5].bytes, &session);
      fputs(tk_result_name(result), stdout);
      if (result == TK_OK) {
        fputs(" ", stdout);
        write_hex(session.client_id, strlen(session.client_id));
        fputs(" ", stdout);
        write_hex(session.password, strlen(session.password));
      }
    } else if (strcmp(name, "topic") == 0) {
      size_t capacity = strtoull(t[5], NULL, 10);
      char *topic = malloc(capacity);
      result = tk_topic(&device, t[4], topic, capacity);
      fputs(tk_result_name(result), stdout);
      if (result == TK_OK) {
        fputs(" ", stdout);
        write_hex(topic, strlen(topic));
      }
      free(topic);
    } else if (strcmp(name, "compose") == 0) {
      tk_message message;
      size_t capacity = strtoull(t[11], NULL, 10), length;
      char *composed = malloc(capacity);
      strcpy(session.client_id, t[4]);
      message.type = t[5];
      message.message_id = t[6];
      message.sequence_number = strtoull(t[7], NULL, 10);
      message.timestamp = strtoull(t[8], NULL, 10);
      message.random = a[9].bytes;
      message.payload = t[10];
      message.payload_length = a[10].length;
      result = tk_compose(&device, &session, &message, composed, capacity, &length);
      fputs(tk_result_name(result), stdout);
      if (result == TK_OK) {
        fputs(" ", stdout);
        write_hex(composed, length);
      }
      free(composed);
    } else {
      tk_received received;
      strcpy(session.client_id, t[4]);
      result = tk_verify(&device, &session, strtoull(t[5], NULL, 10), t[6], a[6].length, &received);
      fputs(tk_result_name(result), stdout);
      if (result == TK_OK) {
        printf(" %" PRIu64 " %" PRIu64, received.sequence_number, received.timestamp);
        write_json(received.payload);
        if (received.kind == TK_COMMAND) {
          write_json(received.as.command.command_id);
          write_json(received.as.command.action);
          write_json(received.as.command.params);
          printf(" %" PRIu64 " %" PRIu64, received.as.command.issued_at, received.as.command.expires_at);
        } else if (received.kind == TK_HELLO_ACK) {
          printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, received.as.hello_ack.server_time, received.as.hello_ack.last_sequence,
                 received.as.hello_ack.key_version);
        } else {
          write_json(received.as.refusal.code);
          write_json(received.as.refusal.message_id);
        }
      }
    }
  }
  for (i = 1; i < count; i++) free(a[i].bytes);
}

int main(void) {
  static char line[1 << 20];
  while (fgets(line, sizeof line, stdin) != NULL) {
    char *words[MOST];
    int count = 0;
    char *word = strtok(line, " \n");
    for (; word != NULL && count < MOST; word = strtok(NULL, " \n")) words[count++] = word;
    run(count, words);
    fputs("\n", stdout);
    fflush(stdout);
  }
  return 0;
}
