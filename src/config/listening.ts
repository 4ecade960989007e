import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import {
  ConfigError,
  isWildcard,
  type ReadSetting,
  readChoice,
  readHost,
  readInteger,
  readOrigins,
  readPort,
  readPublicUrl,
  refuseClearUrl,
} from './setting-readers.ts';

/** The addresses and ports of the service, its certificate, and which origins and users may connect. */
export function readListening(read: ReadSetting) {
  const address = readHost(read, 'HOST', '127.0.0.1');
  const tls = readTls(read);
  const tlsPort = read('MQTT_TLS_PORT') === null ? null : readPort(read, 'MQTT_TLS_PORT', 0);
  if (tlsPort !== null && tls === null) throw new ConfigError('MQTT_TLS_PORT', 'needs TLS_CERT and TLS_KEY');
  const publicUrl = readPublicUrl(read, 'PUBLIC_URL', ['http', 'https']);
  const mqttPublicUrl = readPublicUrl(read, 'MQTT_PUBLIC_URL', ['mqtt', 'mqtts', 'ws', 'wss']);
  const hasTls = tls !== null || [publicUrl, mqttPublicUrl].some((url) => /^(?:https|mqtts|wss):/i.test(url ?? ''));
  const listening = {
    host: address,
    port: readPort(read, 'PORT', 8080),
    mqttPort: read('MQTT_PORT') === 'off' ? null : readPort(read, 'MQTT_PORT', 1883, ' or off'),
    mqttTlsPort: tlsPort,
    tls,
    publicUrl,
    mqttPublicUrl,
    corsOrigins: readOrigins(read, 'CORS_ORIGINS'),
    hstsMaxAgeS: readInteger(read, 'HSTS_MAX_AGE', 31_536_000, 0, 63_072_000),
    mqttUsersNeedTls:
      readChoice(read, 'MQTT_USER_TLS', ['required', 'optional'], hasTls ? 'required' : 'optional') === 'required',
  };
  // Otherwise who controls the network of a page's user gets the credentials that the page holds.
  if (hasTls) for (const origin of listening.corsOrigins) refuseClearUrl('CORS_ORIGINS', origin);
  if (listening.mqttPort !== 0 && listening.mqttPort === listening.port) {
    throw new ConfigError('MQTT_PORT', 'must differ from PORT');
  }
  if (tlsPort !== null && tlsPort !== 0 && (tlsPort === listening.port || tlsPort === listening.mqttPort)) {
    throw new ConfigError('MQTT_TLS_PORT', 'must differ from PORT and MQTT_PORT');
  }
  if (isWildcard(address)) {
    if (listening.publicUrl === null) throw new ConfigError('PUBLIC_URL', 'is required when HOST is a wildcard');
    if (listening.mqttPublicUrl === null) {
      throw new ConfigError('MQTT_PUBLIC_URL', 'is required when HOST is a wildcard');
    }
  }
  return listening;
}

function readTls(read: ReadSetting): { cert: string; key: string } | null {
  const certFile = read('TLS_CERT');
  const keyFile = read('TLS_KEY');
  if (certFile === null && keyFile === null) return null;
  if (certFile === null) throw new ConfigError('TLS_CERT', 'is required with TLS_KEY');
  if (keyFile === null) throw new ConfigError('TLS_KEY', 'is required with TLS_CERT');
  const cert = pem('TLS_CERT', certFile);
  const key = pem('TLS_KEY', keyFile);
  try {
    createSecureContext({ cert });
  } catch {
    throw new ConfigError('TLS_CERT', 'must be a file with a PEM certificate');
  }
  try {
    createSecureContext({ cert, key });
  } catch {
    throw new ConfigError('TLS_KEY', 'must be a file with the PEM private key of TLS_CERT');
  }
  return { cert, key };
}

function pem(name: 'TLS_CERT' | 'TLS_KEY', path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new ConfigError(name, 'must be the path of a file that can be read');
  }
}
