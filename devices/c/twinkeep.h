/*
 * The core of a Twinkeep device in C99: PROTO/3.1 messages with HMAC-SHA-256 (docs/devices.md).
 *
 * The core only computes. It allocates no memory, has no global or static variables, calls no operating system, and is
 * thread-safe if two threads do not use one object at once. The caller brings the MQTT 3.1.1 connection, the time, random bytes
 * and the memory of the sequence number.
 *
 * From the C library it uses memcpy, memmove, memcmp, memset, strlen, snprintf (for `%.*e` only) and strtod. A `double` must
 * be IEEE 754 binary64. The result does not depend on the locale. Verifying
 * needs about 2.5 KiB of stack on 64-bit machines, and 160 bytes more for each level of nesting of the payload, besides the stack of
 * strtod and snprintf.
 */
#ifndef TWINKEEP_H
#define TWINKEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TK_PROTOCOL "PROTO/3.1"
/* Nesting of objects and arrays that the service accepts and sends; the root is the first level. */
#define TK_MAX_DEPTH 32
/* Characters of a field of the envelope. */
#define TK_MAX_FIELD 256
/* How far the time of a message from the service may be off, in milliseconds. */
#define TK_MESSAGE_SKEW_MS 300000

/* Sizes of texts, with their final zero. */
#define TK_UUID_SIZE 37
#define TK_NONCE_SIZE 17
#define TK_SIGNATURE_SIZE 44
#define TK_HASH_SIZE 65
#define TK_CLIENT_ID_SIZE 128
/* Bytes of a random value: of a nonce, and of a message id. */
#define TK_NONCE_BYTES 12
#define TK_UUID_BYTES 16
/* Bytes of tk_compose's result besides the payload, if ids have the service's lengths (a UUID each). */
#define TK_ENVELOPE_OVERHEAD 768

/* Why a function failed. The names of refusals are those of the service. */
typedef enum {
  TK_OK = 0,
  /* The result does not fit into the memory that the caller gave. */
  TK_NO_SPACE,
  /* An argument cannot be sent: a field with `|` or with more than TK_MAX_FIELD bytes, a payload that is not a JSON object. */
  TK_INVALID_ARGUMENT,
  TK_MALFORMED,
  TK_VERSION_UNSUPPORTED,
  TK_TYPE_MISMATCH,
  TK_IDENTITY_MISMATCH,
  TK_SESSION_MISMATCH,
  TK_TIMESTAMP_SKEWED,
  TK_SIGNATURE_INVALID,
  TK_PAYLOAD_HASH_MISMATCH,
  /* The message is genuine, but a member of its payload is missing or has another type. */
  TK_PAYLOAD_INVALID
} tk_result;

/* The code as text, for a log: "SIGNATURE_INVALID". */
const char *tk_result_name(tk_result result);

/* ---- SHA-256 (FIPS 180-4) and HMAC (RFC 2104) ---- */

typedef struct {
  uint32_t state[8];
  uint64_t length;
  uint8_t block[64];
} tk_sha256;

void tk_sha256_init(tk_sha256 *hash);
void tk_sha256_update(tk_sha256 *hash, const void *data, size_t length);
void tk_sha256_final(tk_sha256 *hash, uint8_t digest[32]);

typedef struct {
  tk_sha256 inner;
  tk_sha256 outer;
} tk_hmac;

void tk_hmac_init(tk_hmac *hmac, const void *key, size_t key_length);
void tk_hmac_update(tk_hmac *hmac, const void *data, size_t length);
void tk_hmac_final(tk_hmac *hmac, uint8_t tag[32]);

/* base64url without padding (RFC 4648, section 5), with a final zero: (length * 4 + 2) / 3 + 1 bytes. */
void tk_base64url(const uint8_t *data, size_t length, char *text);
/* Lower-case hex with a final zero: length * 2 + 1 bytes. */
void tk_hex(const uint8_t *data, size_t length, char *text);
/* A random UUID (RFC 9562, version 4) from random bytes. */
void tk_uuid(const uint8_t random[TK_UUID_BYTES], char uuid[TK_UUID_SIZE]);

/* ---- Writing JSON ---- */

/* Text in the caller's memory, always with a final zero. After a failure nothing more is written. */
typedef struct {
  char *data;
  size_t capacity;
  /* Without the final zero. */
  size_t length;
  /* A text did not fit or cannot be written. Check it once, at the end. */
  bool failed;
  /* Private: receives the text instead of `data`. */
  tk_sha256 *hash;
} tk_writer;

/* `capacity` is at least 1. */
void tk_writer_init(tk_writer *writer, char *data, size_t capacity);
/* Text as it stands. */
void tk_put(tk_writer *writer, const char *text);
void tk_put_bytes(tk_writer *writer, const char *text, size_t length);
/* A string in quotes, escaped as RFC 8785 does. Fails if it is not valid UTF-8. */
void tk_put_string(tk_writer *writer, const char *utf8);
/* A number as ECMAScript and RFC 8785 write it: the shortest digits that give the same double; `25`, not `25.0`. Fails for
 * NaN and infinity. */
void tk_put_number(tk_writer *writer, double number);
void tk_put_integer(tk_writer *writer, int64_t number);
/* `"name":`, after a comma unless it is the first member of its object. */
void tk_put_name(tk_writer *writer, const char *name);

/* ---- Reading JSON ---- */

/* A value in a text that tk_json_check has accepted. It is valid as long as the text. */
typedef struct {
  const char *data;
  size_t length;
} tk_json;

/*
 * Checks a JSON text (RFC 8259) as strictly as the service: valid UTF-8, no repeated key, no U+0000 and no lone surrogate in a string,
 * no number out of the range of a double, at most TK_MAX_DEPTH levels. White space around the value is not part of `value`.
 */
tk_result tk_json_check(const char *text, size_t length, tk_json *value);

/* False if the value is not an object, or has no such member. */
bool tk_json_member(tk_json object, const char *name, tk_json *value);
/* False if the value is not an array, or has no such element. `index` is from 0. */
bool tk_json_element(tk_json array, size_t index, tk_json *value);
bool tk_json_number(tk_json value, double *number);
/* A whole number from 0 to 2^53 - 1; false for other values. */
bool tk_json_count(tk_json value, uint64_t *count);
bool tk_json_boolean(tk_json value, bool *boolean);
/* The characters of a string, in UTF-8, with a final zero; false if the value is not a string or does not fit. */
bool tk_json_string(tk_json value, char *text, size_t capacity);
/* Whether the value is this string. */
bool tk_json_is(tk_json value, const char *text);
bool tk_json_is_object(tk_json value);

/* The RFC 8785 (JCS) form of a value: sorted keys, no white space, numbers as tk_put_number writes them. */
void tk_put_canonical(tk_writer *writer, tk_json value);

/* ---- Messages ---- */

/* The answer of the registration or of the last rotation. The core keeps no copy. */
typedef struct {
  const char *tenant_id;
  const char *device_id;
  /* `device_secret` or `new_secret`, as it stands. */
  const char *secret;
  /* Of that secret; from 1. */
  uint32_t key_version;
} tk_device;

/* Credentials of one MQTT connection. The user name is the tenant's id; the session is clean. */
typedef struct {
  char client_id[TK_CLIENT_ID_SIZE];
  char password[TK_SIGNATURE_SIZE];
} tk_session;

/* Credentials of the next connection. Each is accepted once. `now` is epoch milliseconds, within two minutes of the service's time. */
tk_result tk_session_open(const tk_device *device, uint64_t now, const uint8_t random[TK_NONCE_BYTES], tk_session *session);

/* `proto/<tenant_id>/device/<device_id>/<channel>`. Channels: hello, heartbeat, state and cmd_ack to publish on, cmd to subscribe to. */
tk_result tk_topic(const tk_device *device, const char *channel, char *topic, size_t capacity);

typedef struct {
  /* The channel: "hello", "heartbeat", "state" or "cmd_ack". */
  const char *type;
  /* A new one for each message, the same one if a message is sent again; tk_uuid makes one. */
  const char *message_id;
  /*
   * The caller keeps it: from `initial_sequence` of the registration, one more for each message, the same one if a message is
   * sent again. `hello` may have any number, and its answer has the highest one that was accepted.
   */
  uint64_t sequence_number;
  /* Epoch milliseconds. */
  uint64_t timestamp;
  const uint8_t *random; /* TK_NONCE_BYTES fresh random bytes */
  /* A JSON object, written in any way: its hash is over these bytes. */
  const char *payload;
  size_t payload_length;
} tk_message;

/*
 * Composes and signs a message to publish with QoS 1. `length` is without the final zero. TK_INVALID_ARGUMENT for a field that
 * is too long or has `|`, a number above 2^53 - 1, and a payload that is no JSON object or nested too deeply for the service.
 */
tk_result tk_compose(const tk_device *device, const tk_session *session, const tk_message *message, char *text, size_t capacity,
                     size_t *length);

typedef enum { TK_COMMAND, TK_HELLO_ACK, TK_REFUSAL } tk_kind;

/* A message of the service. Its texts are in the memory of the received bytes. */
typedef struct {
  tk_kind kind;
  uint64_t sequence_number;
  uint64_t timestamp;
  tk_json payload;
  union {
    struct {
      tk_json command_id;
      tk_json action;
      /* An object. */
      tk_json params;
      /* Epoch milliseconds. Do not start the command at or after `expires_at`. */
      uint64_t issued_at;
      uint64_t expires_at;
    } command;
    struct {
      /* Epoch milliseconds. */
      uint64_t server_time;
      /* Continue with the next number. */
      uint64_t last_sequence;
      double heartbeat_s;
      uint64_t key_version;
    } hello_ack;
    struct {
      tk_json code;
      tk_json message_id;
    } refusal;
  } as;
} tk_received;

/*
 * Verifies a message that arrived on `cmd`, in the order of the service's checks. `now` is epoch milliseconds. `received` is set only
 * if the result is TK_OK. The caller then checks the sequence number with tk_window_accept, and whether it has had the command
 * before: one is sent again in a later session until it is acknowledged.
 */
tk_result tk_verify(const tk_device *device, const tk_session *session, uint64_t now, const char *bytes, size_t length,
                    tk_received *received);

/* Sequence numbers of the service that were received in one connection. All zeros at its start. */
typedef struct {
  uint64_t highest;
  uint64_t seen;
} tk_window;

/* True once for each number, unless 64 or more below the highest one. */
bool tk_window_accept(tk_window *window, uint64_t sequence_number);

#ifdef __cplusplus
}
#endif

#endif
