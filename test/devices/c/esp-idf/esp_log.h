#pragma once
__attribute__((format(printf, 2, 3))) void esp_log_warning(const char *tag, const char *format, ...);
#define ESP_LOGW(tag, ...) esp_log_warning(tag, __VA_ARGS__)
