/*
 * A light on an ESP32 with ESP-IDF 5.1 to 5.5: the LED on GPIO 2. In devices/c/examples/esp32:
 *
 *   idf.py set-target esp32 && idf.py flash monitor
 *
 * The flash keeps Wi-Fi, identity and key (NVS, namespace `twinkeep`): write them with `nvs_partition_gen.py`, or on the
 * serial console, a line for each: `set ssid ...`, and the same for `password`, `uri` (mqtts://...), `tenant_id`, `device_id` and
 * `secret`; `set version 1`; then `restart`. After a rotation, `key <key_version> <new_secret>` stores the key and signs in with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "driver/gpio.h"
#include "esp_crt_bundle.h"
#include "esp_event.h"
#include "esp_log.h"
#include "esp_netif.h"
#include "esp_netif_sntp.h"
#include "esp_random.h"
#include "esp_system.h"
#include "esp_wifi.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "mqtt_client.h"
#include "nvs.h"
#include "nvs_flash.h"
#include "twinkeep.h"

#define LED GPIO_NUM_2
#define RETRY_MS 2000
#define HEARTBEAT_MS 60000
/* Without an answer to hello within this time the connection is opened again. */
#define HELLO_MS 30000
/* A message of the service must fit: a command with its parameters. */
#define BUFFER_BYTES 4096
/* Commands whose outcome is remembered: the service sends one again until it is acknowledged. */
#define REMEMBERED 32
/* Commands that can wait for the answer to hello: the service sends pending ones as soon as it grants the subscription. One that
 * does not fit is sent again in the next connection. */
#define HELD 4
#define HELD_BYTES 1536

/* Notifications of the main task. */
#define GOT_ADDRESS (1u << 0)
#define LOST_CONNECTION (1u << 1)
#define CHANGED_KEY (1u << 2)

static const char TAG[] = "light";

typedef struct {
  char id[TK_UUID_SIZE];
  bool succeeded;
} outcome;

typedef struct {
  char ssid[33], password[65], uri[128], tenant_id[TK_UUID_SIZE], device_id[TK_UUID_SIZE], secret[128];
  TaskHandle_t task;
  tk_device device;
  tk_session session;
  tk_window window;
  esp_mqtt_client_handle_t client;
  uint64_t sequence_number;
  volatile bool ready;
  bool on;
  outcome outcomes[REMEMBERED];
  unsigned next_outcome;
  char held[HELD][HELD_BYTES];
  size_t held_lengths[HELD];
  unsigned held_count;
  char composed[BUFFER_BYTES];
} light;

static light l;

static uint64_t now(void) {
  struct timeval time;
  gettimeofday(&time, NULL);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

/* Called by the task of the MQTT client alone, so that messages have the order of their numbers. */
static void publish(const char *type, const char *payload) {
  uint8_t random[TK_NONCE_BYTES], id_random[TK_UUID_BYTES];
  char message_id[TK_UUID_SIZE], topic[160];
  tk_message message;
  size_t length;
  esp_fill_random(random, sizeof random);
  esp_fill_random(id_random, sizeof id_random);
  tk_uuid(id_random, message_id);
  if (strcmp(type, "hello") != 0) l.sequence_number++;
  message.type = type;
  message.message_id = message_id;
  message.sequence_number = l.sequence_number;
  message.timestamp = now();
  message.random = random;
  message.payload = payload;
  message.payload_length = strlen(payload);
  if (tk_compose(&l.device, &l.session, &message, l.composed, sizeof l.composed, &length) != TK_OK ||
      tk_topic(&l.device, type, topic, sizeof topic) != TK_OK ||
      esp_mqtt_client_enqueue(l.client, topic, l.composed, (int)length, 1, 0, true) < 0)
    ESP_LOGW(TAG, "a message of type %s was not sent", type);
}

static void report(void) { publish("state", l.on ? "{\"state\": {\"on\": true}}" : "{\"state\": {\"on\": false}}"); }

static void acknowledge(const char *command_id, const char *status, bool with_state) {
  char payload[256];
  tk_writer writer;
  tk_writer_init(&writer, payload, sizeof payload);
  tk_put(&writer, "{");
  tk_put_name(&writer, "command_id");
  tk_put_string(&writer, command_id);
  tk_put_name(&writer, "status");
  tk_put_string(&writer, status);
  if (with_state) {
    tk_put_name(&writer, "state");
    tk_put(&writer, l.on ? "{\"on\":true}" : "{\"on\":false}");
  }
  tk_put(&writer, "}");
  if (!writer.failed) publish("cmd_ack", payload);
}

static void receive_command(const tk_received *command) {
  char id[TK_UUID_SIZE];
  outcome *entry;
  unsigned i;
  if (!tk_json_string(command->as.command.command_id, id, sizeof id)) return;
  for (i = 0; i < REMEMBERED; i++) {
    if (strcmp(l.outcomes[i].id, id) == 0) {
      acknowledge(id, l.outcomes[i].succeeded ? "succeeded" : "failed", l.outcomes[i].succeeded);
      return;
    }
  }
  if (now() >= command->as.command.expires_at) return;
  entry = &l.outcomes[l.next_outcome++ % REMEMBERED];
  strcpy(entry->id, id);
  entry->succeeded = true;
  if (tk_json_is(command->as.command.action, "turn_on")) {
    l.on = true;
  } else if (tk_json_is(command->as.command.action, "turn_off")) {
    l.on = false;
  } else {
    entry->succeeded = false;
  }
  gpio_set_level(LED, l.on);
  acknowledge(id, entry->succeeded ? "succeeded" : "failed", entry->succeeded);
}

static void receive(const char *bytes, size_t length) {
  tk_received received;
  char code[48];
  tk_result result = tk_verify(&l.device, &l.session, now(), bytes, length, &received);
  if (result != TK_OK) {
    ESP_LOGW(TAG, "message ignored: %s", tk_result_name(result));
  } else if (received.kind == TK_COMMAND && !l.ready) {
    /* Its acknowledgement needs the sequence number, which the answer to hello has. */
    if (l.held_count == HELD || length > HELD_BYTES) return;
    memcpy(l.held[l.held_count], bytes, length);
    l.held_lengths[l.held_count++] = length;
  } else if (!tk_window_accept(&l.window, received.sequence_number)) {
    ESP_LOGW(TAG, "message ignored: it was received before");
  } else if (received.kind == TK_HELLO_ACK) {
    unsigned i;
    /* A hello that was sent twice has two answers. */
    if (!l.ready || received.as.hello_ack.last_sequence > l.sequence_number) l.sequence_number = received.as.hello_ack.last_sequence;
    l.ready = true;
    for (i = 0; i < l.held_count; i++) receive(l.held[i], l.held_lengths[i]);
    l.held_count = 0;
    report();
  } else if (received.kind == TK_COMMAND) {
    receive_command(&received);
  } else if (tk_json_string(received.as.refusal.code, code, sizeof code)) {
    ESP_LOGW(TAG, "message refused: %s", code);
  }
}

static void on_mqtt(void *argument, esp_event_base_t base, int32_t id, void *data) {
  esp_mqtt_event_handle_t event = data;
  char topic[160];
  (void)argument;
  (void)base;
  switch ((esp_mqtt_event_id_t)id) {
    case MQTT_EVENT_CONNECTED:
      if (tk_topic(&l.device, "cmd", topic, sizeof topic) == TK_OK) esp_mqtt_client_subscribe_single(event->client, topic, 1);
      break;
    case MQTT_EVENT_SUBSCRIBED:
      publish("hello", "{\"protocol\": \"PROTO/3.1\", \"firmware\": \"1.0.0\"}");
      break;
    case MQTT_EVENT_DATA:
      if (event->data_len == event->total_data_len) receive(event->data, (size_t)event->data_len);
      break;
    case MQTT_EVENT_DISCONNECTED:
      xTaskNotify(l.task, LOST_CONNECTION, eSetBits);
      break;
    case MQTT_USER_EVENT:
      if (l.ready) publish("heartbeat", "{}");
      break;
    default:
      break;
  }
}

/* Every connection has new credentials, so the client's own reconnection is off. */
static bool open_connection(void) {
  esp_mqtt_client_config_t config;
  uint8_t random[TK_NONCE_BYTES];
  esp_fill_random(random, sizeof random);
  if (tk_session_open(&l.device, now(), random, &l.session) != TK_OK) return false;
  memset(&l.window, 0, sizeof l.window);
  l.ready = false;
  l.held_count = 0;
  memset(&config, 0, sizeof config);
  config.broker.address.uri = l.uri;
  if (strncmp(l.uri, "mqtts:", 6) == 0) config.broker.verification.crt_bundle_attach = esp_crt_bundle_attach;
  config.credentials.client_id = l.session.client_id;
  config.credentials.username = l.device.tenant_id;
  config.credentials.authentication.password = l.session.password;
  config.session.keepalive = 30;
  config.session.protocol_ver = MQTT_PROTOCOL_V_3_1_1;
  config.network.disable_auto_reconnect = true;
  config.buffer.size = BUFFER_BYTES;
  config.task.stack_size = 12288;
  l.client = esp_mqtt_client_init(&config);
  if (l.client == NULL) return false;
  esp_mqtt_client_register_event(l.client, MQTT_EVENT_ANY, on_mqtt, NULL);
  return esp_mqtt_client_start(l.client) == ESP_OK;
}

static void close_connection(void) {
  if (l.client != NULL) esp_mqtt_client_destroy(l.client);
  l.client = NULL;
}

static void on_network(void *argument, esp_event_base_t base, int32_t id, void *data) {
  (void)argument;
  (void)data;
  if (base == IP_EVENT && id == IP_EVENT_STA_GOT_IP) xTaskNotify(l.task, GOT_ADDRESS, eSetBits);
  if (base == WIFI_EVENT && (id == WIFI_EVENT_STA_START || id == WIFI_EVENT_STA_DISCONNECTED)) esp_wifi_connect();
}

static void start_network(void) {
  wifi_init_config_t init = WIFI_INIT_CONFIG_DEFAULT();
  wifi_config_t config;
  esp_sntp_config_t time = ESP_NETIF_SNTP_DEFAULT_CONFIG("pool.ntp.org");
  ESP_ERROR_CHECK(esp_netif_init());
  ESP_ERROR_CHECK(esp_event_loop_create_default());
  esp_netif_create_default_wifi_sta();
  ESP_ERROR_CHECK(esp_wifi_init(&init));
  ESP_ERROR_CHECK(esp_event_handler_register(WIFI_EVENT, ESP_EVENT_ANY_ID, on_network, NULL));
  ESP_ERROR_CHECK(esp_event_handler_register(IP_EVENT, IP_EVENT_STA_GOT_IP, on_network, NULL));
  memset(&config, 0, sizeof config);
  memcpy(config.sta.ssid, l.ssid, strlen(l.ssid));
  memcpy(config.sta.password, l.password, strlen(l.password));
  ESP_ERROR_CHECK(esp_wifi_set_mode(WIFI_MODE_STA));
  ESP_ERROR_CHECK(esp_wifi_set_config(WIFI_IF_STA, &config));
  ESP_ERROR_CHECK(esp_wifi_start());
  ESP_ERROR_CHECK(esp_netif_sntp_init(&time));
}

/* False if a value is missing. */
static bool load_settings(nvs_handle_t store) {
  const struct {
    const char *name;
    char *text;
    size_t capacity;
  } texts[] = {{"ssid", l.ssid, sizeof l.ssid},
               {"password", l.password, sizeof l.password},
               {"uri", l.uri, sizeof l.uri},
               {"tenant_id", l.tenant_id, sizeof l.tenant_id},
               {"device_id", l.device_id, sizeof l.device_id},
               {"secret", l.secret, sizeof l.secret}};
  size_t i, length;
  for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    length = texts[i].capacity;
    if (nvs_get_str(store, texts[i].name, texts[i].text, &length) != ESP_OK) {
      printf("missing: set %s ...\n", texts[i].name);
      return false;
    }
  }
  l.device.tenant_id = l.tenant_id;
  l.device.device_id = l.device_id;
  l.device.secret = l.secret;
  if (nvs_get_u32(store, "version", &l.device.key_version) == ESP_OK) return true;
  puts("missing: set version 1");
  return false;
}

static void store_key(nvs_handle_t store, const char *version, const char *secret) {
  /* The secret first: if the power fails between the two, the command is simply given again. */
  if (nvs_set_str(store, "secret", secret) == ESP_OK && nvs_set_u32(store, "version", (uint32_t)strtoul(version, NULL, 10)) == ESP_OK &&
      nvs_commit(store) == ESP_OK)
    xTaskNotify(l.task, CHANGED_KEY, eSetBits);
}

/* Reads the serial console, a line at a time. */
static void console_task(void *argument) {
  nvs_handle_t store = *(nvs_handle_t *)argument;
  char line[256];
  size_t length = 0;
  for (;;) {
    int c = getchar();
    if (c == EOF) {
      vTaskDelay(pdMS_TO_TICKS(20));
    } else if (c != '\n' && c != '\r') {
      if (length < sizeof line - 1) line[length++] = (char)c;
    } else if (length > 0) {
      char *command, *name, *value;
      line[length] = '\0';
      length = 0;
      command = strtok(line, " ");
      name = strtok(NULL, " ");
      value = strtok(NULL, "");
      if (command != NULL && strcmp(command, "restart") == 0) esp_restart();
      if (command == NULL || name == NULL || value == NULL) continue;
      if (strcmp(command, "key") == 0) {
        store_key(store, name, value);
      } else if (strcmp(command, "set") == 0) {
        esp_err_t stored =
            strcmp(name, "version") == 0 ? nvs_set_u32(store, name, (uint32_t)strtoul(value, NULL, 10)) : nvs_set_str(store, name, value);
        if (stored == ESP_OK) stored = nvs_commit(store);
        puts(stored == ESP_OK ? "stored" : "not stored");
      }
    }
  }
}

void app_main(void) {
  static nvs_handle_t store;
  uint32_t events = 0;
  ESP_ERROR_CHECK(nvs_flash_init());
  ESP_ERROR_CHECK(nvs_open("twinkeep", NVS_READWRITE, &store));
  l.task = xTaskGetCurrentTaskHandle();
  xTaskCreate(console_task, "console", 4096, &store, 1, NULL);
  while (!load_settings(store)) vTaskDelay(pdMS_TO_TICKS(5000));
  gpio_reset_pin(LED);
  gpio_set_direction(LED, GPIO_MODE_OUTPUT);
  start_network();
  while ((events & GOT_ADDRESS) == 0) xTaskNotifyWait(0, UINT32_MAX, &events, portMAX_DELAY);
  /* A signature needs the time: it may be five minutes off, and two for a connection. */
  while (esp_netif_sntp_sync_wait(pdMS_TO_TICKS(10000)) != ESP_OK) ESP_LOGW(TAG, "no time yet");
  for (;;) {
    events = 0;
    if (load_settings(store) && open_connection()) {
      while ((events & (LOST_CONNECTION | CHANGED_KEY)) == 0) {
        if (xTaskNotifyWait(0, UINT32_MAX, &events, pdMS_TO_TICKS(l.ready ? HEARTBEAT_MS : HELLO_MS)) != pdTRUE) {
          esp_mqtt_event_t heartbeat;
          if (!l.ready) break;
          memset(&heartbeat, 0, sizeof heartbeat);
          heartbeat.event_id = MQTT_USER_EVENT;
          esp_mqtt_dispatch_custom_event(l.client, &heartbeat);
        }
      }
    }
    close_connection();
    vTaskDelay(pdMS_TO_TICKS(RETRY_MS));
  }
}
