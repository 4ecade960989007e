import type { SessionTokenStore } from '../../../src/store/contract/session-tokens.ts';
import { bigint, uuid } from './columns.ts';
import type { Session } from './session.ts';

export const sessionTokenStore = (session: Session): SessionTokenStore => ({
  markUsed: (tokens) =>
    session.write('signIns.markUsed', [tokens], (tables, tokens) => {
      const unused = new Set<string>();
      for (const { deviceId, timestamp, nonce } of tokens) {
        const token = `${uuid(deviceId, 'device_id')}.${bigint(timestamp, 'signed_at')}.${nonce}`;
        if (tables.usedSessionTokens.has(token)) continue;
        tables.usedSessionTokens.set(token, timestamp);
        unused.add(token);
      }
      return unused;
    }),
});
