#pragma once
#include "esp_event.h"
typedef struct esp_netif_obj esp_netif_t;
extern esp_event_base_t const IP_EVENT;
enum { IP_EVENT_STA_GOT_IP };
esp_err_t esp_netif_init(void);
esp_netif_t *esp_netif_create_default_wifi_sta(void);
