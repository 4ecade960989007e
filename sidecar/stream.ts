import { Metadata, type ServerDuplexStream, status } from '@grpc/grpc-js';
import type { CognitionProposal, RuntimeEvent } from '#proto/cognition/v1/runtime_pb.js';
import type { Log } from './log.ts';
import type { Planner } from './planner-types.ts';
import { StreamSession } from './session.ts';

export type RuntimeStream = ServerDuplexStream<RuntimeEvent, CognitionProposal>;

/** Proposals buffered while the service is not reading. */
const MAX_UNREAD_PROPOSALS = 20_000;

/** Handles a stream from its first event to its end. `onClose` is called once. */
export function handleStream(
  stream: RuntimeStream,
  { planner, log, onClose }: { planner: Planner; log: Log; onClose(why: string): void },
): void {
  const unread: CognitionProposal[] = [];
  let writable = true;
  let ended = false;
  const flush = () => {
    while (writable && unread.length > 0) writable = stream.write(unread.shift() as CognitionProposal);
  };
  const end = (why: string) => {
    if (ended) return;
    ended = true;
    session.close();
    onClose(why);
  };
  const reset = (why: string) => {
    end(why);
    abortStream(stream, why);
  };
  const session = new StreamSession({
    planner,
    log,
    resetStream: reset,
    send(message) {
      if (ended) return;
      unread.push(message);
      flush();
      if (unread.length > MAX_UNREAD_PROPOSALS) reset('the service is not reading');
    },
  });
  // The headers accept the stream before there is a proposal.
  stream.sendMetadata(new Metadata());
  stream.on('drain', () => {
    writable = true;
    flush();
  });
  stream.on('data', (event: RuntimeEvent) => {
    if (!ended) session.handleEvent(event);
  });
  stream.on('end', () => {
    end('the service ended the stream');
    stream.end();
  });
  stream.on('error', () => end('the connection broke'));
  stream.on('close', () => end('the connection closed'));
  stream.on('cancelled', () => end('the service cancelled the stream'));
}

// `destroy()` would end the stream without sending a status.
export const abortStream = (stream: RuntimeStream, why: string): void =>
  void stream.emit('error', Object.assign(new Error(why), { code: status.RESOURCE_EXHAUSTED, details: why }));
