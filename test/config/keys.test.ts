import { spawn } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/config/setting-readers.ts';
import { readConfig, readTokenKey } from '../../src/config.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = join(mkdtempSync(join(tmpdir(), 'twinkeep-keys-')), 'data');
});
afterEach(() => rmSync(join(dataDir, '..'), { recursive: true, force: true }));

const read = () => readConfig({ DATA_DIR: dataDir }, false);

describe('the next and previous keys', () => {
  const pair = () => {
    const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
    return { publicKey: x, privateJwk: JSON.stringify({ kty, crv, x, d }), publicJwk: JSON.stringify({ kty, crv, x }) };
  };
  const readWith = (env: Record<string, string>) => readConfig({ DATA_DIR: dataDir, ...env }, false).keys;

  it('are unset by default', () => {
    expect(read().keys).toMatchObject({
      ...{ masterNext: null, masterPrevious: null, masterLost: [], tokenSigningNext: null, tokenSigningPrevious: null },
      ...{ deviceSigningNext: null, deviceSigningPrevious: null },
    });
  });

  it('are read from their variables, a public JWK where nothing is signed', () => {
    const [one, two] = [pair(), pair()];
    const master = randomBytes(32);
    const keys = readWith({
      ...{ MASTER_KEY_NEXT: master.toString('base64'), MASTER_KEYS_LOST: 'x9Q2pWz7KdE, -V3hGm0nB1_' },
      ...{ TOKEN_SIGNING_KEY_NEXT: one.publicJwk, TOKEN_SIGNING_KEY_PREVIOUS: two.privateJwk },
      ...{ DEVICE_SIGNING_KEY_NEXT: one.publicJwk, DEVICE_SIGNING_KEY_PREVIOUS: two.privateJwk },
    });
    expect(keys.deviceSigningPrevious?.privateKey).not.toBeNull();
    const announced = readWith({ DEVICE_SIGNING_KEY_PREVIOUS: two.publicJwk }).deviceSigningPrevious;
    expect(announced).toEqual({ privateKey: null, publicKey: two.publicKey });
    expect(keys.masterNext?.export()).toEqual(master);
    expect(keys.masterLost).toEqual(['x9Q2pWz7KdE', '-V3hGm0nB1_']);
    for (const [key, expected] of [
      [keys.tokenSigningNext, one],
      [keys.tokenSigningPrevious, two],
      [keys.deviceSigningNext, one],
      [keys.deviceSigningPrevious, two],
    ] as const) {
      expect(key?.publicKey).toBe(expected.publicKey);
    }
  });

  it.each([
    ['DEVICE_SIGNING_KEY_PREVIOUS', () => pair().privateJwk.replace('"d":"', '"d":"x')],
    ['DEVICE_SIGNING_KEY', () => pair().publicJwk],
    ['DEVICE_SIGNING_KEY_NEXT', () => 'no JWK'],
    ['TOKEN_SIGNING_KEY_NEXT', () => '{"kty":"OKP","crv":"Ed25519","x":"AAAA"}'],
    ['TOKEN_SIGNING_KEY_PREVIOUS', () => '{"kty":"OKP","crv":"X25519","x":"AAAA"}'],
    ['MASTER_KEY_NEXT', () => 'short'],
    ['MASTER_KEYS_LOST', () => 'x9Q2pWz7KdE,no id'],
  ])('are refused by the name of the variable: %s', (name, value) => {
    expect(() => readWith({ [name]: value() })).toThrow(new RegExp(`^${name} must be `));
  });
});

describe('key files in DATA_DIR', () => {
  it('are created when absent, readable by their owner only, and read on the next start', () => {
    const first = read().keys;
    const files = readdirSync(dataDir);
    expect(files.sort()).toEqual(['device-signing.jwk', 'master.key', 'token-signing.jwk']);
    for (const file of files) expect(statSync(join(dataDir, file)).mode & 0o777).toBe(0o600);
    expect(Buffer.from(readFileSync(join(dataDir, 'master.key'), 'utf8'), 'base64')).toHaveLength(32);
    const again = read().keys;
    expect(again.master.equals(first.master)).toBe(true);
    expect(again.tokenSigning.publicKey).toBe(first.tokenSigning.publicKey);
    expect(again.deviceSigning.publicKey).toBe(first.deviceSigning.publicKey);
    expect(first.deviceSigning.publicKey).not.toBe(first.tokenSigning.publicKey);
  });

  it('are the same for processes that create them concurrently', async () => {
    const script = `import { readTokenKey } from ${JSON.stringify(join(process.cwd(), 'src/config.ts'))};
      console.log(readTokenKey().publicKey);`;
    const children = Array.from({ length: 4 }, () =>
      spawn(process.execPath, ['--input-type=module', '-e', script], {
        env: { DATA_DIR: dataDir },
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    );
    const printed = await Promise.all(
      children.map(async (child) => {
        let text = '';
        child.stdout.on('data', (chunk) => (text += chunk));
        await once(child, 'close');
        return text.trim();
      }),
    );
    expect(new Set(printed).size).toBe(1);
    expect(printed[0]).toHaveLength(43);
    expect(readdirSync(dataDir)).toEqual(['token-signing.jwk']);
  });

  it('are rejected if other users can read them', () => {
    read();
    chmodSync(join(dataDir, 'master.key'), 0o644);
    expect(read).toThrow(/^MASTER_KEY is not set, and its key file .*master\.key can be read by others/);
  });

  it('are rejected without showing their content if they contain something else', () => {
    read();
    writeFileSync(join(dataDir, 'token-signing.jwk'), '{"kty":"hunter2"}');
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/^TOKEN_SIGNING_KEY is not set, and its key file .* does not hold/);
    expect(read).not.toThrow(/hunter2/);
  });

  it('name DATA_DIR when they cannot be created', () => {
    writeFileSync(join(dataDir, '..', 'file'), '');
    expect(() => readConfig({ DATA_DIR: join(dataDir, '..', 'file') }, false)).toThrow(/^DATA_DIR /);
  });
});

describe('the signing key of internal tokens', () => {
  it('is in a file of the service and needs no other setting', () => {
    const token = readTokenKey({ DATA_DIR: dataDir, HOST: '0.0.0.0', PORT: 'nonsense' });
    expect(readdirSync(dataDir)).toEqual(['token-signing.jwk']);
    expect(read().keys.tokenSigning.publicKey).toBe(token.publicKey);
  });

  it('is not a local file when the service has a DATABASE_URL', () => {
    expect(() => readTokenKey({ DATA_DIR: dataDir, DATABASE_URL: 'postgres://db/x' })).toThrow(/^TOKEN_SIGNING_KEY /);
  });

  it('is rejected if its public half belongs to another private key', () => {
    const [one, two] = [read(), readConfig({ DATA_DIR: `${dataDir}2` }, false)];
    const mixed = { ...one.keys.tokenSigning.privateKey.export({ format: 'jwk' }), x: two.keys.tokenSigning.publicKey };
    expect(() => readTokenKey({ TOKEN_SIGNING_KEY: JSON.stringify(mixed) })).toThrow(/^TOKEN_SIGNING_KEY must be/);
  });
});
