import { hash, timingSafeEqual } from 'node:crypto';
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from '@grpc/grpc-js';

/** Started with this argument, the sidecar accepts only calls with the token that its parent process sends. */
export const TOKEN_ARGUMENT = '--token-from-parent';

/** The first message of the parent process. */
export function receiveToken(): Promise<string> {
  return new Promise((resolve, reject) => {
    process.once('message', (message: { token?: unknown } | null) => {
      if (typeof message?.token === 'string' && message.token !== '') resolve(message.token);
      else reject(new Error('the parent process sent no token'));
    });
  });
}

/** Refuses calls of every method that do not have `authorization: Bearer <token>` in their metadata. */
export function tokenInterceptor(token: string): ServerInterceptor {
  const expected = digestOf(`Bearer ${token}`);
  const isPresented = (metadata: Metadata): boolean =>
    timingSafeEqual(digestOf(String(metadata.get('authorization')[0] ?? '')), expected);
  return (_method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        const listener = new ServerListenerBuilder().withOnReceiveMetadata((metadata, accept) => {
          if (isPresented(metadata)) accept(metadata);
          else call.sendStatus(REFUSED);
        });
        next(listener.build());
      },
    });
}

const REFUSED = { code: status.UNAUTHENTICATED, details: 'the token is missing or wrong' };

const digestOf = (text: string): Buffer => hash('sha256', text, 'buffer');
