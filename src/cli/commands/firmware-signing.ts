import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import { Argument, type Command } from 'commander';
import { isVersion } from '../../domain/firmware.ts';
import { deviceType as deviceTypeField } from '../../domain/request-fields.ts';
import { firmwareKeyId, rawPublicKey, signFirmware } from '../../protocol/firmware-signature.ts';
import { isPublicKey } from '../../protocol/signature.ts';
import { createCliContext, type GlobalOptions } from '../cli-context.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printJson, printRecord, printTable } from '../print.ts';

interface Signing {
  signing: {
    signature_required: boolean;
    keys: { key_id: string; name: string; public_key: string; created_at: string }[];
  };
}

const SIGNING = '/v1/firmware/signing';
const required = (required: boolean): string => (required ? 'required' : 'not required');

/** Adds `firmware sign`, which works offline, and `firmware keys`. */
export function addFirmwareSigning(firmware: Command, io: Io): void {
  firmware
    .command('sign <device-type> <version> <file>')
    .description(
      'Signs a firmware file with a private Ed25519 key and prints only the signature on stdout.\n' +
        'It connects to nothing, so it works where the key is. With --json it prints what was signed, too.',
    )
    .requiredOption('--key <path>', 'private key, PEM (openssl genpkey -algorithm ed25519)')
    .addHelpText('after', '\nExample:\n  twinkeep firmware sign smart_light 1.5.0 light.bin --key private.pem')
    .action(async (type: string, version: string, file: string, { key: path }: { key: string }, command: Command) => {
      const deviceType = readDeviceType(type);
      if (!isVersion(version)) throw new UsageError(`${JSON.stringify(version)} is not a semantic version`);
      const key = readPrivateKey(path);
      const digest = await digestOf(file);
      const signature = signFirmware(key, { deviceType, version, ...digest });
      if (command.optsWithGlobals<GlobalOptions>().json !== true) return io.out(signature);
      const key_id = firmwareKeyId(rawPublicKey(key));
      printJson(io, { device_type: deviceType, version, ...digest, key_id, signature });
    });
  addKeys(firmware.command('keys').description('Manages the keys that sign firmware.'), io);
}

function addKeys(keys: Command, io: Io): void {
  keys
    .command('list', { isDefault: true })
    .description('Lists the registered keys, and shows whether a signature is required.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<Signing>(SIGNING), ({ signing }) => {
        const rows = signing.keys.map((key) => [key.key_id, key.name, key.public_key, key.created_at]);
        printTable(io, ['KEY ID', 'NAME', 'PUBLIC KEY', 'CREATED'], rows);
        io.err(io.errColors.dim(`signatures are ${required(signing.signature_required)}`));
      });
    });
  keys
    .command('add <public-key>')
    .description(
      'Registers a key, and requires signatures from now on. Requires an admin who is signed in; API keys are not\n' +
        'accepted. The public key is a PEM file (openssl pkey -pubout), or 32 raw bytes in base64url.',
    )
    .requiredOption('--name <name>', 'name of the key')
    .action(async (publicKey: string, { name }: { name: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const added = await api.post<{ key_id: string; key: Record<string, unknown> }>(`${SIGNING}/keys`, {
        public_key: readPublicKey(publicKey),
        name,
      });
      show(added, ({ key }) => printRecord(io, key));
    });
  keys
    .command('remove <key-id>')
    .description('Removes a key: what it has signed is no longer offered or sent where a signature is required.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      await api.request('DELETE', `${SIGNING}/keys/${encodeURIComponent(id)}`);
      show({ status: 'removed', key_id: id }, ({ status }) => io.out(status));
    });
  keys
    .command('require')
    .addArgument(new Argument('<state>', 'whether firmware needs a signature').choices(['on', 'off']))
    .description('Requires signatures, or requires them no longer. Requires an admin who is signed in.')
    .action(async (state: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { body } = await api.request<Signing>('PATCH', SIGNING, { body: { signature_required: state === 'on' } });
      show(body, ({ signing }) => io.out(required(signing.signature_required)));
    });
}

/** The device type as a release has it. */
function readDeviceType(text: string): string {
  const read = deviceTypeField.safeParse(text);
  if (!read.success) throw new UsageError('the device type must be 1 to 64 characters without control characters');
  return read.data;
}

/** Errors name the file, never its content. */
function readPrivateKey(path: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(readFileSync(path));
  } catch {
    throw new UsageError(`${path} is not a readable private key in PEM without a passphrase`);
  }
  if (key.asymmetricKeyType !== 'ed25519') throw new UsageError(`${path} is not an Ed25519 key`);
  return key;
}

/** The raw public key, base64url, from that text or from a PEM file. */
export function readPublicKey(text: string): string {
  if (isPublicKey(text)) return text;
  let pem: string;
  try {
    pem = readFileSync(text, 'utf8');
  } catch {
    throw new UsageError(`${text} is neither a readable file nor an Ed25519 public key in base64url`);
  }
  if (pem.includes('PRIVATE KEY')) throw new UsageError(`${text} is a private key: give the public key only`);
  try {
    return rawPublicKey(createPublicKey(pem));
  } catch {
    throw new UsageError(`${text} is not an Ed25519 public key in PEM`);
  }
}

async function digestOf(path: string): Promise<{ checksum: string; size: number }> {
  const digest = createHash('sha256');
  let size = 0;
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      digest.update(chunk);
      size += chunk.length;
    }
  } catch {
    throw new UsageError(`${path} is not a readable file`);
  }
  if (size === 0) throw new UsageError(`${path} is empty`);
  return { checksum: digest.digest('hex'), size };
}
