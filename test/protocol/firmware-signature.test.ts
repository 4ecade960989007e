import { spawnSync } from 'node:child_process';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, it } from 'vitest';
import {
  findFirmwareSigner,
  firmwareKeyId,
  firmwareText,
  rawPublicKey,
  type SignedFirmware,
  signFirmware,
} from '../../src/protocol/firmware-signature.ts';
import { codeBlock, readDocument } from '../support/documented-session.ts';

/** The vector of docs/devices.md, made by `openssl pkeyutl -sign -rawin`. The key is that of RFC 8032, section 7.1, test 1. */
const vector = {
  privateKey:
    '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n',
  publicKey: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  keyId: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
  firmware: {
    deviceType: 'smart_light',
    version: '1.5.0',
    checksum: '836bdaaef7134e769cf2c51b1494bb1602a3975412f7893e8b153ce20bbf3acd',
    size: 14,
  },
  text: 'twinkeep-firmware-v1\nsmart_light\n1.5.0\n836bdaaef7134e769cf2c51b1494bb1602a3975412f7893e8b153ce20bbf3acd\n14\n',
  signature: '_JdRtMTEOK_ATtmLXLUCgzY7-AJW-pIM9M_bDz8t4ViQWHzbxGj6Rnt0hU8v3wvb6z0UGhDlvZJcTmis_8MCBg',
};
const { openssl } = inject('programs');
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-firmware-signature-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const signer = (firmware: SignedFirmware, signature: string, publicKey = vector.publicKey) =>
  findFirmwareSigner([{ publicKey }], firmware, signature);

describe('the signature of the test vector', () => {
  it('is over the documented text', () => {
    expect(firmwareText(vector.firmware)).toBe(vector.text);
    const document = readDocument('docs/devices.md');
    expect(codeBlock(document, 'text', 0)).toBe(vector.text);
    const [, privateKey = 'none'] = vector.privateKey.split('\n');
    for (const text of [privateKey, vector.publicKey, vector.keyId, vector.signature])
      expect(document).toContain(`\`${text}\``);
  });

  it('is the one that the command line makes, and is verified', () => {
    expect(signFirmware(createPrivateKey(vector.privateKey), vector.firmware)).toBe(vector.signature);
    expect(signer(vector.firmware, vector.signature)).toEqual({ publicKey: vector.publicKey });
    expect(rawPublicKey(createPrivateKey(vector.privateKey))).toBe(vector.publicKey);
    expect(firmwareKeyId(vector.publicKey)).toBe(vector.keyId);
  });

  it.runIf(openssl !== null)('is the one that openssl makes and verifies', () => {
    const [key, text, signature] = ['key.pem', 'text', 'signature'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(key, vector.privateKey);
    writeFileSync(text, vector.text);
    const pkeyutl = (...args: string[]) =>
      spawnSync(openssl ?? '', ['pkeyutl', '-inkey', key, '-rawin', '-in', text, ...args]);
    expect(pkeyutl('-sign').stdout.toString('base64url')).toBe(vector.signature);
    writeFileSync(signature, Buffer.from(vector.signature, 'base64url'));
    expect(pkeyutl('-verify', '-sigfile', signature).status).toBe(0);
  });
});

describe('a signature', () => {
  it.each([
    ['another device type', { deviceType: 'smart_lock' }],
    ['another version', { version: '1.5.1' }],
    ['the same version with build metadata', { version: '1.5.0+1' }],
    ['another file', { checksum: '0'.repeat(64) }],
    ['another size', { size: 15 }],
  ])('is not valid for %s', (_, more) => {
    expect(signer({ ...vector.firmware, ...more }, vector.signature)).toBeNull();
  });

  it('is valid whatever the case of the checksum', () => {
    const { checksum } = vector.firmware;
    expect(signer({ ...vector.firmware, checksum: checksum.toUpperCase() }, vector.signature)).not.toBeNull();
  });

  it('is not valid with another key, without keys, or with malformed ones', () => {
    const other = rawPublicKey(generateKeyPairSync('ed25519').publicKey);
    for (const publicKey of [other, 'A'.repeat(43), 'x', '']) {
      expect(signer(vector.firmware, vector.signature, publicKey)).toBeNull();
    }
    expect(findFirmwareSigner([], vector.firmware, vector.signature)).toBeNull();
    const keys = [{ publicKey: other }, { publicKey: vector.publicKey }];
    expect(findFirmwareSigner(keys, vector.firmware, vector.signature)).toBe(keys[1]);
  });

  it.each(['', 'x', `${vector.signature}=`, `${vector.signature.slice(0, -1)}h`, 'A'.repeat(86)])(
    'is not valid as %j',
    (signature) => {
      expect(signer(vector.firmware, signature)).toBeNull();
    },
  );

  it.each([
    [{ deviceType: 'smart_light\n1.5.0' }],
    [{ deviceType: '' }],
    [{ version: '1.5.0\n' }],
    [{ version: '' }],
    [{ checksum: 'ab' }],
    [{ size: 0 }],
    [{ size: 1.5 }],
    [{ size: Number.NaN }],
  ])('is not made for %j, which could be read in two ways', (more) => {
    expect(() => firmwareText({ ...vector.firmware, ...more })).toThrow(TypeError);
  });

  it('is made by Ed25519 keys only', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    expect(() => signFirmware(privateKey, vector.firmware)).toThrow('must be a private Ed25519 key');
    expect(() => rawPublicKey(publicKey)).toThrow('must be an Ed25519 key');
    const ed25519 = generateKeyPairSync('ed25519');
    expect(() => signFirmware(ed25519.publicKey, vector.firmware)).toThrow('must be a private Ed25519 key');
  });
});
