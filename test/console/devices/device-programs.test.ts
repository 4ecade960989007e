import { describe, expect, it } from 'vitest';
import { deviceProgram, isLoopback, programLanguages } from '../../../console/src/devices/device-programs.ts';
import { readDocument } from '../../support/documented-session.ts';

const guide = { devices: readDocument('docs/devices.md'), esp32: readDocument('docs/esp32.md') };
const device = {
  device_id: '0195d9a2-7f00-7000-8000-000000000001',
  tenant_id: '0195d9a2-7f00-7000-8000-000000000002',
  device_secret: 'c2VjcmV0',
  key_version: 1,
  mqtt_url: 'mqtt://devices.example.com',
};
const lines = (text: string): string[] => text.split('\n');

describe('a program for a new device', () => {
  it.each(programLanguages)('in %s contains the identity and the secret of the device', (language) => {
    const program = deviceProgram(language, device, guide);
    for (const value of [device.device_id, device.tenant_id, device.device_secret, 'devices.example.com'])
      expect(program).toContain(value);
  });

  it.each(['Shell', 'Python'] as const)(
    'in %s uses TLS exactly if the address of the broker requires it',
    (language) => {
      const tls = /--tls-use-os-certs|tls_set\(\)/;
      const plain = deviceProgram(language, device, guide);
      expect(plain).not.toMatch(tls);
      expect(lines(plain)).toContain("export HOST='devices.example.com' PORT=1883 KEY_FILE=device.json");
      const secure = deviceProgram(language, { ...device, mqtt_url: 'mqtts://devices.example.com' }, guide);
      expect(secure).toMatch(tls);
      expect(lines(secure)).toContain("export HOST='devices.example.com' PORT=8883 KEY_FILE=device.json");
    },
  );

  it('takes the address of a broker with its port, also an IPv6 address', () => {
    const program = deviceProgram('Python', { ...device, mqtt_url: 'mqtt://[::1]:1999' }, guide);
    expect(lines(program)).toContain("export HOST='::1' PORT=1999 KEY_FILE=device.json");
  });

  it('for an ESP32 has the values of the device', () => {
    const sketch = lines(deviceProgram('Arduino', { ...device, mqtt_url: 'mqtts://devices.example.com:1999' }, guide));
    for (const line of [
      '#define USE_TLS 1',
      'static const char HOST[] = "devices.example.com";',
      'static const uint16_t PORT = 1999;',
      `static const char SECRET[] = "${device.device_secret}";`,
    ])
      expect(sketch).toContain(line);
  });

  it.each([
    ['mqtt://127.0.0.1:1883', true],
    ['mqtt://localhost', true],
    ['mqtt://[::1]:1883', true],
    ['mqtt://192.168.1.2', false],
    ['mqtts://devices.example.com', false],
  ])('at %s is on a loopback address: %s', (mqtt_url, expected) => {
    expect(isLoopback({ mqtt_url })).toBe(expected);
  });

  it('is not made from a guide without it', () => {
    expect(() => deviceProgram('Shell', device, { ...guide, devices: '' })).toThrow(
      'docs/devices.md has no program in sh',
    );
    expect(() => deviceProgram('Arduino', device, { ...guide, esp32: '' })).toThrow(
      'docs/esp32.md has no program in cpp',
    );
  });
});
