#pragma once
#include <stddef.h>
void esp_fill_random(void *buffer, size_t length);
