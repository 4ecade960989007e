/*
 * A light with the core and Paho's MQTT client for C (Debian: libpaho-mqtt-dev). In devices/c:
 *
 *   gcc -std=c99 -O2 -I. -o light examples/paho/light.c *.c -lpaho-mqtt3c
 *   HOST=127.0.0.1 PORT=1883 DEVICE_ID=... TENANT_ID=... KEY_FILE=light.json ./light
 *
 * KEY_FILE is the answer of the registration; after a rotation it also has `new_secret` and the next `key_version`. It is read
 * for each connection, and looked at once a second. SIGTERM ends the program.
 */
#define _POSIX_C_SOURCE 200809L

#include <MQTTClient.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "twinkeep.h"

#define RETRY_S 1
#define HEARTBEAT_S 60
#define TIMEOUT_MS 10000L
/* Commands whose outcome is remembered: the service sends one again until it is acknowledged. */
#define REMEMBERED 32
/* Commands that can wait for the answer to hello: the service sends pending ones as soon as it grants the subscription. */
#define HELD 16

typedef struct {
  char id[TK_UUID_SIZE];
  char acknowledgement[512];
} outcome;

typedef struct {
  tk_device device;
  char secret[128];
  tk_session session;
  tk_window window;
  MQTTClient client;
  uint64_t sequence_number;
  bool ready;
  bool on;
  double brightness;
  MQTTClient_message *held[HELD];
  unsigned held_count;
  outcome outcomes[REMEMBERED];
  unsigned next_outcome;
} light;

static volatile sig_atomic_t ended;
static void end(int signal_number) {
  (void)signal_number;
  ended = 1;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void fill_random(uint8_t *bytes, size_t length) {
  FILE *source = fopen("/dev/urandom", "rb");
  if (source == NULL || fread(bytes, 1, length, source) != length) {
    fputs("/dev/urandom cannot be read\n", stderr);
    exit(1);
  }
  fclose(source);
}

static void pause_for(long ms) {
  struct timespec time;
  time.tv_sec = ms / 1000;
  time.tv_nsec = ms % 1000 * 1000000;
  nanosleep(&time, NULL);
}

/* The last key of the file; false if the file cannot be read. */
static bool read_key(const char *path, char *secret, size_t capacity, uint32_t *key_version) {
  char text[8192];
  tk_json root, value;
  uint64_t version;
  size_t length;
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  length = fread(text, 1, sizeof text, file);
  fclose(file);
  if (tk_json_check(text, length, &root) != TK_OK) return false;
  if (!tk_json_member(root, "new_secret", &value) && !tk_json_member(root, "device_secret", &value)) return false;
  if (!tk_json_string(value, secret, capacity)) return false;
  if (!tk_json_member(root, "key_version", &value) || !tk_json_count(value, &version)) return false;
  *key_version = (uint32_t)version;
  return true;
}

/* Publishes with QoS 1 and waits for the PUBACK. */
static bool publish(light *l, const char *type, const char *payload) {
  char text[2048], topic[256], message_id[TK_UUID_SIZE];
  uint8_t random[TK_NONCE_BYTES], id_random[TK_UUID_BYTES];
  MQTTClient_deliveryToken token;
  tk_message message;
  size_t length;
  fill_random(random, sizeof random);
  fill_random(id_random, sizeof id_random);
  tk_uuid(id_random, message_id);
  if (strcmp(type, "hello") != 0) l->sequence_number++;
  message.type = type;
  message.message_id = message_id;
  message.sequence_number = l->sequence_number;
  message.timestamp = now();
  message.random = random;
  message.payload = payload;
  message.payload_length = strlen(payload);
  if (tk_compose(&l->device, &l->session, &message, text, sizeof text, &length) != TK_OK) return false;
  if (tk_topic(&l->device, type, topic, sizeof topic) != TK_OK) return false;
  if (MQTTClient_publish(l->client, topic, (int)length, text, 1, 0, &token) != MQTTCLIENT_SUCCESS) return false;
  return MQTTClient_waitForCompletion(l->client, token, TIMEOUT_MS) == MQTTCLIENT_SUCCESS;
}

static void put_state(tk_writer *writer, const light *l) {
  tk_put_name(writer, "state");
  tk_put(writer, "{");
  tk_put_name(writer, "on");
  tk_put(writer, l->on ? "true" : "false");
  tk_put_name(writer, "brightness");
  tk_put_number(writer, l->brightness);
  tk_put(writer, "}");
}

static bool carry_out(light *l, const tk_received *command) {
  tk_json level;
  if (tk_json_is(command->as.command.action, "turn_on")) {
    l->on = true;
  } else if (tk_json_is(command->as.command.action, "turn_off")) {
    l->on = false;
  } else if (tk_json_is(command->as.command.action, "set_brightness") &&
             tk_json_member(command->as.command.params, "level", &level) && tk_json_number(level, &l->brightness)) {
    l->on = true;
  } else {
    return false;
  }
  return true;
}

static bool acknowledge(light *l, const char *command_id, const char *status, bool with_state, const char *error, char *text,
                        size_t capacity) {
  tk_writer writer;
  tk_writer_init(&writer, text, capacity);
  tk_put(&writer, "{");
  tk_put_name(&writer, "command_id");
  tk_put_string(&writer, command_id);
  tk_put_name(&writer, "status");
  tk_put_string(&writer, status);
  if (with_state) put_state(&writer, l);
  if (error != NULL) {
    tk_put_name(&writer, "error");
    tk_put_string(&writer, error);
  }
  tk_put(&writer, "}");
  return !writer.failed && publish(l, "cmd_ack", text);
}

static void receive_command(light *l, const tk_received *command) {
  char id[TK_UUID_SIZE], accepted[256];
  outcome *entry;
  unsigned i;
  bool done;
  if (!tk_json_string(command->as.command.command_id, id, sizeof id)) return;
  for (i = 0; i < REMEMBERED; i++) {
    if (strcmp(l->outcomes[i].id, id) == 0) {
      publish(l, "cmd_ack", l->outcomes[i].acknowledgement);
      return;
    }
  }
  if (now() >= command->as.command.expires_at) return;
  acknowledge(l, id, "accepted", false, NULL, accepted, sizeof accepted);
  done = carry_out(l, command);
  entry = &l->outcomes[l->next_outcome++ % REMEMBERED];
  strcpy(entry->id, id);
  acknowledge(l, id, done ? "succeeded" : "failed", done, done ? NULL : "unknown action", entry->acknowledgement,
              sizeof entry->acknowledgement);
}

/* Carries out a verified message; returns false if it has to wait for the answer to hello, which has the sequence number. */
static bool receive(light *l, const MQTTClient_message *message) {
  tk_received received;
  char code[64];
  tk_result result = tk_verify(&l->device, &l->session, now(), message->payload, (size_t)message->payloadlen, &received);
  if (result != TK_OK) {
    fprintf(stderr, "message ignored: %s\n", tk_result_name(result));
  } else if (received.kind == TK_COMMAND && !l->ready) {
    return false;
  } else if (!tk_window_accept(&l->window, received.sequence_number)) {
    fputs("message ignored: it was received before\n", stderr);
  } else if (received.kind == TK_HELLO_ACK) {
    l->sequence_number = received.as.hello_ack.last_sequence;
    l->ready = true;
  } else if (received.kind == TK_COMMAND) {
    receive_command(l, &received);
  } else if (tk_json_string(received.as.refusal.code, code, sizeof code)) {
    fprintf(stderr, "message refused: %s\n", code);
  }
  return true;
}

/* The commands that have waited, in their order. */
static void receive_held(light *l) {
  unsigned i;
  for (i = 0; i < l->held_count; i++) {
    if (l->ready) (void)receive(l, l->held[i]);
    MQTTClient_freeMessage(&l->held[i]);
  }
  l->held_count = 0;
}

static bool connect_light(light *l, const char *uri) {
  MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer;
  uint8_t random[TK_NONCE_BYTES];
  char topic[256];
  fill_random(random, sizeof random);
  if (tk_session_open(&l->device, now(), random, &l->session) != TK_OK) return false;
  memset(&l->window, 0, sizeof l->window);
  l->ready = false;
  if (MQTTClient_create(&l->client, uri, l->session.client_id, MQTTCLIENT_PERSISTENCE_NONE, NULL) != MQTTCLIENT_SUCCESS) return false;
  options.keepAliveInterval = 30;
  options.cleansession = 1;
  options.MQTTVersion = MQTTVERSION_3_1_1;
  options.username = l->device.tenant_id;
  options.password = l->session.password;
  return MQTTClient_connect(l->client, &options) == MQTTCLIENT_SUCCESS && tk_topic(&l->device, "cmd", topic, sizeof topic) == TK_OK &&
         MQTTClient_subscribe(l->client, topic, 1) == MQTTCLIENT_SUCCESS &&
         publish(l, "hello", "{\"protocol\": \"PROTO/3.1\", \"firmware\": \"1.0.0\"}");
}

static bool has_other_key(const light *l, const char *key_file) {
  char secret[sizeof l->secret];
  uint32_t key_version;
  return read_key(key_file, secret, sizeof secret, &key_version) && key_version != l->device.key_version;
}

/* One connection, until it is lost, the key has changed, or the program ends. */
static void run(light *l, const char *uri, const char *key_file) {
  uint64_t opened = now(), reported = 0;
  if (!connect_light(l, uri)) return;
  while (!ended && MQTTClient_isConnected(l->client) && !has_other_key(l, key_file)) {
    MQTTClient_message *message = NULL;
    char *topic = NULL;
    int length;
    int result = MQTTClient_receive(l->client, &topic, &length, &message, 1000);
    if (result != MQTTCLIENT_SUCCESS && result != MQTTCLIENT_TOPICNAME_TRUNCATED) return;
    if (message != NULL) {
      MQTTClient_free(topic);
      if (receive(l, message) || l->held_count == HELD)
        MQTTClient_freeMessage(&message);
      else
        l->held[l->held_count++] = message;
      if (l->ready) receive_held(l);
    }
    if (!l->ready) {
      if (now() - opened > TIMEOUT_MS) return;
    } else if (reported == 0) {
      char state[256];
      tk_writer writer;
      tk_writer_init(&writer, state, sizeof state);
      tk_put(&writer, "{");
      put_state(&writer, l);
      tk_put_name(&writer, "full");
      tk_put(&writer, "true}");
      if (writer.failed || !publish(l, "state", state)) return;
      reported = now();
    } else if (now() - reported > HEARTBEAT_S * 1000) {
      if (!publish(l, "heartbeat", "{}")) return;
      reported = now();
    }
  }
}

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  if (value == NULL) value = otherwise;
  if (value == NULL) {
    fprintf(stderr, "%s is not set\n", name);
    exit(1);
  }
  return value;
}

int main(void) {
  static light l;
  const char *key_file = setting("KEY_FILE", NULL);
  struct sigaction action;
  char uri[256];
  memset(&action, 0, sizeof action);
  action.sa_handler = end;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  snprintf(uri, sizeof uri, "tcp://%s:%s", setting("HOST", "127.0.0.1"), setting("PORT", "1883"));
  l.device.tenant_id = setting("TENANT_ID", NULL);
  l.device.device_id = setting("DEVICE_ID", NULL);
  l.device.secret = l.secret;
  while (!ended) {
    if (!read_key(key_file, l.secret, sizeof l.secret, &l.device.key_version)) {
      fputs("KEY_FILE cannot be read\n", stderr);
    } else {
      run(&l, uri, key_file);
      l.ready = false;
      receive_held(&l);
      if (l.client != NULL) {
        MQTTClient_disconnect(l.client, 1000);
        MQTTClient_destroy(&l.client);
      }
      l.client = NULL;
    }
    if (!ended) pause_for(RETRY_S * 1000L);
  }
  return 0;
}
