import type { JsonObject } from '../domain/values.ts';
import { mqttAsyncApi } from '../edges/mqtt/asyncapi.ts';
import { asyncApi } from '../edges/shared/asyncapi-builder.ts';
import { webSocketAsyncApi } from '../edges/websocket/asyncapi.ts';
import type { OperationSettings } from '../operations/operation.ts';

/** The AsyncAPI document of all edges, rebuilt when the addresses change: they are known once the service listens. */
export function asyncApiDocument(settings: Pick<OperationSettings, 'apiBaseUrl' | 'mqttUrl'>): () => JsonObject {
  let cached: { key: string; document: JsonObject } | null = null;
  return () => {
    const { apiBaseUrl, mqttUrl } = settings;
    const key = `${apiBaseUrl} ${mqttUrl}`;
    if (cached?.key !== key) {
      const parts = [mqttAsyncApi(), webSocketAsyncApi()];
      cached = { key, document: asyncApi(parts, { httpUrl: apiBaseUrl.replace(/\/v1$/, ''), mqttUrl }) };
    }
    return cached.document;
  };
}
