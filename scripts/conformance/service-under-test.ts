import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../src/config.ts';
import { issueToken, start } from '../../src/main.ts';

export interface ServiceUnderTest {
  url: string;
  /** Temporary folder of this run, with the two descriptions in it. */
  work: string;
  openApi: string;
  asyncApi: string;
  token(sub: string, more?: { email?: string; scope?: string }): Promise<string>;
  stop(): Promise<void>;
}

/** The complete service on loopback, with free ports and a new embedded database. */
export async function startServiceUnderTest(): Promise<ServiceUnderTest> {
  const work = mkdtempSync(join(tmpdir(), 'twinkeep-conformance-'));
  const settings = {
    PORT: '0',
    MQTT_PORT: '0',
    SIDECAR: 'off',
    RATE_LIMITS: 'free=0,pro=0',
    DATA_DIR: join(work, 'data'),
  };
  const config = readConfig({ ...settings, LOG_LEVEL: 'warn' }, false);
  const write = (fields: object, message: string) =>
    void process.stderr.write(`${message} ${JSON.stringify(fields)}\n`);
  const service = await start(config, { log: { debug() {}, info() {}, warn: write, error: write } });
  await service.active;
  const { url } = service;
  const fetched = async (name: string): Promise<string> => {
    const file = join(work, name);
    const document = (await (await fetch(`${url}/${name}`)).json()) as object;
    writeFileSync(file, JSON.stringify(document, null, 2));
    return file;
  };
  return {
    ...{ url, work },
    openApi: await fetched('openapi.json'),
    asyncApi: await fetched('asyncapi.json'),
    token: (sub, more = {}) => issueToken(config.keys.tokenSigning, { sub, ttlS: 3_600, ...more }),
    async stop() {
      await service.stop();
      rmSync(work, { recursive: true, force: true });
    },
  };
}
