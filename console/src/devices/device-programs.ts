import type { registerDevice } from '../../../src/operations/devices/device-registration.ts';
import type { ResponseBody } from '../api/answer-types.ts';

/** The answer of a registration, with a secret made by the service. */
export type NewDeviceIdentity = ResponseBody<typeof registerDevice> & { device_secret: string };

export const programLanguages = ['Shell', 'Python', 'JavaScript', 'Arduino'] as const;
export type ProgramLanguage = (typeof programLanguages)[number];

type Identity = Pick<NewDeviceIdentity, 'device_id' | 'tenant_id' | 'device_secret' | 'key_version' | 'mqtt_url'>;

/** Documents with programs. */
export interface ProgramGuides {
  /** docs/devices.md, which has the programs in shell and Python. */
  devices: string;
  /** docs/esp32.md, which has the sketch. */
  esp32: string;
}

/**
 * A light with the identity and secret of a device: commands for a terminal that write and run it, or a sketch for an ESP32.
 * Throws if a document lacks its program.
 */
export const deviceProgram = (language: ProgramLanguage, device: Identity, guides: ProgramGuides): string =>
  programs[language](device, guides);

const HELLO = '{"protocol": "PROTO/3.1", "firmware": "1.0.0"}';
const FIRST_STATE = '{"state": {"on": false, "brightness": 0}}';

const programs = {
  Shell: (device, { devices: guide }) => {
    const { isTls } = brokerOf(device);
    const listening = '\nsession\ncommand=';
    const program = changed(codeIn(guide, 'sh', '#!/bin/sh'), [
      // The program of the guide reports nothing before its first command.
      [listening, `\npublish hello '${HELLO}'\npublish state '${FIRST_STATE}'${listening}`],
      ...(isTls ? ([['-p "$PORT"', '-p "$PORT" --tls-use-os-certs']] as const) : []),
    ]);
    return withIdentity(device, 'device.sh', program, 'sh device.sh');
  },
  Python: (device, { devices: guide }) => {
    const { isTls } = brokerOf(device);
    const connecting = '    client.connect(';
    const program = changed(
      codeIn(guide, 'python', '#!/usr/bin/env python3'),
      isTls ? [[connecting, `    client.tls_set()\n${connecting}`]] : [],
    );
    return withIdentity(device, 'device.py', program, 'python3 device.py');
  },
  JavaScript: ({ mqtt_url, tenant_id, device_id, device_secret, key_version }) =>
    `(umask 077; ${written('device.mjs', javaScript({ mqtt_url, tenant_id, device_id, device_secret, key_version }))}
)
node device.mjs
`,
  Arduino: (device, { esp32 }) => {
    const { host, port, isTls } = brokerOf(device);
    return changed(codeIn(esp32, 'cpp', '// A light as a Twinkeep device.', 'docs/esp32.md'), [
      ['#define USE_TLS 0', `#define USE_TLS ${isTls ? 1 : 0}`],
      ['HOST[] = "192.168.1.2"', `HOST[] = ${JSON.stringify(host)}`],
      ['PORT = 1883', `PORT = ${port}`],
      ['DEVICE_ID[] = ""', `DEVICE_ID[] = ${JSON.stringify(device.device_id)}`],
      ['TENANT_ID[] = ""', `TENANT_ID[] = ${JSON.stringify(device.tenant_id)}`],
      ['SECRET[] = ""', `SECRET[] = ${JSON.stringify(device.device_secret)}`],
      ['KEY_VERSION = 1', `KEY_VERSION = ${device.key_version}`],
    ]);
  },
} satisfies Record<ProgramLanguage, (device: Identity, guides: ProgramGuides) => string>;

/** Whether another machine cannot reach the broker by this address. */
export const isLoopback = (device: Pick<Identity, 'mqtt_url'>): boolean =>
  /^(?:localhost|127\..*|::1)$/.test(brokerOf(device).host);

const javaScript = (device: Identity): string => `import { connectDevice } from '@twinkeep/device';

await connectDevice({
  mqttUrl: ${JSON.stringify(device.mqtt_url)},
  tenantId: ${JSON.stringify(device.tenant_id)},
  deviceId: ${JSON.stringify(device.device_id)},
  secret: ${JSON.stringify(device.device_secret)},
  keyVersion: ${device.key_version},
  firmware: '1.0.0',
  state: { on: false, brightness: 0 },
  commands: {
    turn_on: () => ({ state: { on: true } }),
    turn_off: () => ({ state: { on: false } }),
    set_brightness: ({ level }) => ({ state: { on: true, brightness: level } }),
  },
});
`;

/** Commands that write the key file and the program, and run it with the variables of the guide. */
function withIdentity(device: Identity, file: string, program: string, run: string): string {
  const { device_secret, key_version } = device;
  const { host, port } = brokerOf(device);
  return `(umask 077; ${written('device.json', `${JSON.stringify({ device_secret, key_version })}\n`)}
)
${written(file, program)}
export HOST=${quoted(host)} PORT=${port} KEY_FILE=device.json
export DEVICE_ID=${device.device_id} TENANT_ID=${device.tenant_id}
${run}
`;
}

/** A command that writes a text, which ends with a line feed, to a file. */
const written = (file: string, text: string): string => `cat >${file} <<'END_OF_FILE'
${text}END_OF_FILE`;

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

function brokerOf({ mqtt_url }: Pick<Identity, 'mqtt_url'>): { host: string; port: number; isTls: boolean } {
  const { protocol, hostname, port } = new URL(mqtt_url);
  const isTls = protocol === 'mqtts:';
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? (isTls ? 8883 : 1883) : Number(port),
    isTls,
  };
}

/** The code block in a Markdown text that starts with a line. */
function codeIn(guide: string, language: string, firstLine: string, file = 'docs/devices.md'): string {
  const start = guide.indexOf(`\`\`\`${language}\n${firstLine}\n`);
  const end = guide.indexOf('\n```', start + 3);
  if (start === -1 || end === -1) throw new Error(`${file} has no program in ${language}`);
  return guide.slice(start + language.length + 4, end + 1);
}

/** Replaces all occurrences of each text; throws if one does not occur. */
function changed(program: string, changes: readonly (readonly [before: string, after: string])[]): string {
  return changes.reduce((text, [before, after]) => {
    if (!text.includes(before)) throw new Error(`a program in the documents lacks ${JSON.stringify(before)}`);
    return text.replaceAll(before, () => after);
  }, program);
}
