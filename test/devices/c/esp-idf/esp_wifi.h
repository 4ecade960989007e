#pragma once
#include "esp_event.h"
typedef struct {
  int magic;
} wifi_init_config_t;
#define WIFI_INIT_CONFIG_DEFAULT() {0}
typedef struct {
  struct {
    uint8_t ssid[32];
    uint8_t password[64];
  } sta;
} wifi_config_t;
typedef enum { WIFI_MODE_STA = 1 } wifi_mode_t;
typedef enum { WIFI_IF_STA } wifi_interface_t;
extern esp_event_base_t const WIFI_EVENT;
enum { WIFI_EVENT_STA_START, WIFI_EVENT_STA_DISCONNECTED };
esp_err_t esp_wifi_init(const wifi_init_config_t *config);
esp_err_t esp_wifi_set_mode(wifi_mode_t mode);
esp_err_t esp_wifi_set_config(wifi_interface_t interface, wifi_config_t *config);
esp_err_t esp_wifi_start(void);
esp_err_t esp_wifi_connect(void);
