#include <string.h>

#include "internal.h"

const char *tk_result_name(tk_result result) {
  switch (result) {
    case TK_OK: return "OK";
    case TK_NO_SPACE: return "NO_SPACE";
    case TK_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case TK_MALFORMED: return "MALFORMED";
    case TK_VERSION_UNSUPPORTED: return "VERSION_UNSUPPORTED";
    case TK_TYPE_MISMATCH: return "TYPE_MISMATCH";
    case TK_IDENTITY_MISMATCH: return "IDENTITY_MISMATCH";
    case TK_SESSION_MISMATCH: return "SESSION_MISMATCH";
    case TK_TIMESTAMP_SKEWED: return "TIMESTAMP_SKEWED";
    case TK_SIGNATURE_INVALID: return "SIGNATURE_INVALID";
    case TK_PAYLOAD_HASH_MISMATCH: return "PAYLOAD_HASH_MISMATCH";
    case TK_PAYLOAD_INVALID: return "PAYLOAD_INVALID";
  }
  return "UNKNOWN";
}

/* ---- Composing ---- */

#define MAX_COUNT UINT64_C(9007199254740991) /* 2^53 - 1 */

/* The texts of the envelope, in the order in which they are signed and named. */
typedef struct {
  const char *client_id;
  const char *message_id;
  const char *request_id;
  uint64_t sequence_number;
  uint64_t timestamp;
  const char *nonce;
  const char *type;
  const char *payload_hash;
} fields;

static bool is_field(const char *text) { return strlen(text) <= TK_MAX_FIELD && strchr(text, '|') == NULL; }

static void sign(const tk_device *device, const fields *f, char signature[TK_SIGNATURE_SIZE]) {
  char sequence[21], timestamp[21];
  const char *texts[11];
  uint8_t tag[32];
  tk_hmac hmac;
  size_t i;
  tk_decimal(f->sequence_number, sequence);
  tk_decimal(f->timestamp, timestamp);
  texts[0] = TK_PROTOCOL;
  texts[1] = device->device_id;
  texts[2] = device->tenant_id;
  texts[3] = f->client_id;
  texts[4] = f->message_id;
  texts[5] = f->request_id;
  texts[6] = sequence;
  texts[7] = timestamp;
  texts[8] = f->nonce;
  texts[9] = f->type;
  texts[10] = f->payload_hash;
  tk_hmac_init(&hmac, device->secret, strlen(device->secret));
  for (i = 0; i < 11; i++) {
    if (i > 0) tk_hmac_update(&hmac, "|", 1);
    tk_hmac_update(&hmac, texts[i], strlen(texts[i]));
  }
  tk_hmac_final(&hmac, tag);
  tk_base64url(tag, sizeof tag, signature);
}

static void hash_text(const char *text, size_t length, char hash[TK_HASH_SIZE]) {
  tk_sha256 state;
  uint8_t digest[32];
  tk_sha256_init(&state);
  tk_sha256_update(&state, text, length);
  tk_sha256_final(&state, digest);
  tk_hex(digest, sizeof digest, hash);
}

tk_result tk_session_open(const tk_device *device, uint64_t now, const uint8_t random[TK_NONCE_BYTES], tk_session *session) {
  char nonce[TK_NONCE_SIZE], timestamp[21], hash[TK_HASH_SIZE];
  tk_writer client;
  fields f;
  if (!is_field(device->device_id) || !is_field(device->tenant_id)) return TK_INVALID_ARGUMENT;
  tk_base64url(random, TK_NONCE_BYTES, nonce);
  tk_decimal(now, timestamp);
  tk_writer_init(&client, session->client_id, sizeof session->client_id);
  tk_put(&client, device->device_id);
  tk_put(&client, ".");
  tk_put(&client, timestamp);
  tk_put(&client, ".");
  tk_put(&client, nonce);
  if (client.failed) return TK_NO_SPACE;
  hash_text("{}", 2, hash);
  f.client_id = session->client_id;
  f.message_id = f.request_id = "";
  f.sequence_number = 0;
  f.timestamp = now;
  f.nonce = nonce;
  f.type = "session";
  f.payload_hash = hash;
  sign(device, &f, session->password);
  return TK_OK;
}

tk_result tk_topic(const tk_device *device, const char *channel, char *topic, size_t capacity) {
  tk_writer writer;
  if (capacity == 0) return TK_NO_SPACE;
  tk_writer_init(&writer, topic, capacity);
  tk_put(&writer, "proto/");
  tk_put(&writer, device->tenant_id);
  tk_put(&writer, "/device/");
  tk_put(&writer, device->device_id);
  tk_put(&writer, "/");
  tk_put(&writer, channel);
  return writer.failed ? TK_NO_SPACE : TK_OK;
}

static void put_member(tk_writer *writer, const char *name, const char *text) {
  tk_put_name(writer, name);
  tk_put_string(writer, text);
}

static void put_count(tk_writer *writer, const char *name, uint64_t number) {
  char text[21];
  tk_put_name(writer, name);
  tk_put_bytes(writer, text, tk_decimal(number, text));
}

tk_result tk_compose(const tk_device *device, const tk_session *session, const tk_message *message, char *text, size_t capacity,
                     size_t *length) {
  char nonce[TK_NONCE_SIZE], hash[TK_HASH_SIZE], signature[TK_SIGNATURE_SIZE];
  tk_writer writer;
  tk_json payload;
  fields f;
  if (capacity == 0) return TK_NO_SPACE;
  if (message->sequence_number > MAX_COUNT || message->timestamp > MAX_COUNT) return TK_INVALID_ARGUMENT;
  if (!is_field(device->device_id) || !is_field(device->tenant_id) || !is_field(message->message_id) || !is_field(message->type) ||
      message->message_id[0] == '\0')
    return TK_INVALID_ARGUMENT;
  if (tk_json_check(message->payload, message->payload_length, &payload) != TK_OK || !tk_json_is_object(payload)) return TK_INVALID_ARGUMENT;
  tk_base64url(message->random, TK_NONCE_BYTES, nonce);
  hash_text(payload.data, payload.length, hash);
  f.client_id = session->client_id;
  f.message_id = message->message_id;
  f.request_id = "";
  f.sequence_number = message->sequence_number;
  f.timestamp = message->timestamp;
  f.nonce = nonce;
  f.type = message->type;
  f.payload_hash = hash;
  sign(device, &f, signature);
  tk_writer_init(&writer, text, capacity);
  tk_put(&writer, "{");
  put_member(&writer, "version", TK_PROTOCOL);
  put_member(&writer, "device_id", device->device_id);
  put_member(&writer, "tenant_id", device->tenant_id);
  put_member(&writer, "client_id", f.client_id);
  put_member(&writer, "message_id", f.message_id);
  put_member(&writer, "request_id", f.request_id);
  put_count(&writer, "sequence_number", f.sequence_number);
  put_count(&writer, "timestamp", f.timestamp);
  put_member(&writer, "nonce", f.nonce);
  put_member(&writer, "message_type", f.type);
  put_member(&writer, "payload_hash", f.payload_hash);
  put_count(&writer, "key_version", device->key_version);
  put_member(&writer, "signature", signature);
  tk_put_name(&writer, "payload");
  tk_put_bytes(&writer, payload.data, payload.length);
  tk_put(&writer, "}");
  if (writer.failed) return TK_NO_SPACE;
  /* The payload is one level deeper in the envelope. */
  if (tk_json_check(text, writer.length, &payload) != TK_OK) return TK_INVALID_ARGUMENT;
  *length = writer.length;
  return TK_OK;
}

/* ---- Verifying ---- */

/* In the order in which they are signed. */
enum { VERSION, DEVICE_ID, TENANT_ID, CLIENT_ID, MESSAGE_ID, REQUEST_ID, SEQUENCE_NUMBER, TIMESTAMP, NONCE, MESSAGE_TYPE, PAYLOAD_HASH, FIELDS };

static const char *field_name(int field) {
  static const char names[FIELDS][16] = {"version",         "device_id", "tenant_id", "client_id",    "message_id",  "request_id",
                                            "sequence_number", "timestamp", "nonce",     "message_type", "payload_hash"};
  return names[field];
}

/* A string of at most TK_MAX_FIELD UTF-16 code units without `|`. */
static bool is_text_field(tk_json value) {
  tk_characters characters;
  uint32_t point;
  unsigned units = 0;
  if (value.data[0] != '"') return false;
  characters = tk_characters_of(value);
  while (tk_next_character(&characters, &point)) {
    units += point < 0x10000 ? 1 : 2;
    if (point == '|' || units > TK_MAX_FIELD) return false;
  }
  return true;
}

/* Whether two texts of one length are equal, in a time that depends on the length alone. */
static bool is_same(const char *a, const char *b, size_t length) {
  uint8_t differences = 0;
  size_t i;
  for (i = 0; i < length; i++) differences |= (uint8_t)(a[i] ^ b[i]);
  return differences == 0;
}

static bool has_signature(const tk_device *device, const tk_json f[FIELDS], uint64_t sequence_number, uint64_t timestamp, tk_json signature) {
  char expected[TK_SIGNATURE_SIZE], sent[TK_SIGNATURE_SIZE];
  uint8_t tag[32];
  tk_hmac hmac;
  tk_writer writer;
  int i;
  tk_hmac_init(&hmac, device->secret, strlen(device->secret));
  tk_writer_init(&writer, expected, sizeof expected);
  writer.hash = &hmac.inner;
  for (i = 0; i < FIELDS; i++) {
    if (i > 0) tk_put(&writer, "|");
    if (i == SEQUENCE_NUMBER || i == TIMESTAMP) {
      char text[21];
      tk_put_bytes(&writer, text, tk_decimal(i == TIMESTAMP ? timestamp : sequence_number, text));
    } else {
      tk_characters characters = tk_characters_of(f[i]);
      uint32_t point;
      while (tk_next_character(&characters, &point)) tk_put_character(&writer, point);
    }
  }
  tk_hmac_final(&hmac, tag);
  tk_base64url(tag, sizeof tag, expected);
  return tk_json_string(signature, sent, sizeof sent) && strlen(sent) == TK_SIGNATURE_SIZE - 1 &&
         is_same(sent, expected, TK_SIGNATURE_SIZE - 1);
}

static bool has_hash(tk_json payload, tk_json expected) {
  char hash[TK_HASH_SIZE];
  uint8_t digest[32];
  tk_sha256 state;
  tk_writer writer;
  tk_writer_init(&writer, hash, sizeof hash);
  tk_sha256_init(&state);
  writer.hash = &state;
  tk_put_canonical(&writer, payload);
  if (writer.failed) return false;
  tk_sha256_final(&state, digest);
  tk_hex(digest, sizeof digest, hash);
  return tk_json_is(expected, hash);
}

static bool string_member(tk_json object, const char *name, tk_json *value) {
  return tk_json_member(object, name, value) && value->data[0] == '"';
}

static bool count_member(tk_json object, const char *name, uint64_t *count) {
  tk_json value;
  return tk_json_member(object, name, &value) && tk_json_count(value, count);
}

static bool is_list_of_strings(tk_json value) {
  tk_members elements = tk_members_of(value);
  tk_json element;
  if (value.data[0] != '[') return false;
  while (tk_next_element(&elements, &element))
    if (element.data[0] != '"') return false;
  return true;
}

static bool read_payload(tk_received *received) {
  tk_json payload = received->payload, value;
  switch (received->kind) {
    case TK_COMMAND:
      return string_member(payload, "command_id", &received->as.command.command_id) &&
             string_member(payload, "action", &received->as.command.action) &&
             tk_json_member(payload, "params", &received->as.command.params) && tk_json_is_object(received->as.command.params) &&
             count_member(payload, "issued_at", &received->as.command.issued_at) &&
             count_member(payload, "expires_at", &received->as.command.expires_at);
    case TK_HELLO_ACK:
      return count_member(payload, "server_time", &received->as.hello_ack.server_time) &&
             count_member(payload, "last_sequence", &received->as.hello_ack.last_sequence) &&
             tk_json_member(payload, "heartbeat_s", &value) && tk_json_number(value, &received->as.hello_ack.heartbeat_s) &&
             received->as.hello_ack.heartbeat_s > 0 && count_member(payload, "key_version", &received->as.hello_ack.key_version) &&
             tk_json_member(payload, "cloud_public_keys", &value) && is_list_of_strings(value);
    case TK_REFUSAL:
      return string_member(payload, "code", &received->as.refusal.code) &&
             string_member(payload, "message_id", &received->as.refusal.message_id);
  }
  return false;
}

tk_result tk_verify(const tk_device *device, const tk_session *session, uint64_t now, const char *bytes, size_t length,
                    tk_received *received) {
  tk_json root, f[FIELDS], payload, value, signature;
  uint64_t sequence_number = 0, timestamp = 0, key_version;
  tk_received result;
  int i;
  if (tk_json_check(bytes, length, &root) != TK_OK || !tk_json_is_object(root)) return TK_MALFORMED;
  for (i = 0; i < FIELDS; i++) {
    if (!tk_json_member(root, field_name(i), &f[i])) return TK_MALFORMED;
    if (i == SEQUENCE_NUMBER || i == TIMESTAMP) {
      if (!tk_json_count(f[i], i == TIMESTAMP ? &timestamp : &sequence_number)) return TK_MALFORMED;
    } else if (!is_text_field(f[i])) {
      return TK_MALFORMED;
    }
  }
  if (tk_json_is(f[MESSAGE_ID], "")) return TK_MALFORMED;
  if (!tk_json_member(root, "payload", &payload) || !tk_json_is_object(payload)) return TK_MALFORMED;
  if (!tk_json_member(root, "key_version", &value) || !tk_json_count(value, &key_version) || key_version == 0) return TK_MALFORMED;
  if (!string_member(root, "signature", &signature)) return TK_MALFORMED;

  if (!tk_json_is(f[VERSION], TK_PROTOCOL)) return TK_VERSION_UNSUPPORTED;
  if (tk_json_is(f[MESSAGE_TYPE], "cmd")) {
    result.kind = TK_COMMAND;
  } else if (tk_json_is(f[MESSAGE_TYPE], "hello_ack")) {
    result.kind = TK_HELLO_ACK;
  } else if (tk_json_is(f[MESSAGE_TYPE], "error")) {
    result.kind = TK_REFUSAL;
  } else {
    return TK_TYPE_MISMATCH;
  }
  if (!tk_json_is(f[TENANT_ID], device->tenant_id) || !tk_json_is(f[DEVICE_ID], device->device_id)) return TK_IDENTITY_MISMATCH;
  if (!tk_json_is(f[CLIENT_ID], session->client_id)) return TK_SESSION_MISMATCH;
  if ((now > timestamp ? now - timestamp : timestamp - now) > TK_MESSAGE_SKEW_MS) return TK_TIMESTAMP_SKEWED;
  if (!has_signature(device, f, sequence_number, timestamp, signature)) return TK_SIGNATURE_INVALID;
  if (!has_hash(payload, f[PAYLOAD_HASH])) return TK_PAYLOAD_HASH_MISMATCH;
  result.sequence_number = sequence_number;
  result.timestamp = timestamp;
  result.payload = payload;
  if (!read_payload(&result)) return TK_PAYLOAD_INVALID;
  *received = result;
  return TK_OK;
}

bool tk_window_accept(tk_window *window, uint64_t sequence_number) {
  uint64_t age;
  if (sequence_number == 0) return false;
  if (sequence_number > window->highest) {
    uint64_t rise = sequence_number - window->highest;
    window->seen = rise < 64 ? window->seen << rise | 1 : 1;
    window->highest = sequence_number;
    return true;
  }
  age = window->highest - sequence_number;
  if (age >= 64 || (window->seen >> age & 1) != 0) return false;
  window->seen |= (uint64_t)1 << age;
  return true;
}
