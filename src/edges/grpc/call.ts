import type { Socket } from 'node:net';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  type ClientOptions,
  connectivityState,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import {
  type CognitionProposal,
  CognitionProposalSchema,
  CognitionRuntime,
  type RuntimeEvent,
  RuntimeEventSchema,
} from '#proto/cognition/v1/runtime_pb.js';
import type { Lease } from '../../domain/lease.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

// The only module that uses the gRPC library: one connection attempt and one stream to a sidecar.

const { orchestrate } = CognitionRuntime.method;
const PATH = `/${CognitionRuntime.typeName}/${orchestrate.name}`;
const encode = (event: RuntimeEvent): Buffer => {
  const bytes = toBinary(RuntimeEventSchema, event);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};
interface DecodedProposal {
  proposal: CognitionProposal;
  bytes: number;
}
const decode = (bytes: Buffer): DecodedProposal => ({
  proposal: fromBinary(CognitionProposalSchema, bytes),
  bytes: bytes.length,
});

/** Controls one stream to a sidecar. */
export interface CallHandle {
  /**
   * Resolves to true when the event is written and the next one may follow, to false when the stream is closed. One
   * call at a time.
   */
  write(event: RuntimeEvent): Promise<boolean>;
  /** Stops reading from the socket; a few buffered messages may still arrive. */
  pause(): void;
  resume(): void;
  cancel(why: string): void;
}

export interface CallListener {
  /** Connected. Events written now arrive if the sidecar accepts the stream. */
  onReady(call: CallHandle): void;
  /** The sidecar accepted the stream. */
  onAccepted(): void;
  /** `bytes`: encoded size. */
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** Called exactly once, also when the attempt failed. `why` is short and may contain text of the sidecar. */
  onClose(why: string): void;
}

const channelOptions = ({ maxProposalBytes, keepaliveMs, keepaliveTimeoutMs }: SidecarLimits): ClientOptions => ({
  'grpc.max_receive_message_length': maxProposalBytes,
  'grpc.max_send_message_length': -1,
  'grpc.keepalive_time_ms': keepaliveMs,
  'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
  // The dialler does the retries: each attempt has its own connection, without a proxy or a shared subchannel.
  'grpc.enable_retries': 0,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
});

export interface SidecarTarget {
  /** `host:port`. */
  address: string;
  /** Sent as a bearer token; null: none. */
  token: string | null;
}

type RuntimeStream = ClientDuplexStream<RuntimeEvent, DecodedProposal>;

/** Time for the cancellation frame to be sent before the sockets are destroyed. */
const CANCEL_FLUSH_MS = 1_000;

/**
 * Dials the address and opens the stream, without TLS: the sidecar is internal by the specification. After
 * the `lease` has ended nothing is written, received proposals are discarded, and the connection is destroyed.
 */
export class SidecarCall implements CallHandle {
  readonly #limits: SidecarLimits;
  readonly #lease: Pick<Lease, 'valid'>;
  readonly #listener: CallListener;
  readonly #client: Client;
  readonly #metadata = new Metadata();
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #pendingWrites = new Set<(written: boolean) => void>();
  /** Null until connected. */
  #stream: RuntimeStream | null = null;
  #isAccepted = false;
  #closed = false;

  constructor(
    { address, token }: SidecarTarget,
    limits: SidecarLimits,
    lease: Pick<Lease, 'valid'>,
    listener: CallListener,
  ) {
    if (token !== null) this.#metadata.set('authorization', `Bearer ${token}`);
    this.#limits = limits;
    this.#lease = lease;
    this.#listener = listener;
    this.#client = new Client(
      address,
      insecureCredentials((socket) => this.#sockets.add(socket)),
      channelOptions(limits),
    );
    this.#after(limits.connectTimeoutMs, () => {
      if (this.#stream === null) this.cancel('connection timed out');
    });
    awaitConnection(this.#client.getChannel(), (connected) => {
      if (this.#isClosed()) return;
      if (connected) this.#startStream();
      else this.cancel('connection failed');
    });
  }

  write(event: RuntimeEvent): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#isClosed() || this.#stream === null) return resolve(false);
      const settle = (written: boolean) => {
        this.#pendingWrites.delete(settle);
        clearTimeout(stalled);
        resolve(written);
      };
      const stalled = setTimeout(
        () => this.cancel('write timed out: the sidecar is not reading'),
        this.#limits.stallTimeoutMs,
      );
      this.#pendingWrites.add(settle);
      this.#stream.write(event, () => settle(!this.#closed));
    });
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  cancel(why: string): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const settle of this.#pendingWrites) settle(false);
    const destroySockets = () => this.#sockets.forEach((socket) => void socket.destroy());
    // Only the active process may close the stream gracefully. Without the lease, a partly written event is dropped.
    if (!this.#lease.valid()) destroySockets();
    this.#stream?.cancel();
    this.#client.close();
    if (this.#stream === null) destroySockets();
    else setTimeout(destroySockets, CANCEL_FLUSH_MS).unref();
    this.#listener.onClose(sanitizeForLog(why));
  }

  #startStream(): void {
    const stream: RuntimeStream = this.#client.makeBidiStreamRequest(PATH, encode, decode, this.#metadata);
    this.#stream = stream;
    stream.on('metadata', () => this.#accept());
    stream.on('data', ({ proposal, bytes }: DecodedProposal) => {
      if (this.#isClosed()) return;
      this.#accept();
      this.#listener.onProposal(proposal, bytes);
    });
    stream.on('error', ({ code, details }: ServiceError) => this.cancel(`${status[code] ?? code}: ${details}`));
    stream.on('end', () => this.cancel('the sidecar ended the stream'));
    this.#after(this.#limits.acceptanceGraceMs, () => this.#accept());
    this.#listener.onReady(this);
  }

  #accept(): void {
    if (this.#isAccepted || this.#isClosed()) return;
    this.#isAccepted = true;
    this.#listener.onAccepted();
  }

  /** Closes the call first if the lease has ended. */
  #isClosed(): boolean {
    if (!this.#closed && !this.#lease.valid()) this.cancel('the lease of this process is over');
    return this.#closed;
  }

  #after(ms: number, act: () => void): void {
    this.#timers.add(setTimeout(act, ms));
  }
}

/**
 * Credentials without TLS that expose the sockets: even after `close()` the library waits without limit for a peer that
 * never answers, so the sockets have to be destroyed here.
 */
function insecureCredentials(onSocket: (socket: Socket) => void): ChannelCredentials {
  const plain = credentials.createInsecure();
  const connector = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...args) => {
    const created = connector(...args);
    return {
      ...created,
      connect(socket) {
        onSocket(socket);
        return created.connect(socket);
      },
    };
  };
  return plain;
}

/** Calls back once: connected or failed. A channel that is closed in between never calls back. */
function awaitConnection(channel: ReturnType<Client['getChannel']>, callback: (connected: boolean) => void): void {
  const check = () => {
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) return callback(true);
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return callback(false);
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, (error) => {
      if (error === undefined || error === null) check();
    });
  };
  check();
}

const CONTROL_CHARACTERS = /\p{Cc}+/gu;
/** Makes text from the peer safe for a log line. */
const sanitizeForLog = (text: string): string => text.replace(CONTROL_CHARACTERS, ' ').slice(0, 200);
