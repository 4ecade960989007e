#pragma once
#include "freertos/FreeRTOS.h"
typedef struct task *TaskHandle_t;
typedef enum { eNoAction, eSetBits } eNotifyAction;
BaseType_t xTaskCreate(void (*code)(void *), const char *name, uint32_t stack, void *argument, UBaseType_t priority, TaskHandle_t *task);
BaseType_t xTaskNotify(TaskHandle_t task, uint32_t value, eNotifyAction action);
BaseType_t xTaskNotifyWait(uint32_t clear_on_entry, uint32_t clear_on_exit, uint32_t *value, TickType_t timeout);
TaskHandle_t xTaskGetCurrentTaskHandle(void);
void vTaskDelay(TickType_t ticks);
