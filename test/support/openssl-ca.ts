import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// A certificate authority of the `openssl` command, in a folder of its own.

const CONFIG = `[req]
distinguished_name = dn
prompt = no
[dn]
CN = replaced
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[plain]
basicConstraints = CA:FALSE
[device]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
authorityKeyIdentifier = keyid
[ca]
default_ca = main
[main]
dir = .
database = index.txt
new_certs_dir = .
default_md = sha256
policy = any
rand_serial = yes
unique_subject = no
[any]
commonName = supplied
`;

/** Paths of a certificate and its key. */
export interface CertificateFiles {
  cert: string;
  key: string;
}

export class OpensslCa {
  readonly #folder: string;
  readonly files: CertificateFiles;
  readonly #subject: string;
  #issued = 0;

  /** `extensions` is a section of the configuration. */
  constructor(parent: string, name: string, extensions: 'authority' | 'plain' = 'authority') {
    this.#folder = join(parent, name.replaceAll(' ', '-'));
    mkdirSync(this.#folder);
    writeFileSync(join(this.#folder, 'openssl.cnf'), CONFIG);
    writeFileSync(join(this.#folder, 'index.txt'), '');
    this.files = { cert: join(this.#folder, 'ca.pem'), key: join(this.#folder, 'ca.key') };
    this.#key(this.files.key);
    this.#subject = `/CN=${name}`;
    this.#sign(this.files.cert, extensions, 30);
  }

  /** Path of another certificate of the CA, with the same key and subject, for `days`. */
  renewed(days: number): string {
    const path = join(this.#folder, `ca-${++this.#issued}.pem`);
    this.#sign(path, 'authority', days);
    return path;
  }

  get pem(): string {
    return readFileSync(this.files.cert, 'utf8');
  }

  /** Issues a certificate; `from` and `to` are times as `YYYYMMDDHHMMSSZ`. */
  issue(
    commonName: string,
    { from, to, key }: { from?: string; to?: string; key?: string } = {},
    signer: CertificateFiles = this.files,
  ): CertificateFiles {
    const base = join(this.#folder, `${++this.#issued}`);
    const files = { cert: `${base}.pem`, key: key ?? `${base}.key` };
    if (key === undefined) this.#key(files.key);
    this.#openssl(
      'req',
      '-new',
      '-config',
      'openssl.cnf',
      '-key',
      files.key,
      '-subj',
      `/CN=${commonName}`,
      '-out',
      `${base}.csr`,
    );
    const validity = from === undefined ? ['-days', '1'] : ['-startdate', from, '-enddate', to ?? from];
    this.#openssl(
      'ca',
      '-batch',
      '-notext',
      '-config',
      'openssl.cnf',
      '-extensions',
      'device',
      '-cert',
      signer.cert,
      '-keyfile',
      signer.key,
      '-in',
      `${base}.csr`,
      '-out',
      files.cert,
      ...validity,
    );
    return files;
  }

  /** As `openssl x509 -serial` prints it, without `serial=`. */
  serialOf({ cert }: CertificateFiles): string {
    return this.#openssl('x509', '-noout', '-serial', '-in', cert).trim().replace('serial=', '');
  }

  #sign(path: string, extensions: string, days: number): void {
    const made = ['-extensions', extensions, '-key', this.files.key, '-days', `${days}`, '-subj', this.#subject];
    this.#openssl('req', '-x509', '-config', 'openssl.cnf', ...made, '-out', path);
  }

  #key(path: string): void {
    this.#openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', path);
  }

  #openssl(...args: string[]): string {
    return execFileSync('openssl', args, { cwd: this.#folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }
}
