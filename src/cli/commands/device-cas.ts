import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Argument, type Command } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printRecord, printTable } from '../print.ts';
import { formatTime } from '../time-text.ts';

interface Ca {
  id: string;
  name: string;
  status: string;
  subject: string;
  not_after: string;
  certificate: string;
  registration: { home_id: string; device_type: string; set_by: string; set_by_role: string | null } | null;
  [member: string]: unknown;
}

interface Registered {
  id: string;
  status: 'registered' | 'renewed';
  ca: Ca;
}

interface DeviceCertificates {
  subjects: { ca_id: string; common_name: string; bound_at: string }[];
  certificates: { ca_id: string; serial_number: string; common_name: string; status: string; not_after: string }[];
}

interface RuleOptions {
  home?: string;
  room?: string;
  type?: string;
  pattern?: string;
  max?: number;
}

const CAS = '/v1/cas';
const MAX_DEVICES = 1_000_000;
const pathOf = (id: string): string => `${CAS}/${encodeURIComponent(id)}`;
const certificatesPath = (deviceId: string): string => `/v1/devices/${encodeURIComponent(deviceId)}/certificates`;

export function addDeviceCas(program: Command, io: Io): void {
  const cas = program
    .command('cas')
    .summary('manage the CAs whose certificates sign in devices')
    .description('Manages the certificate authorities (CAs) whose X.509 certificates sign in devices by mutual TLS.');
  cas
    .command('list', { isDefault: true })
    .description('Lists the CAs of the tenant.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ cas: Ca[] }>(CAS), ({ cas }) => {
        const rows = cas.map(({ registration: rule, ...ca }) => [
          ...[ca.id, ca.name, ca.status, ca.subject, ca.not_after, rule?.home_id, rule?.set_by],
          rule && (rule.set_by_role ?? 'not a member'),
        ]);
        const columns = ['ID', 'NAME', 'STATUS', 'SUBJECT', 'NOT AFTER', 'REGISTERS INTO', 'RULE SET BY', 'ROLE NOW'];
        printTable(io, columns, rows);
      });
    });
  cas
    .command('show <ca-id>')
    .description('Shows a CA and its registration rule.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ ca: Ca }>(pathOf(id)), ({ ca }) => printRecord(io, ca));
    });
  addRegistration(cas, io);
  addChanges(cas, io);
  addCertificates(cas, io);
}

function addRegistration(cas: Command, io: Io): void {
  cas
    .command('verify')
    .description(
      'Prints a verification code, which is valid for 24 hours and one registration. Issue a certificate with it as\n' +
        'common name (CN) by the CA, and give both to `cas register`. Requires an admin who is signed in.',
    )
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const issued = await api.post<{ verification_code: string; expires_at: string }>(`${CAS}/verifications`);
      show(issued, ({ verification_code, expires_at }) => {
        io.out(verification_code);
        io.err(io.errColors.dim(`expires at ${formatTime(io, expires_at, 'stderr')}`));
      });
    });
  withRule(cas.command('register <ca.pem> <verification.pem>'))
    .description(
      'Registers a CA and prints its id. With --home and --type it registers devices at their first connection. A CA that\n' +
        'is registered with this key and subject is renewed, as by `cas renew`.',
    )
    .requiredOption('--name <name>', 'name of the CA')
    .action(async (ca: string, proof: string, options: RuleOptions & { name: string }, command: Command) => {
      const client = createCliContext(io, command);
      const { api, show } = client;
      const request = {
        ...{ name: options.name, certificate: readPem(ca), verification_certificate: readPem(proof) },
        registration: await ruleOf(client, options),
      };
      show(await api.post<Registered>(CAS, request), (registered) => printRegistered(io, registered));
    });
  cas
    .command('renew <ca.pem> <verification.pem>')
    .description(
      'Replaces the certificate of a registered CA by another one with the same key and subject, and prints its id. Name,\n' +
        'status, rule, bound devices and revocations stay, and devices stay connected. Needs a code of `cas verify`.',
    )
    .action(async (ca: string, proof: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const certificate = readPem(ca);
      const { cas: known } = await api.get<{ cas: Ca[] }>(CAS);
      const key = publicKeyOf(certificate);
      const renewed = known.find((one) => key !== null && publicKeyOf(one.certificate) === key);
      if (renewed === undefined) throw new UsageError(`no registered CA has the key of ${ca}: use cas register`);
      const request = { name: renewed.name, certificate, verification_certificate: readPem(proof) };
      show(await api.post<Registered>(CAS, request), (registered) => printRegistered(io, registered));
    });
}

/** The id on stdout, for scripts. */
function printRegistered(io: Io, { id, status, ca }: Registered): void {
  io.out(id);
  if (status === 'renewed') io.err(io.errColors.dim(`renewed: valid until ${formatTime(io, ca.not_after, 'stderr')}`));
}

function publicKeyOf(certificate: string): string | null {
  try {
    return new X509Certificate(certificate).publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  } catch {
    return null;
  }
}

function addChanges(cas: Command, io: Io): void {
  withRule(cas.command('rule <ca-id>'))
    .description('Sets the rule by which a CA registers devices, or removes it: without options none are registered.')
    .action(async (id: string, options: RuleOptions, command: Command) => {
      const client = createCliContext(io, command);
      const { api, show } = client;
      const request = { registration: await ruleOf(client, options) };
      const { body } = await api.request<{ ca: Ca }>('PATCH', pathOf(id), { body: request });
      show(body, ({ ca }) => printRecord(io, ca));
    });
  cas
    .command('set <ca-id>')
    .addArgument(
      new Argument('<status>', 'inactive: its connections end, and its certificates do not sign in').choices([
        'active',
        'inactive',
      ]),
    )
    .description('Activates or deactivates a CA.')
    .action(async (id: string, status: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { body } = await api.request<{ ca: Ca }>('PATCH', pathOf(id), { body: { status } });
      show(body, ({ ca }) => io.out(ca.status));
    });
  cas
    .command('delete <ca-id>')
    .description('Deletes a CA: the connections with its certificates end.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      await api.request('DELETE', pathOf(id));
      show({ status: 'deleted', id }, ({ status }) => io.out(status));
    });
}

function addCertificates(cas: Command, io: Io): void {
  cas
    .command('bind <ca-id> <device> <common-name>')
    .description('Binds a common name in certificates of a CA to a device.')
    .action(async (ca: string, device: string, name: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const path = certificatesPath(await resolve('device', device));
      show(await api.post<{ status: string }>(path, { ca_id: ca, common_name: name }), ({ status }) => io.out(status));
    });
  cas
    .command('unbind <ca-id> <device> <common-name>')
    .description('Unbinds a common name from a device: its connection ends. No registration rule binds it again.')
    .action(async (ca: string, device: string, name: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const path = certificatesPath(await resolve('device', device));
      const subject = new URLSearchParams({ ca_id: ca, common_name: name });
      await api.request('DELETE', `${path}?${subject}`);
      show({ status: 'unbound', ca_id: ca, common_name: name }, ({ status }) => io.out(status));
    });
  cas
    .command('certificates <device>')
    .description('Lists the common names of a device, and the certificates that it has used.')
    .action(async (device: string, _options, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const found = await api.get<DeviceCertificates>(certificatesPath(await resolve('device', device)));
      show(found, ({ subjects, certificates }) => {
        const names = subjects.map(({ ca_id, common_name, bound_at }) => [ca_id, common_name, bound_at]);
        printTable(io, ['CA', 'COMMON NAME', 'BOUND'], names);
        const rows = certificates.map((one) => [
          one.ca_id,
          one.serial_number,
          one.common_name,
          one.status,
          one.not_after,
        ]);
        printTable(io, ['CA', 'SERIAL NUMBER', 'COMMON NAME', 'STATUS', 'NOT AFTER'], rows);
      });
    });
  cas
    .command('revoke <ca-id> <serial-number>')
    .description('Revokes a certificate by its serial number (openssl x509 -noout -serial), also before its first use.')
    .option('--reason <text>', 'why it is revoked')
    .action(async (id: string, serial: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const request = { serial_number: serial.replace(/^serial=/, ''), ...(reason !== undefined && { reason }) };
      show(await api.post<{ status: string }>(`${pathOf(id)}/revocations`, request), ({ status }) => io.out(status));
    });
}

const withRule = (command: Command): Command =>
  command
    .option('--home <home>', 'register unknown devices into this home')
    .option('--room <room>', 'and into this room')
    .option('--type <device-type>', 'device type of registered devices')
    .option('--pattern <text>', 'register only common names of this form; * stands for any text')
    .option('--max <number>', 'most devices to register (default 1000)', parseIntegerBetween(1, MAX_DEVICES));

async function ruleOf(
  { resolve, resolveOption }: CliContext,
  { home, room, type, pattern, max }: RuleOptions,
): Promise<object | null> {
  if (home === undefined && [room, type, pattern, max].every((option) => option === undefined)) return null;
  if (home === undefined || type === undefined) throw new UsageError('a registration rule needs --home and --type');
  const homeId = await resolve('home', home);
  const roomId = await resolveOption('room', room, { homeId });
  return {
    ...{ home_id: homeId, device_type: type },
    ...(roomId !== undefined && { room_id: roomId }),
    ...(pattern !== undefined && { subject_pattern: pattern }),
    ...(max !== undefined && { max_devices: max }),
  };
}

function readPem(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    throw new UsageError(`${path} is not a readable file`);
  }
  if (text.includes('PRIVATE KEY')) throw new UsageError(`${path} has a private key: give the certificate only`);
  // `openssl x509 -text` and `openssl ca` write a description before the certificate.
  const [certificate] = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(text) ?? [];
  if (certificate === undefined) throw new UsageError(`${path} has no certificate in PEM`);
  return certificate;
}
