import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { MAX_BODY_BYTES } from '../shared/body.ts';

/**
 * Serves a request on this node. Its entry into the shard ends when the response starts: then the operation is done, and a
 * download or an event stream may last. It ends at once for an upload, whose body may take minutes to arrive.
 */
export function serveHere(
  listener: RequestListener,
  request: IncomingMessage,
  response: ServerResponse,
  leave: () => void,
): void {
  if (isUpload(request)) leave();
  else leaveAtResponse(response, leave);
  listener(request, response);
}

function leaveAtResponse(response: ServerResponse, leave: () => void): void {
  let isInside = true;
  const leaveOnce = () => {
    if (isInside) leave();
    isInside = false;
  };
  response.once('close', leaveOnce);
  const { writeHead } = response;
  // Node calls it for every response, also for those without an explicit header.
  response.writeHead = function writeHeadAndLeave(this: ServerResponse, ...given: unknown[]) {
    leaveOnce();
    return Reflect.apply(writeHead, this, given) as ServerResponse;
  };
}

/** A body that is longer than JSON may be, or a stream of another type. */
function isUpload({ headers }: IncomingMessage): boolean {
  if (Number(headers['content-length'] ?? 0) > MAX_BODY_BYTES) return true;
  const isStream = headers['transfer-encoding'] !== undefined;
  return isStream && !/^application\/json\b/i.test(headers['content-type'] ?? '');
}
