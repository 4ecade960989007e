import { createServer } from 'node:net';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';
import {
  type CognitionProposal,
  CognitionProposalSchema,
  CognitionRuntime,
  type RuntimeEvent,
  RuntimeEventSchema,
} from '#proto/cognition/v1/runtime_pb.js';
import { tokenInterceptor } from './access.ts';
import { healthHandlers, healthService } from './health.ts';
import type { Log } from './log.ts';
import type { Planner } from './planner-types.ts';
import { abortStream, handleStream, type RuntimeStream } from './stream.ts';

export interface RunningServer {
  /** The port that is bound, also if port 0 was requested. */
  port: number;
  /** Ends the streams. */
  close(): Promise<void>;
}

const { orchestrate } = CognitionRuntime.method;
const definition: ServiceDefinition = {
  [orchestrate.name]: {
    path: `/${CognitionRuntime.typeName}/${orchestrate.name}`,
    requestStream: true,
    responseStream: true,
    requestSerialize: (event: RuntimeEvent) => Buffer.from(toBinary(RuntimeEventSchema, event)),
    requestDeserialize: (bytes: Buffer) => fromBinary(RuntimeEventSchema, bytes),
    responseSerialize: (proposal: CognitionProposal) => Buffer.from(toBinary(CognitionProposalSchema, proposal)),
    responseDeserialize: (bytes: Buffer) => fromBinary(CognitionProposalSchema, bytes),
  },
};

/** Limit of one event: a perception update has a whole home, with hundreds of devices and large states. */
const MAX_EVENT_BYTES = 32 * 1024 * 1024;
/** A service has one stream. A second one may arrive before the first is known to be closed. */
const MAX_STREAMS = 8;
const CLOSE_MS = 1_000;

interface ServerParts {
  planner: Planner;
  log: Log;
  /** Required of every call. Null: the network is trusted. */
  token?: string | null;
  /** Takes a free port of the same host if the address is taken. */
  otherwiseFree?: boolean;
}

/** Serves the sidecar at `host:port`, without TLS: it is internal (specification, section 1). */
export async function serve(
  address: string,
  { planner, log, token = null, otherwiseFree = false }: ServerParts,
): Promise<RunningServer> {
  const server = new Server({
    ...(token !== null && { interceptors: [tokenInterceptor(token)] }),
    'grpc.max_receive_message_length': MAX_EVENT_BYTES,
    'grpc.max_concurrent_streams': MAX_STREAMS,
    'grpc.enable_channelz': 0,
  });
  const streams = new Set<RuntimeStream>();
  let closing = false;

  function acceptStream(stream: RuntimeStream): void {
    if (streams.size >= MAX_STREAMS || closing) {
      abortStream(stream, 'too many streams');
      return;
    }
    streams.add(stream);
    log.info({ streams: streams.size, planner: planner.name }, 'stream opened');
    handleStream(stream, {
      planner,
      log,
      onClose(why) {
        streams.delete(stream);
        log.info({ why }, 'stream closed');
      },
    });
  }

  server.addService(definition, { [orchestrate.name]: acceptStream });
  server.addService(
    healthService,
    healthHandlers([CognitionRuntime.typeName], () => !closing),
  );
  const bind = (to: string): Promise<number> =>
    new Promise((resolve, reject) =>
      server.bindAsync(to, ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      ),
    );
  const freeAddress = `${address.slice(0, address.lastIndexOf(':'))}:0`;
  const isTaken = otherwiseFree && !(await canListen(address));
  if (isTaken) log.info({ address }, 'preferred port is taken; listening on a free one');
  const port = await bind(isTaken ? freeAddress : address).catch((error: unknown) => {
    // Another process took the port after the check.
    if (!otherwiseFree) throw error;
    return bind(freeAddress);
  });
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        closing = true;
        for (const stream of streams) stream.end();
        const force = setTimeout(() => {
          server.forceShutdown();
          resolve();
        }, CLOSE_MS);
        server.tryShutdown(() => {
          clearTimeout(force);
          resolve();
        });
      }),
  };
}

/** False if `host:port` is taken. gRPC would report that on stderr as an error that names neither the address nor the cause. */
function canListen(address: string): Promise<boolean> {
  const at = address.lastIndexOf(':');
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ host: address.slice(0, at), port: Number(address.slice(at + 1)) }, () => {
      probe.close(() => resolve(true));
    });
  });
}
