#pragma once
#include <stdbool.h>
#include "esp_event.h"
typedef struct esp_mqtt_client *esp_mqtt_client_handle_t;
typedef enum {
  MQTT_EVENT_ANY = -1,
  MQTT_EVENT_ERROR,
  MQTT_EVENT_CONNECTED,
  MQTT_EVENT_DISCONNECTED,
  MQTT_EVENT_SUBSCRIBED,
  MQTT_EVENT_DATA,
  MQTT_USER_EVENT
} esp_mqtt_event_id_t;
typedef enum { MQTT_PROTOCOL_V_3_1_1 = 2 } esp_mqtt_protocol_ver_t;
typedef struct {
  esp_mqtt_event_id_t event_id;
  esp_mqtt_client_handle_t client;
  char *data;
  int data_len;
  int total_data_len;
} esp_mqtt_event_t;
typedef esp_mqtt_event_t *esp_mqtt_event_handle_t;
typedef struct {
  struct {
    struct {
      const char *uri;
    } address;
    struct {
      esp_err_t (*crt_bundle_attach)(void *config);
    } verification;
  } broker;
  struct {
    const char *username;
    const char *client_id;
    struct {
      const char *password;
    } authentication;
  } credentials;
  struct {
    int keepalive;
    esp_mqtt_protocol_ver_t protocol_ver;
  } session;
  struct {
    bool disable_auto_reconnect;
  } network;
  struct {
    int stack_size;
  } task;
  struct {
    int size;
  } buffer;
} esp_mqtt_client_config_t;
esp_mqtt_client_handle_t esp_mqtt_client_init(const esp_mqtt_client_config_t *config);
esp_err_t esp_mqtt_client_register_event(esp_mqtt_client_handle_t client, esp_mqtt_event_id_t event, esp_event_handler_t handler,
                                         void *argument);
esp_err_t esp_mqtt_client_start(esp_mqtt_client_handle_t client);
esp_err_t esp_mqtt_client_destroy(esp_mqtt_client_handle_t client);
int esp_mqtt_client_subscribe_single(esp_mqtt_client_handle_t client, const char *topic, int qos);
int esp_mqtt_client_enqueue(esp_mqtt_client_handle_t client, const char *topic, const char *data, int length, int qos, int retain,
                            bool store);
esp_err_t esp_mqtt_dispatch_custom_event(esp_mqtt_client_handle_t client, esp_mqtt_event_t *event);
