/* The declarations of ESP-IDF 5 that the example uses, to compile it without ESP-IDF. */
#pragma once
#include <stdint.h>
typedef int esp_err_t;
#define ESP_OK 0
#define ESP_ERROR_CHECK(result) ((void)(result))
