import { randomUUID } from 'node:crypto';
import type { ConnectPacket as AedesConnectPacket } from 'aedes';

/** An MQTT 3.1.1 CONNECT, as parsed by aedes. */
export interface ConnectPacket {
  clientId: string;
  username: string | undefined;
  password: Buffer | undefined;
  clean: boolean;
  will: boolean;
  /**
   * The client identifier that the client sent, if it signs in with its certificate; `clientId` is then one that no other
   * session has. Null for a sign-in with a password.
   */
  certificateClientId: string | null;
}

type ConnectFlags = Pick<ConnectPacket, 'clean' | 'will'>;

export const connectFlagsOf = ({ clean, will }: AedesConnectPacket): ConnectFlags => ({
  clean: clean === true,
  will: will !== undefined,
});

/** The flags of a connection without a CONNECT: they are refused. */
export const NO_CONNECT: ConnectFlags = { clean: false, will: true };

/** Sessions are not persistent, and a will would be a message without a signature. */
export const areFlagsSupported = ({ clean, will }: ConnectFlags): boolean => clean && !will;

/** Protocol level of MQTT 3.1, which aedes would accept. */
const MQTT_3_1 = 3;

export const isSupportedVersion = ({ protocolVersion }: AedesConnectPacket): boolean => protocolVersion !== MQTT_3_1;

/** The user name of a tenant user, whose password is a token or an API key. */
const JWT_USERNAME = 'jwt';

export const isJwtUsername = (username: string | undefined): boolean => username === JWT_USERNAME;
/** Replaces the client identifier of a device with a certificate, so that it cannot take over another session. */
export const newCertificateClientId = (): string => `certificate.${randomUUID()}`;

/** A client with a certificate signs in with it if it sends no password. */
export const isByCertificate = (
  { username, password }: Pick<AedesConnectPacket, 'username' | 'password'>,
  certificate: Buffer | null,
): boolean => certificate !== null && (password ?? null) === null && !isJwtUsername(username);

/** Replaces the client identifier of a tenant user, so that it cannot take over another session. */
export const newUserClientId = (): string => `user.${randomUUID()}`;
